// SPDX-License-Identifier: Apache-2.0
#include "tools/run/job.h"

#include "lib/base/format.h"
#include "tools/common/print.h"
#include "tools/common/process.h"
#include "tools/run/job_state.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <utility>

namespace rdma_nccl::run {

namespace {

using Time = EndPolicy::Time;
using std::chrono::milliseconds;

constexpr milliseconds gpu_memory_timeout(10000); ///< for drivers to free the memory of dead processes
constexpr milliseconds gpu_memory_interval(50);
constexpr milliseconds output_timeout(5000); ///< for a console that accepts nothing, once the job was ended

Time now() {
    return std::chrono::steady_clock::now();
}

bool is_readable(int fd) {
    pollfd waited{fd, POLLIN, 0};
    return ::poll(&waited, 1, 0) > 0;
}

class JobRunner : private JobState {
public:
    using JobState::JobState;

    int run() {
        open_events();
        if (control.fd() >= 0 && !processes.also_watch(control.fd())) {
            say("warning: the other launchers cannot be watched");
        }
        if (step_daemon_.end && !processes.also_watch(step_daemon_.end.get())) {
            step_daemon_.end.reset();
        }
        start_attempt(0);
        obey_orders();
        while (!exit.code()) {
            const auto happened = processes.wait(deadline());
            if (happened) {
                handle(*happened);
                continue;
            }
            say(format_text("{}: {}", job.node, happened.error().message));
            control.report_node_lost(happened.error().message);
            ender.on_failure(now());
            exit.now = 1;
        }
        const int code = *exit.code();
        events.job(JobEvent::Kind::End, code);
        report_problems();
        if (const auto* const arbiter = control.arbiter()) {
            // Through the output's thread: a console that accepts nothing must not delay the end.
            for (const auto& text : report_end({code, arbiter->failures(), arbiter->end_reasons(), arbiter->dumps()},
                                               job.options.report_file)) {
                say(text);
            }
        }
        return code;
    }

private:
    // --- Ranks

    void start_attempt(unsigned new_number) {
        attempt.reset();
        number = new_number;
        ended_by_signal = false;
        ender.start_attempt();
        exit.own_code = 0;
        exit.ended = false;
        pids.clear();
        gpu_deadline_.reset();
        output_deadline_.reset();
        auto prepared = Attempt::prepare(job, new_number, events);
        if (!prepared) {
            fail_to_start(0, prepared.error());
            end_attempt();
            return;
        }
        attempt.emplace(std::move(*prepared));
        if (!processes.also_watch(attempt->output().done_fd(), true)) {
            say("warning: the end of the ranks' output cannot be watched");
        }
        for (unsigned i = 0; i < plan.ranks_per_node.value && !ender.is_ending(); ++i) {
            const auto started = attempt->start(processes, plan, i);
            pids.push_back(started.value_or(0));
            if (!started) {
                fail_to_start(i, started.error());
            }
        }
        attempt->output().close_ends();
        if (processes.running() == 0) {
            end_attempt();
        }
    }

    /// Handles an error of the launcher itself with one rank, or with all from `local_rank` on.
    void fail_to_start(unsigned local_rank, const Error& error) {
        say(format_text("rank {} (local {}) on {}: {}; ending the other {}", plan.first_rank() + local_rank, local_rank,
                        job.node, error.message, format_count(processes.running(), "rank")));
        auto failure = failure_of(job, {local_rank, 0, 1 << 8, {}}, number);
        failure.error = error.message;
        control.report_failure(failure, now());
        if (attempt) {
            attempt->add(failure);
        }
        ender.on_failure(now());
    }

    void handle_exit(const RankExit& rank_exit) {
        attempt->note_exit(rank_exit);
        if (rank_exit.status == 0 && !rank_exit.exec_error) {
            return;
        }
        auto failure = failure_of(job, rank_exit, number);
        const bool by_us = ender.is_ending() && (failure.code == 128 + SIGTERM || failure.code == 128 + SIGKILL);
        failure.out_of_memory = !by_us && memory_.happened();
        if (!ender.is_ending()) {
            say(describe_failure(failure, processes.running()));
        }
        if (!by_us && !ended_by_signal) {
            control.report_failure(failure, rank_exit.time);
            attempt->add(failure);
            exit.own_code = failure.code;
        }
        ender.on_failure(now());
    }

