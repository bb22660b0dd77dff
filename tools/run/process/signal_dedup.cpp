// SPDX-License-Identifier: Apache-2.0
#include "tools/run/process/signal_dedup.h"

#include <algorithm>

namespace rdma_nccl::run {

namespace {

/// Time to wait for the other copy of a signal: slurmstepd signals all processes of a step in one loop of kill(2).
constexpr std::chrono::milliseconds other_half(20);

/// Time to wait for this node's own copy of a signal: slurmctld signals all nodes at once, in a tree of messages, so
/// another launcher may report a signal that slurmstepd here is about to send.
constexpr std::chrono::milliseconds own_copy(200);

/// After this time, a signal from the guard is a new one.
constexpr std::chrono::seconds longest_debt(5);

} // namespace

void SignalCounts::from_guard(int signal, Time now) {
    if (const auto owed = guard_owes_.find(signal); owed != guard_owes_.end()) {
        const bool in_time = now - owed->second < longest_debt;
        guard_owes_.erase(owed);
        if (in_time) {
            return;
        }
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

void SignalCounts::from_node(int signal, unsigned count, Time now) {
    auto& elsewhere = elsewhere_.try_emplace(signal, Elsewhere{now + own_copy, count}).first->second;
    elsewhere.count = std::max(elsewhere.count, count);
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
            due.push_back({signal, ++got_[signal], waiting.by_slurm, true});
            if (!waiting.guard) {
                guard_owes_[signal] = now;
            }
        }
        place = waiting_.erase(place);
    }
    for (auto place = elsewhere_.begin(); place != elsewhere_.end();) {
        if (place->second.due > now) {
            ++place;
            continue;
        }
        due.push_back({place->first, place->second.count, false, false});
        place = elsewhere_.erase(place);
    }
    return due;
}

std::optional<SignalCounts::Time> SignalCounts::deadline() const {
    std::optional<Time> first;
    for (const auto& [signal, waiting] : waiting_) {
        first = first ? std::min(*first, waiting.due) : waiting.due;
    }
    for (const auto& [signal, elsewhere] : elsewhere_) {
        first = first ? std::min(*first, elsewhere.due) : elsewhere.due;
    }
    return first;
}

unsigned SignalCounts::outstanding(int signal, unsigned count) {
    unsigned& acted = acted_[signal];
    const unsigned rest = count > acted ? count - acted : 0;
    acted += rest;
    return rest;
}

} // namespace rdma_nccl::run
