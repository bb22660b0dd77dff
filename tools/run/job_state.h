// SPDX-License-Identifier: Apache-2.0
// What the parts of a running job share: one start of its ranks, and the parts that handle signals and watch for hangs.
#pragma once

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "lib/flight_recorder/variables.h"
#include "tools/common/print.h"
#include "tools/common/process.h"
#include "tools/common/process_state.h"
#include "tools/run/failure/events.h"
#include "tools/run/failure/hang.h"
#include "tools/run/failure/laggards.h"
#include "tools/run/job.h"
#include "tools/run/output/files.h"
#include "tools/run/output/output.h"
#include "tools/run/process/process_set.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <future>
#include <optional>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace rdma_nccl::run {

/// The ranks of this node from one start to their end: processes, output, files and failures.
class Attempt {
public:
    /// Prepares the output and the directories. `number` is 0 for the first start.
    static Result<Attempt> prepare(const Job& job, unsigned number, EventLog& events) {
        const auto& parent = job.log_directory.empty() ? job.error_directory : job.log_directory;
        auto directory =
            parent.empty() ? Result<std::string>() : make_subdirectory(parent, format_text("attempt_{}", number));
        if (!directory) {
            return tl::unexpected(directory.error());
        }
        std::vector<RankName> names;
        for (unsigned i = 0; i < job.plan.ranks_per_node.value; ++i) {
            names.push_back({job.node, job.plan.node_rank.value, job.plan.first_rank() + i, i, job.options.role});
        }
        auto output = RankOutput::start(job.options.output, names, job.log_directory.empty() ? "" : *directory,
                                        [&events](unsigned local_rank) { events.first_output(local_rank); });
        if (!output) {
            return tl::unexpected(output.error());
        }
        Attempt attempt(job, number, &events, std::move(names), std::move(*directory), std::move(*output));
        if (!job.recorder_directory.empty()) {
            if (auto recorder = make_subdirectory(job.recorder_directory, format_text("attempt_{}", number))) {
                attempt.recorder_directory_ = std::move(*recorder);
            } else { // no reason for a job to fail
                attempt.output_.say(
                    format_text("warning: PyTorch's flight recorder is off: {}", recorder.error().message));
            }
        }
        return attempt;
    }

    /// Starts rank `local_rank` of this node. Ranks are started in order.
    Result<pid_t> start(ProcessSet& processes, const WorldPlan& plan, unsigned local_rank) {
        auto worker = job_->worker;
        worker.attempt = number_;
        worker.recorder_directory = recorder_directory_;
        worker.error_directory.clear();
        if (job_->options.torchelastic_environment && !directory_.empty() &&
            make_subdirectory(directory_, std::to_string(local_rank))) {
            worker.error_directory = directory_;
        }
        const auto binding = worker.placed == nullptr ? Binding() : binding_of(*worker.placed, local_rank);
        const auto ends = output_.ends_of(local_rank);
        auto pid = processes.start(job_->commands.at(local_rank),
                                   worker_environment(plan, job_->options, local_rank, worker, job_->environment),
                                   binding, ends.out, ends.err);
        if (pid) {
            events_->started(names_[local_rank], *pid);
            if (job_->options.output.announce) {
                output_.say(start_line(names_[local_rank], *pid, wall_time_us()));
            }
        }
        return pid;
    }

    /// Reports the exit to the event log and, with --announce, on the console.
    void note_exit(const RankExit& rank_exit) {
        const int code = exit_code_for_status(rank_exit.status);
        events_->exited(names_[rank_exit.index], rank_exit.pid, code);
        if (job_->options.output.announce) {
            const auto signal =
                WIFSIGNALED(rank_exit.status) ? std::optional<int>(WTERMSIG(rank_exit.status)) : std::nullopt;
            output_.say(end_line(names_[rank_exit.index], rank_exit.pid, wall_time_us(), code, signal));
        }
    }

    void add(RankFailure failure) { failures_.push_back(std::move(failure)); }

    /// To be called when all processes have ended. Adds details to the first failure, from its error.json, its output
    /// and its devices, and returns all failures.
    const std::vector<RankFailure>& complete_failures(RankDevices& devices) {
        // Only the first failure gets details: the others follow from it, and a traceback from each of 8,000 ranks
        // would be too much for the coordinator.
        if (!failures_.empty()) {
            auto& failure = failures_.front();
            const auto device = devices.of(failure.local_rank);
            failure.gpu_pci = device.gpu_pci;
            const bool is_number =
                device.gpu.find('-') == std::string::npos; // else a UUID, as of a part of a GPU (MIG)
            failure.gpu_uuid = device.gpu_uuid.empty() && !is_number ? device.gpu : device.gpu_uuid;
            failure.hcas = device.hcas;
            failure.last_lines = output_.last_errors(failure.local_rank, lines_in_report);
            if (!directory_.empty()) {
                read_error_file(format_text("{}/{}/error.json", directory_, failure.local_rank), failure);
            }
        }
        return failures_;
    }

    /// Reads the files that PyTorch's flight recorder has left of this node's ranks. `problems`: of files that cannot
    /// be read.
    [[nodiscard]] std::vector<RankDump> read_dumps(std::vector<std::string>& problems) const {
        const auto count = static_cast<std::uint32_t>(names_.size());
        auto dumps = flight_recorder::read_dumps(recorder_directory_, job_->plan.first_rank(), count, problems);
        return mapped(dumps, [this](const auto& dump) {
            return RankDump{job_->node, recorder_directory_, number_, dump};
        });
    }

    [[nodiscard]] RankOutput& output() { return output_; }

private:
    static constexpr std::size_t lines_in_report = 20;

