// SPDX-License-Identifier: Apache-2.0
#include "tools/run/job_state.h"

#include "lib/base/format.h"
#include "tools/common/print.h"
#include "tools/common/process.h"

#include <algorithm>
#include <utility>

namespace rdma_nccl::run {

constexpr std::chrono::milliseconds sample_interval(1000);
constexpr std::chrono::milliseconds stack_interval(100);

void JobState::say(const std::string& text) {
    if (attempt) {
        attempt->output().say("rdma-nccl: " + text);
    } else {
        print_error(text);
    }
}

void JobState::open_events() {
    if (job.options.output.events.empty()) {
        return;
    }
    if (auto log = EventLog::open(job.options.output.events, job.node)) {
        events.emplace(std::move(*log));
    } else {
        print_error("warning: " + log.error().message);
    }
}

void JobState::report_problems() {
    if (attempt) {
        for (const auto& problem : attempt->output().take_problems()) {
            say("warning: " + problem);
        }
    }
    if (const auto problem = events ? events->take_problem() : std::nullopt) {
        say("warning: " + *problem);
    }
}

void JobSignals::receive(const ReceivedSignal& received, Time time) {
    if (received.sender == guard_) {
        signals_.from_guard(received.number, time);
        return;
    }
    const bool by_slurm = received.sender == step_daemon_;
    // The guard's copy may have been lost: a pending signal is not queued again.
    const bool counts_alone = by_slurm || (job_.ender.ends_job(received.number) && !job_.ender.is_ending());
    signals_.direct(received.number, time, by_slurm, counts_alone);
}

void JobSignals::act(Time time) {
    for (const auto& due : signals_.take_due(time)) {
        if (job_.events && due.here) {
            job_.events->job(JobEvent::Kind::Signal, due.signal);
        }
        const unsigned times = signals_.outstanding(due.signal, due.count);
        for (unsigned i = 0; i < times; ++i) {
            deliver(due.signal, !(due.ranks_have_it && i == 0), due.here);
        }
        if (due.here) {
            job_.control.report_signal({due.signal, due.count});
        }
    }
}

/// `pass_on`: the ranks have not received the signal already.
void JobSignals::deliver(int signal_number, bool pass_on, bool got_here) {
    if (const auto mapped = job_.job.options.on_signal.find(signal_number);
        mapped != job_.job.options.on_signal.end()) {
        job_.processes.signal_ranks(mapped->second);
        return;
    }
    const bool ends = job_.ender.ends_job(signal_number);
    if (ends && job_.exit.has_ended()) { // this node waits for others; a second signal ends that
        if (++repeated_end_signals_ > 1) {
            job_.exit.exit_now(128 + signal_number);
        }
        return;
    }
    const bool begins = ends && !job_.ender.is_ending();
    job_.ended_by_signal = job_.ended_by_signal || begins;
    job_.ender.on_signal(signal_number, pass_on, std::chrono::steady_clock::now());
    if (begins && got_here && job_.plan.node_rank.value == 0) { // scancel signals all nodes; one message is enough
        job_.say(format_text("{}: got {}; ending {}, SIGKILL after {:g} s", job_.job.node, signal_text(signal_number),
                             format_count(job_.processes.running(), "rank"),
                             std::chrono::duration<double>(job_.job.options.shutdown_timeout).count()));
    }
}

void JobSignals::obey(const SignalCount& order) {
    if (order.old && !job_.ender.ends_job(order.signal)) {
        signals_.outstanding(order.signal, order.count); // it was for ranks of an earlier attempt
    } else {
        signals_.from_node(order.signal, order.count, std::chrono::steady_clock::now());
    }
}

HangWatch::HangWatch(JobState& job) : job_(job) {
    if (job.job.options.hang_after) {
        probe_.emplace(job.job.root, job.devices.ports(), job.devices.gpus());
        next_sample_ = std::chrono::steady_clock::now() + sample_interval;
    }
}

void HangWatch::start_stacks() {
    stacks_.start(job_.job.root, job_.processes.running_pids(), job_.job.environment);
}

bool HangWatch::work(Time time) {
    const auto stacks = stacks_.take();
    for (const auto& stack : stacks.value_or(std::vector<ProcessStack>())) {
        const auto rank = std::ranges::find(job_.pids, stack.pid) - job_.pids.begin();
        job_.say(stack_text(stack, format_text("rank {} on {}", job_.plan.first_rank() + rank, job_.job.node)));
    }
    if (probe_ && time >= next_sample_) {
        next_sample_ = time + sample_interval;
        if (job_.attempt) {
            job_.control.report_activity(probe_->moved(job_.attempt->output().bytes()));
        }
    }
    return stacks && std::exchange(end_after_stacks_, false);
}

std::optional<HangWatch::Time> HangWatch::deadline() const {
    std::optional<Time> first;
    if (probe_) {
        first = next_sample_;
    }
    return stacks_.is_reading() ? earlier(first, std::chrono::steady_clock::now() + stack_interval) : first;
}

} // namespace rdma_nccl::run