    /// Called when no rank runs: ends the leftover processes, and reports to the others when there are none.
    void end_attempt() {
        if (exit.ended || !ender.end_leftovers(now()) || waits_for_output() || waits_for_gpus()) {
            return;
        }
        if (ender.gave_up()) {
            ender.report_left_alone();
        }
        exit.ended = true;
        gpu_deadline_.reset();
        output_deadline_.reset();
        if (exit.orphaned) { // for the other nodes, this node is lost
            return;
        }
        if (attempt) {
            for (const auto& failure : attempt->complete_failures(devices)) {
                control.report_failure(failure, now());
            }
            report_dumps();
        }
        control.report_ended({number, !ender.gave_up()});
    }

    /// In a job that fails, each node's launcher reads its ranks' files: the directory may be one of the node's alone.
    void report_dumps() {
        std::vector<std::string> problems;
        const auto dumps = ender.is_ending() ? attempt->read_dumps(problems) : std::vector<RankDump>();
        for (const auto& dump : dumps) {
            control.report_dump(dump);
        }
        for (const auto& problem : problems) {
            say(format_text("warning: {}: {}", job.node, problem));
        }
    }

    /// Output is never dropped because a console is slow. But a job that was ended waits only a limited time for it.
    bool waits_for_output() {
        if (!attempt || is_readable(attempt->output().done_fd())) {
            return false;
        }
        if (ender.is_ending() && !output_deadline_) {
            output_deadline_ = now() + output_timeout;
        }
        return !output_deadline_ || now() < *output_deadline_;
    }

    /// Before a restart the memory of the GPUs must be free: the driver frees it after the last process that uses it
    /// has ended.
    bool waits_for_gpus() {
        const bool may_restart = number < job.options.max_restarts && ender.is_ending() && !ended_by_signal;
        const auto files = may_restart ? devices.gpu_files() : std::vector<std::string>();
        if (files.empty() || find_device_processes(job.root, files).empty()) {
            gpu_deadline_.reset();
            return false;
        }
        if (!gpu_deadline_) {
            gpu_deadline_ = now() + gpu_memory_timeout;
        }
        return now() < *gpu_deadline_;
    }

    // --- Events

    void handle(const Events& happened) {
        const auto time = now();
        // Signals are handled before exits, and exits wait for a signal whose other copy has not come yet: a rank that
        // fails because of a signal to the whole step is not the cause.
        for (const auto& rank_exit : happened.exits) {
            signals_.expect_copy(rank_exit, time);
        }
        for (const auto& received : happened.signals) {
            signals_.receive(received, time);
        }
        signals_.act(time);
        if (happened.guard_gone) {
            kill_all("its launcher was killed", time);
        }
        if (step_daemon_.end && is_readable(step_daemon_.end.get())) {
            step_daemon_.end.reset(); // only once, because it stays readable
            kill_all("its slurmstepd was killed", time);
        }
        exits_.insert(exits_.end(), happened.exits.begin(), happened.exits.end());
        if (!signals_.deadline()) {
            for (const auto& rank_exit : std::exchange(exits_, {})) {
                handle_exit(rank_exit);
            }
        }
        ender.on_time(now());
        if (hang_watch_.work(time)) {
            obey(EndRanks{number, {}});
        }
        if (processes.running() == 0 && exits_.empty()) {
            end_attempt();
        }
        obey_orders();
    }

    /// The guard or slurmstepd is gone, so nobody controls this job: no grace, and no waiting for other nodes.
    void kill_all(std::string_view why, Time time) {
        control.report_node_lost(format_text("node {} is lost: {}", job.node, why));
        ender.on_guard_gone(time);
        exit.orphaned = true;
    }

    // --- Orders

