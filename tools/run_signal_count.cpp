// SPDX-License-Identifier: Apache-2.0
#include "tools/run_signal_count.h"

#include <algorithm>

namespace rdma_nccl {

namespace {

/// slurmstepd signals all processes of a step in one loop of kill(2).
constexpr std::chrono::milliseconds other_half(20);

} // namespace

void SignalCounts::from_guard(int signal, Time now) {
    if (guard_owes_.erase(signal) > 0) {
        return;
    }
    auto& waiting = waiting_.try_emplace(signal, Waiting{now + other_half}).first->second;
    waiting.guard = true;
    waiting.counts = true;
}

void SignalCounts::direct(int signal, Time now, bool by_slurm, bool counts_alone) {
    auto& waiting = waiting_.try_emplace(signal, Waiting{now + other_half}).first->second;
    waiting.direct = true;
    waiting.by_slurm = waiting.by_slurm || by_slurm;
    waiting.counts = waiting.counts || counts_alone;
}

std::vector<SignalCounts::Due> SignalCounts::take_due(Time now) {
    std::vector<Due> due;
    for (auto place = waiting_.begin(); place != waiting_.end();) {
        const auto& [signal, waiting] = *place;
        if (!(waiting.guard && waiting.direct) && waiting.due > now) {
            ++place;
            continue;
        }
        if (waiting.counts) {
            due.push_back({signal, ++got_[signal], waiting.by_slurm});
            if (!waiting.guard) {
                guard_owes_.insert(signal);
            }
        }
        place = waiting_.erase(place);
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
