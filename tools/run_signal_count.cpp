// SPDX-License-Identifier: Apache-2.0
#include "tools/run_signal_count.h"

#include <algorithm>

namespace rdma_nccl {

namespace {

/// slurmstepd signals all processes of a step in one loop of kill(2).
constexpr std::chrono::milliseconds other_half(20);

} // namespace

void SignalCounts::note(int signal, Time now, bool Waiting::*way) {
    const auto [place, is_new] = waiting_.try_emplace(signal, Waiting{now + other_half});
    place->second.*way = true;
}

void SignalCounts::from_guard(int signal, Time now) {
    note(signal, now, &Waiting::guard);
}

void SignalCounts::direct(int signal, Time now) {
    note(signal, now, &Waiting::direct);
}

std::vector<SignalCounts::Due> SignalCounts::take_due(Time now) {
    std::vector<Due> due;
    for (auto place = waiting_.begin(); place != waiting_.end();) {
        const auto& [signal, waiting] = *place;
        const bool both = waiting.guard && waiting.direct;
        if (both || waiting.due <= now) {
            due.push_back({signal, ++got_[signal], both});
            place = waiting_.erase(place);
        } else {
            ++place;
        }
    }
    return due;
}

std::optional<SignalCounts::Time> SignalCounts::deadline() const {
    std::optional<Time> first;
    for (const auto& [signal, waiting] : waiting_) {
        first = first ? std::min(*first, waiting.due) : waiting.due;
    }
    return first;
}

unsigned SignalCounts::outstanding(int signal, unsigned count) {
    unsigned& acted = acted_[signal];
    const unsigned rest = count > acted ? count - acted : 0;
    acted += rest;
    return rest;
}

} // namespace rdma_nccl
