// SPDX-License-Identifier: Apache-2.0
#include "tools/run/process/rank_ender.h"

#include "lib/base/format.h"
#include "lib/base/text.h"

namespace rdma_nccl::run {

using Phase = EndPolicy::Phase;

void RankEnder::start_attempt() {
    processes_.clear();
    policy_ = {rules_.shutdown_timeout, rules_.end_signals};
    leftovers_ = {};
}

void RankEnder::send(const EndPolicy::Action& action) const {
    if (action.to_groups != 0) {
        processes_.signal_ranks(action.to_groups, true);
        if (ends_job(action.to_groups)) {
            processes_.signal_ranks(SIGCONT, true); // a stopped process handles the signal only when it continues
        }
    }
    if (action.to_ranks != 0) {
        processes_.signal_ranks(action.to_ranks);
    }
}

void RankEnder::on_time(Time now) {
    const bool was_ending = policy_.phase() == Phase::Ending;
    send(policy_.on_time(now));
    if (was_ending && policy_.phase() == Phase::Killing && processes_.running() > 0) {
        report_(format_text("{}: {} did not end within {:g} s: killing", rules_.node,
                            count_text(processes_.running(), "rank"),
                            std::chrono::duration<double>(rules_.shutdown_timeout).count()));
    }
}

void RankEnder::on_signal(int signal_number, bool pass_on, Time now) {
    auto action = policy_.on_signal(signal_number, now);
    if (!pass_on && action.to_groups == signal_number) {
        action.to_groups = 0;
    }
    if (!pass_on && action.to_ranks == signal_number) {
        action.to_ranks = 0;
    }
    send(action);
}

bool RankEnder::end_leftovers(Time now) {
    if (processes_.has_children() && !gave_up()) {
        const bool unannounced = policy_.phase() == Phase::Running;
        policy_.on_leftovers(now);
        const auto count = leftovers_.signal_new(policy_.leftover_signal());
        if (!count) {
            report_(format_text("{}: processes that the ranks left behind cannot be found: {}", rules_.node,
                                count.error().message));
            policy_.give_up();
        } else if (unannounced) {
            report_(format_text("{}: ending {} {} that the ranks left behind", rules_.node, *count,
                                *count == 1 ? "process" : "processes"));
        }
    }
    return !processes_.has_children() || gave_up();
}

void RankEnder::report_left_alone() const {
    std::vector<std::string> pids;
    for (const pid_t pid : list_children().value_or(processes_.running_pids())) {
        pids.push_back(std::to_string(pid));
    }
    if (!pids.empty()) {
        report_(format_text("{}: not gone after SIGKILL, left alone: pid {} (state D in ps: hangs in a driver or file "
                            "system)",
                            rules_.node, joined(pids)));
    }
}

} // namespace rdma_nccl::run