    void obey_orders() {
        // An order may be answered at once, and the answer may cause another order.
        for (auto orders = process_control(); !orders.empty() && !exit.code(); orders = process_control()) {
            for (const auto& order : orders) {
                std::visit([this](const auto& one) { obey(one); }, order);
            }
        }
    }

    std::vector<Order> process_control() {
        auto orders = control.process(now());
        for (const auto& warning : control.take_warnings()) {
            say(format_text("warning: {}: {}", job.node, warning));
        }
        return orders;
    }

    void obey(const EndRanks& order) {
        if (order.attempt == number && !exit.ended && !hang_watch_.delays_end()) {
            ender.on_failure(now());
        }
    }
    void obey(const SignalCount& order) { signals_.obey(order); }
    void obey(const Restart& order) {
        plan.master_port = {order.port, "the restart"};
        events.job(JobEvent::Kind::Restart, static_cast<int>(order.attempt));
        if (plan.node_rank.value == 0) {
            say(format_text("starting all ranks again ({} of {} restarts), port {}", order.attempt,
                            job.options.max_restarts, order.port));
        }
        start_attempt(order.attempt);
    }
    void obey(const Finish& order) {
        exit.finish = order.code;
        if (!exit.ended) {           // the others gave this node up, or finished before it connected
            ender.on_failure(now()); // nothing may outlive the launcher
        }
    }
    void obey(const ShowStacks& /*order*/) { hang_watch_.show_stacks(); }
    void obey(const Laggard& order) { hang_watch_.name(order); }

    [[nodiscard]] std::optional<Time> deadline() const {
        auto first = earlier(earlier(ender.deadline(), control.deadline()), signals_.deadline());
        first = earlier(earlier(first, output_deadline_), hang_watch_.deadline());
        return gpu_deadline_ ? earlier(first, now() + gpu_memory_interval) : first;
    }

    StepDaemon step_daemon_ = find_step_daemon();
    JobSignals signals_{*this, step_daemon_.pid};
    HangWatch hang_watch_{*this};
    OutOfMemoryWatch memory_;
    std::vector<RankExit> exits_; ///< not handled yet
    std::optional<Time> output_deadline_;
    std::optional<Time> gpu_deadline_;
};

} // namespace

RankFailure failure_of(const Job& job, const RankExit& rank_exit, unsigned attempt) {
    RankFailure failure;
    failure.host = job.node;
    failure.node_rank = job.plan.node_rank.value;
    failure.local_rank = static_cast<unsigned>(rank_exit.index);
    failure.rank = job.plan.first_rank() + failure.local_rank;
    failure.attempt = attempt;
    failure.most_attempts = 1 + job.options.max_restarts;
    failure.pid = rank_exit.pid;
    failure.program = command_text(job.commands.at(rank_exit.index));
    failure.exec_error = rank_exit.exec_error;
    failure.code =
        rank_exit.exec_error ? exit_code_for_exec_error(*rank_exit.exec_error) : exit_code_for_status(rank_exit.status);
    if (WIFSIGNALED(rank_exit.status)) {
        failure.signal = WTERMSIG(rank_exit.status);
        failure.core_dumped = WCOREDUMP(rank_exit.status);
    }
    const auto ago = std::chrono::duration_cast<std::chrono::microseconds>(now() - rank_exit.time);
    failure.time_us = wall_time_us() - ago.count(); // it may have waited for a signal
    return failure;
}

std::string describe_failure(const RankFailure& failure, std::size_t others) {
    return format_text("rank {} (local {}) on {}, pid {}: {}{}", failure.rank, failure.local_rank, failure.host,
                       failure.pid, describe_end(failure),
                       others == 0 ? std::string()
                                   : format_text("; ending the other {}", format_count(others, "rank")));
}

int run_job(const Job& job, Control& control, const BlockedSignals& signals, int guard_fd) {
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    auto processes = ProcessSet::create(signals, guard_fd);
    if (!processes) {
        print_error(format_text("{}: {}", job.node, processes.error().message));
        return 1;
    }
    return JobRunner(job, control, *processes).run();
}

} // namespace rdma_nccl::run
