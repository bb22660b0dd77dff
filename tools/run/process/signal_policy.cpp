// SPDX-License-Identifier: Apache-2.0
#include "tools/run/process/signal_policy.h"

namespace rdma_nccl::run {

/// Time to wait for the other copy of a signal: slurmstepd signals all processes of a step in one loop of kill(2).
constexpr std::chrono::milliseconds other_copy(20);

/// Time to wait for this node's own copy of a signal: slurmctld signals all nodes at once, in a tree of messages, so
/// another launcher may report a signal that slurmstepd here is about to send; or a rank has died of it.
constexpr std::chrono::milliseconds own_copy(200);

/// After this time, a signal from the guard is a new one.
constexpr std::chrono::seconds guard_timeout(5);

EndPolicy::Action EndPolicy::on_failure(Time now) {
    if (phase_ != Phase::Running) {
        return {};
    }
    end(now);
    return {.to_groups = SIGTERM};
}

EndPolicy::Action EndPolicy::on_signal(int signal_number, Time now) {
    if (!ends_job(signal_number)) {
        const bool whole_group = signal_number == SIGTSTP || signal_number == SIGCONT;
        return whole_group ? Action{.to_groups = signal_number} : Action{.to_ranks = signal_number};
    }
    if (phase_ == Phase::Running) {
        end(now);
        return {.to_groups = signal_number};
    }
    if (phase_ == Phase::Ending && signal_number == SIGINT) {
        return kill(now);
    }
    // Another signal while the job ends: ranks that ignored the first may react to this one.
    return phase_ == Phase::Ending ? Action{.to_groups = signal_number} : Action{};
}

EndPolicy::Action EndPolicy::on_time(Time now) {
    if (!deadline_ || now < *deadline_) {
        return {};
    }
    if (phase_ == Phase::Ending) {
        return kill(now);
    }
    give_up();
    return {};
}

void EndPolicy::give_up() {
    phase_ = Phase::GivenUp;
    deadline_.reset();
}

void EndPolicy::end(Time now) {
    phase_ = Phase::Ending;
    deadline_ = now + grace_;
}

EndPolicy::Action EndPolicy::kill(Time now) {
    phase_ = Phase::Killing;
    deadline_ = now + kill_timeout;
    return {.to_groups = SIGKILL};
}

void SignalDedup::from_guard(int signal, Time now) {
    if (const auto owed = guard_due_.find(signal); owed != guard_due_.end()) {
        const bool in_time = now - owed->second < guard_timeout;
        guard_due_.erase(owed);
        if (in_time) {
            return;
        }
    }
    auto& waiting = waiting_.try_emplace(signal, Waiting{now + other_copy}).first->second;
    waiting.guard = true;
    waiting.counts = true;
}

void SignalDedup::direct(int signal, Time now, bool by_slurm, bool counts_alone) {
    auto& waiting = waiting_.try_emplace(signal, Waiting{now + other_copy}).first->second;
    waiting.direct = true;
    waiting.by_slurm = waiting.by_slurm || by_slurm;
    waiting.counts = waiting.counts || counts_alone;
}

void SignalDedup::expect(int signal, Time now) {
    waiting_.try_emplace(signal, Waiting{now + own_copy});
}

void SignalDedup::from_node(int signal, unsigned count, Time now) {
    auto& elsewhere = elsewhere_.try_emplace(signal, Elsewhere{now + own_copy, count}).first->second;
    elsewhere.count = std::max(elsewhere.count, count);
}

std::vector<SignalDedup::Due> SignalDedup::take_due(Time now) {
    std::vector<Due> due;
    std::erase_if(waiting_, [&](const auto& entry) {
        const auto& [signal, waiting] = entry;
        if (!(waiting.guard && waiting.direct) && waiting.due > now) {
            return false;
        }
        if (waiting.counts) {
            due.push_back({signal, ++received_[signal], waiting.by_slurm, true});
            if (!waiting.guard) {
                guard_due_[signal] = now;
            }
        }
        return true;
    });
    std::erase_if(elsewhere_, [&](const auto& entry) {
        const bool is_due = entry.second.due <= now;
        if (is_due) {
            due.push_back({entry.first, entry.second.count, false, false});
        }
        return is_due;
    });
    return due;
}

std::optional<SignalDedup::Time> SignalDedup::deadline() const {
    std::optional<Time> first;
    for (const auto& [signal, waiting] : waiting_) {
        first = earlier(first, waiting.due);
    }
    for (const auto& [signal, elsewhere] : elsewhere_) {
        first = earlier(first, elsewhere.due);
    }
    return first;
}

unsigned SignalDedup::outstanding(int signal, unsigned count) {
    unsigned& handled = handled_[signal];
    const unsigned rest = count > handled ? count - handled : 0;
    handled += rest;
    return rest;
}

} // namespace rdma_nccl::run
