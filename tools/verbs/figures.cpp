// SPDX-License-Identifier: Apache-2.0
#include "tools/verbs/rail.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace rdma_nccl {

PairLatency summarize_latencies(std::vector<float> half_round_trips_us) {
    auto& sorted = half_round_trips_us;
    if (sorted.empty()) {
        return {};
    }
    std::ranges::sort(sorted);
    const auto rank = [&](double share) {
        const auto number = std::ceil(share * static_cast<double>(sorted.size()));
        return static_cast<double>(sorted[static_cast<std::size_t>(std::max(number, 1.0)) - 1]);
    };
    return {.min_us = sorted.front(),
            .median_us = rank(0.5),
            .p99_us = rank(0.99),
            .p999_us = rank(0.999),
            .max_us = sorted.back(),
            .round_trips = sorted.size()};
}

void SteadyRate::add(Clock::time_point time, std::uint64_t bytes) {
    const Sample sample{time, static_cast<double>(bytes)};
    cross(from_, sample);
    cross(until_, sample);
    last_ = sample;
}

void SteadyRate::cut(Clock::time_point time) {
    if (!until_.known && time < until_.time) {
        until_.time = time;
    }
}

double SteadyRate::gbps() const {
    const auto at = [this](const Edge& edge) { return Sample{edge.time, edge.known ? edge.bytes : last_.bytes}; };
    return until_.time <= from_.time ? rate(begin_, last_) : rate(at(from_), at(until_));
}

void SteadyRate::cross(Edge& edge, const Sample& sample) const {
    if (edge.known || sample.time < edge.time) {
        return;
    }
    const std::chrono::duration<double> all = sample.time - last_.time;
    const std::chrono::duration<double> part = edge.time - last_.time;
    const double share = all.count() <= 0 ? 1 : part.count() > 0 ? part / all : 0;
    edge.bytes = last_.bytes + (sample.bytes - last_.bytes) * share;
    edge.known = true;
}

double SteadyRate::rate(const Sample& from, const Sample& until) {
    const double seconds = std::chrono::duration<double>(until.time - from.time).count();
    return seconds > 0 ? (until.bytes - from.bytes) * 8 / seconds / 1e9 : 0;
}

} // namespace rdma_nccl