    Attempt(const Job& job, unsigned number, EventLog* events, std::vector<RankName> names, std::string directory,
            RankOutput output)
        : job_(&job), number_(number), events_(events), names_(std::move(names)), directory_(std::move(directory)),
          output_(std::move(output)) {}

    const Job* job_;
    unsigned number_;
    EventLog* events_;
    std::vector<RankName> names_;    ///< by local rank
    std::string directory_;          ///< of this attempt, with the error.json files; empty: none
    std::string recorder_directory_; ///< of this attempt; empty: none
    RankOutput output_;
    std::vector<RankFailure> failures_;
};

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
          ender(a_processes, a_job.node, {a_job.options.shutdown_timeout, a_job.options.end_signals},
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
            events = std::move(*log);
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
        if (const auto problem = events.take_problem()) {
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
    EventLog events;

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

    /// If a signal that the launcher handles killed the rank, deadline() waits for the launcher's own copy of it.
    void expect_copy(const RankExit& rank_exit, Time time) {
        const int number = WIFSIGNALED(rank_exit.status) ? WTERMSIG(rank_exit.status) : 0;
        if (!job_.ender.is_ending() && job_.processes.handles(number)) {
            signals_.expect(number, time);
        }
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
            if (due.here) {
                job_.events.job(JobEvent::Kind::Signal, due.signal);
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

/// Reports this node's activity. On node 0, asks NCCL's RAS when nothing moves. When the job hangs, prints stacks.
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

    /// Starts to find out where the ranks are. Does nothing while it does so.
    void show_stacks() {
        if (!stacks_.valid()) {
            read_stacks_in_thread();
        }
    }

    /// Says which rank of this node others wait for, if it is one of this node.
    void name(const Laggard& laggard) {
        const auto found = find_process(job_.job.root, job_.pids, laggard.host, laggard.pid);
        if (found) {
            job_.say(format_text("{} {}; pid {}: {}", name_of(found->local_rank), laggard.what, found->pid,
                                 kernel_state(job_.job.root, found->pid)));
        }
    }

    /// Returns true once stacks have been printed and the ranks, whose end was delayed for them, must end.
    bool work(Time time) {
        const bool read = stacks_.valid() && stacks_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
        for (const auto& stack : read ? stacks_.get() : std::vector<ProcessStack>()) {
            const auto rank = std::ranges::find(job_.pids, stack.pid) - job_.pids.begin();
            job_.say(stack_text(stack, name_of(static_cast<std::size_t>(rank))));
        }
        if (probe_ && has_rank_ended()) {
            job_.control.report_activity(true); // also if that was the rank that RAS was asked through
        }
        if (const auto answer = ras_.take()) {
            report(*answer);
        }
        if (!ras_.is_open() && job_.control.take_hang_suspicion()) {
            // Older NCCL may crash when it is asked. A hang that ends the job does so, too, unless RAS sees that it
            // goes on.
            ras_.start(job_.job.options.hang_kill ? ras::Use::OfLostJob : ras::Use::OfLiveJob,
                       ras_address(job_.job.worker, job_.job.environment),
                       job_.job.environment.get(profiles_variable).value_or(""));
        }
        if (probe_ && time >= next_sample_) {
            next_sample_ = time + sample_interval;
            if (job_.attempt) {
                job_.control.report_activity(probe_->moved(job_.attempt->output().bytes()));
            }
        }
        return read && std::exchange(end_after_stacks_, false);
    }

    /// Returns true, and delays the end of the ranks, while their stacks are being read.
    bool delays_end() {
        end_after_stacks_ = stacks_.valid();
        return end_after_stacks_;
    }
    [[nodiscard]] std::optional<Time> deadline() const {
        std::optional<Time> first;
        if (probe_) {
            first = next_sample_;
        }
        const bool waits = stacks_.valid() || ras_.is_open();
        return waits ? earlier(first, std::chrono::steady_clock::now() + stack_interval) : first;
    }

private:
    /// Since the last call.
    bool has_rank_ended() {
        const auto running = job_.processes.running();
        return std::exchange(running_, running) != running;
    }

    void read_stacks_in_thread() {
        try {
            stacks_ = std::async(std::launch::async, [&job = job_.job, pids = job_.processes.running_pids()] {
                return read_stacks(job.root, pids, job.environment, std::chrono::seconds(10));
            });
        } catch (const std::system_error& error) { // the user has no more threads, as may be in a job that hangs
            job_.say(format_text("stacks cannot be shown: no thread can be started: {}", error.what()));
        }
    }

    [[nodiscard]] std::string name_of(std::size_t local_rank) const {
        return format_text("rank {} on {}", job_.plan.first_rank() + local_rank, job_.job.node);
    }

    void report(const Result<ras::Verdict>& verdict) {
        if (!verdict) {
            job_.control.report_ras({false, false, "which rank lags is not known: " + verdict.error().message, {}});
            return;
        }
        const auto since = format_text("{} s", job_.job.options.hang_after.value_or(std::chrono::seconds(0)).count());
        auto named = ras::named_in(*verdict, since);
        named.resize(std::min(named.size(), ras::most_named));
        job_.control.report_ras({verdict->moved, verdict->blames_any(),
                                 "NCCL's RAS: " + joined(ras::lines_of(*verdict, ras::describe, since), "\n    "),
                                 mapped(named, [](const ras::Named& one) {
                                     return Laggard{one.member.host, one.member.pid, one.what};
                                 })});
    }

    JobState& job_;
    std::optional<ActivityProbe> probe_;
    Time next_sample_{};
    std::future<std::vector<ProcessStack>> stacks_; ///< valid while they are being read
    RasQuestion ras_;
    std::size_t running_ = 0; ///< ranks
    bool end_after_stacks_ = false;
};

} // namespace rdma_nccl::run
