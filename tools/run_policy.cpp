// SPDX-License-Identifier: Apache-2.0
#include "tools/run_policy.h"

#include "tools/run_children.h"

#include <csignal>

namespace rdma_nccl {

std::set<int> usual_end_signals() {
    return {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
}

EndPolicy::Action EndPolicy::on_failure(int code, Time now) {
    if (phase_ != Phase::Running) {
        return {};
    }
    exit_code_ = code;
    end(SIGTERM, now);
    return {.to_groups = end_signal_};
}

EndPolicy::Action EndPolicy::on_signal(int signal_number, Time now) {
    if (!end_signals_.contains(signal_number)) {
        const bool whole_group = signal_number == SIGTSTP || signal_number == SIGCONT;
        return whole_group ? Action{.to_groups = signal_number} : Action{.to_ranks = signal_number};
    }
    if (phase_ == Phase::Running) {
        exit_code_ = 128 + signal_number;
        end(signal_number, now);
        return {.to_groups = signal_number};
    }
    if (phase_ == Phase::Ending && signal_number == SIGINT) {
        return kill(now);
    }
    // Another one while the job ends: ranks that did not heed the first may heed this.
    return phase_ == Phase::Ending ? Action{.to_groups = signal_number} : Action{};
}

EndPolicy::Action EndPolicy::on_guard_gone(Time now) {
    if (phase_ == Phase::Running) {
        exit_code_ = 128 + SIGKILL;
    }
    return kill(now);
}

void EndPolicy::on_leftovers(Time now) {
    if (phase_ == Phase::Running) {
        end(SIGTERM, now);
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

void EndPolicy::end(int signal_number, Time now) {
    phase_ = Phase::Ending;
    end_signal_ = signal_number;
    deadline_ = now + grace_;
}

EndPolicy::Action EndPolicy::kill(Time now) {
    phase_ = Phase::Killing;
    deadline_ = now + kill_patience;
    return {.to_groups = SIGKILL};
}

} // namespace rdma_nccl
