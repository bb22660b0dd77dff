// SPDX-License-Identifier: Apache-2.0
// What the parts of a running job share, and the parts that handle signals and watch for hangs.
#pragma once

#include "lib/base/format.h"
#include "tools/common/print.h"
#include "tools/common/process.h"
#include "tools/run/failure/hang.h"
#include "tools/run/failure/stacks.h"
#include "tools/run/job.h"
#include "tools/run/process/process_set.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <optional>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

namespace rdma_nccl::run {

/// What decides the exit code of this launcher, and when it exits.
struct JobExit {
    int own_code = 0;          ///< of the last failure of a rank on this node
    bool ended = false;        ///< this node's part of the attempt has ended
    bool orphaned = false;     ///< nobody controls this job: exit once the ranks are gone, without the other nodes
    std::optional<int> finish; ///< all launchers are to exit with this code once their ranks are gone
    std::optional<int> now;    ///< exit at once

    /// Returns the code once the launcher must exit.
    [[nodiscard]] std::optional<int> code() const {
        if (now || !ended) {
            return now;
        }
        // A rank that failed after the other nodes finished still counts.
        return orphaned ? 128 + SIGKILL : finish == 0 ? own_code : finish;
    }
};

/// What the parts of a running job share.
class JobState {
public:
    JobState(const Job& a_job, Control& a_control, ProcessSet& a_processes)
        : job(a_job), control(a_control), processes(a_processes), plan(a_job.plan), devices(a_job.find_devices),
          ender(a_processes, {a_job.node, a_job.options.shutdown_timeout, a_job.options.end_signals},
                [this](const std::string& text) { say(text); }) {}

    void say(const std::string& text) {
        if (attempt) {
            attempt->output().say("rdma-nccl: " + text);
        } else {
            print_error(text);
        }
    }

    /// Opens the event log if the user wants one.
    void open_events() {
        if (job.options.output.events.empty()) {
            return;
        }
        if (auto log = EventLog::open(job.options.output.events, job.node)) {
            events.emplace(std::move(*log));
        } else {
            print_error("warning: " + log.error().message);
        }
    }

    /// Prints problems of the output and the event log, each once.
    void report_problems() {
        if (attempt) {
            for (const auto& problem : attempt->output().take_problems()) {
                say("warning: " + problem);
            }
        }
        if (const auto problem = events ? events->take_problem() : std::nullopt) {
            say("warning: " + *problem);
        }
    }

    const Job& job;
    Control& control;
    ProcessSet& processes;
    WorldPlan plan;
    RankDevices devices;
    RankEnder ender;
    JobExit exit;
    std::optional<EventLog> events;

    // The current attempt:
    unsigned number = 0;
    std::optional<Attempt> attempt; ///< uses `events`
    std::vector<pid_t> pids;        ///< by local rank
    bool ended_by_signal = false;   ///< ranks that fail now do so because of the signal
};

/// Handles the signals to this launcher and to those of other nodes, each once.
class JobSignals {
public:
    using Time = SignalDedup::Time;

    /// `step_daemon`: pid of slurmstepd, or -1.
    JobSignals(JobState& job, pid_t step_daemon) : job_(job), step_daemon_(step_daemon) {}

    void receive(const ReceivedSignal& received, Time time) {
        if (received.sender == guard_) {
            signals_.from_guard(received.number, time);
            return;
        }
        const bool by_slurm = received.sender == step_daemon_;
        // The guard's copy may have been lost: a pending signal is not queued again.
        const bool counts_alone = by_slurm || (job_.ender.ends_job(received.number) && !job_.ender.is_ending());
        signals_.direct(received.number, time, by_slurm, counts_alone);
    }

    void obey(const SignalCount& order) {
        if (order.old && !job_.ender.ends_job(order.signal)) {
            signals_.outstanding(order.signal, order.count); // it was for ranks of an earlier attempt
        } else {
            signals_.from_node(order.signal, order.count, std::chrono::steady_clock::now());
        }
    }

    /// Handles the signals that are complete.
    void act(Time time) {
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

    /// Returns the time by which act() must be called; nullopt if no signal waits for its other copy.
    [[nodiscard]] std::optional<Time> deadline() const { return signals_.deadline(); }

private:
    /// `pass_on`: the ranks have not received the signal already.
    void deliver(int signal_number, bool pass_on, bool got_here) {
        if (const auto mapped = job_.job.options.on_signal.find(signal_number);
            mapped != job_.job.options.on_signal.end()) {
            job_.processes.signal_ranks(mapped->second);
            return;
        }
        const bool ends = job_.ender.ends_job(signal_number);
        if (ends && job_.exit.ended) { // this node waits for others; a second signal ends that
            if (++repeated_end_signals_ > 1) {
                job_.exit.now = 128 + signal_number;
            }
            return;
        }
        const bool begins = ends && !job_.ender.is_ending();
        job_.ended_by_signal = job_.ended_by_signal || begins;
        job_.ender.on_signal(signal_number, pass_on, std::chrono::steady_clock::now());
        if (begins && got_here && job_.plan.node_rank.value == 0) { // scancel signals all nodes; one message is enough
            job_.say(format_text("{}: got {}; ending {}, SIGKILL after {:g} s", job_.job.node,
                                 signal_text(signal_number), format_count(job_.processes.running(), "rank"),
                                 std::chrono::duration<double>(job_.job.options.shutdown_timeout).count()));
        }
    }

    JobState& job_;
    pid_t step_daemon_;
    const pid_t guard_ = ::getppid();
    SignalDedup signals_;
    unsigned repeated_end_signals_ = 0;
};

/// Reports this node's activity, and prints stacks when the job hangs.
class HangWatch {
public:
    using Time = Control::Time;
    static constexpr std::chrono::milliseconds sample_interval{1000};
    static constexpr std::chrono::milliseconds stack_interval{100};

    explicit HangWatch(JobState& job) : job_(job) {
        if (job.job.options.hang_after) {
            probe_.emplace(job.job.root, job.devices.ports(), job.devices.gpus());
            next_sample_ = std::chrono::steady_clock::now() + sample_interval;
        }
    }

    void start_stacks() { stacks_.start(job_.job.root, job_.processes.running_pids(), job_.job.environment); }

    /// Returns true once stacks have been printed and the ranks, whose end was delayed for them, must end.
    bool work(Time time) {
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

    /// Returns true, and delays the end of the ranks, while their stacks are being read.
    bool delays_end() {
        end_after_stacks_ = stacks_.is_reading();
        return end_after_stacks_;
    }
    [[nodiscard]] std::optional<Time> deadline() const {
        std::optional<Time> first;
        if (probe_) {
            first = next_sample_;
        }
        return stacks_.is_reading() ? earlier(first, std::chrono::steady_clock::now() + stack_interval) : first;
    }

private:
    JobState& job_;
    std::optional<ActivityProbe> probe_;
    Time next_sample_{};
    StackReader stacks_;
    bool end_after_stacks_ = false;
};

} // namespace rdma_nccl::run
