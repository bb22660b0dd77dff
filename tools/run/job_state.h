// SPDX-License-Identifier: Apache-2.0
// What the parts of a running job share, and the parts that handle signals and watch for hangs.
#pragma once

#include "tools/run/failure/hang.h"
#include "tools/run/failure/stacks.h"
#include "tools/run/job.h"
#include "tools/run/process/process_set.h"

#include <optional>
#include <string>
#include <unistd.h>
#include <vector>

namespace rdma_nccl::run {

/// What decides the exit code of this launcher, and when it exits.
class JobExit {
public:
    void on_attempt() {
        own_code_ = 0;
        ended_ = false;
    }
    /// A rank of this node failed.
    void on_failure(int code) { own_code_ = code; }
    /// This node's part of the attempt has ended.
    void on_ended() { ended_ = true; }
    /// Nobody controls this job any more: exit once the ranks are gone, without asking the other nodes.
    void on_orphaned() { orphaned_ = true; }
    /// All launchers are to exit with this code once their ranks are gone.
    void on_finish(int code) { finish_ = code; }
    void exit_now(int code) { now_ = code; }

    [[nodiscard]] bool has_ended() const { return ended_; }
    [[nodiscard]] bool is_orphaned() const { return orphaned_; }
    /// Returns the code once the launcher must exit.
    [[nodiscard]] std::optional<int> code() const {
        if (now_ || !ended_) {
            return now_;
        }
        // A rank that failed after the other nodes finished still counts.
        return orphaned_ ? 128 + SIGKILL : finish_ == 0 ? own_code_ : finish_;
    }

private:
    int own_code_ = 0; ///< of the last failure on this node
    bool ended_ = false;
    bool orphaned_ = false;
    std::optional<int> finish_;
    std::optional<int> now_;
};

/// What the parts of a running job share.
class JobState {
public:
    JobState(const Job& a_job, Control& a_control, ProcessSet& a_processes)
        : job(a_job), control(a_control), processes(a_processes), plan(a_job.plan), devices(a_job.find_devices),
          ender(a_processes, {a_job.node, a_job.options.shutdown_timeout, a_job.options.end_signals},
                [this](const std::string& text) { say(text); }) {}

    void say(const std::string& text);
    /// Opens the event log if the user wants one.
    void open_events();
    /// Prints problems of the output and the event log, each once.
    void report_problems();

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

    void receive(const ReceivedSignal& received, Time time);
    void obey(const SignalCount& order);
    /// Handles the signals that are complete.
    void act(Time time);
    /// Returns the time by which act() must be called; nullopt if no signal waits for its other copy.
    [[nodiscard]] std::optional<Time> deadline() const { return signals_.deadline(); }

private:
    void deliver(int signal_number, bool pass_on, bool got_here);

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

    explicit HangWatch(JobState& job);

    void start_stacks();
    /// Returns true once stacks have been printed and the ranks, whose end was delayed for them, must end.
    bool work(Time time);
    /// Returns true, and delays the end of the ranks, while their stacks are being read.
    bool delays_end() {
        end_after_stacks_ = stacks_.is_reading();
        return end_after_stacks_;
    }
    [[nodiscard]] std::optional<Time> deadline() const;

private:
    JobState& job_;
    std::optional<ActivityProbe> probe_;
    Time next_sample_;
    StackReader stacks_;
    bool end_after_stacks_ = false;
};

} // namespace rdma_nccl::run
