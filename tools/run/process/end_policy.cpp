// SPDX-License-Identifier: Apache-2.0
#include "tools/run/process/end_policy.h"

#include <csignal>

namespace rdma_nccl::run {

EndPolicy::Action EndPolicy::on_failure(Time now) {
    if (phase_ != Phase::Running) {
        return {};
    }
    end(now);
    return {.to_groups = SIGTERM};
}

EndPolicy::Action EndPolicy::on_signal(int signal_number, Time now) {
    if (!end_signals_.contains(signal_number)) {
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

EndPolicy::Action EndPolicy::on_guard_gone(Time now) {
    return kill(now);
}

void EndPolicy::on_leftovers(Time now) {
    if (phase_ == Phase::Running) {
        end(now);
    }
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

int EndPolicy::leftover_signal() const {
    return phase_ == Phase::Ending ? SIGTERM : SIGKILL;
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

} // namespace rdma_nccl::run
