// SPDX-License-Identifier: Apache-2.0
#include "tools/run/job.h"

#include "lib/base/format.h"
#include "lib/slurm/step_processes.h"
#include "tools/common/print.h"
#include "tools/common/process.h"
#include "tools/common/wall_time.h"
#include "tools/run/attempt.h"
#include "tools/run/dry_run.h"
#include "tools/run/failure/hang.h"
#include "tools/run/failure/stacks.h"
#include "tools/run/process/device_use.h"
#include "tools/run/process/signal_policy.h"

#include <algorithm>
#include <csignal>
#include <future>
#include <poll.h>
#include <set>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

namespace rdma_nccl::run {

namespace {

using Phase = EndPolicy::Phase;
using Time = EndPolicy::Time;
using std::chrono::milliseconds;

constexpr milliseconds gpu_memory_timeout(10000); ///< for drivers to free the memory of dead processes
constexpr milliseconds gpu_memory_interval(50);
constexpr milliseconds output_timeout(5000);  ///< for a console that accepts nothing, once the job was ended
constexpr milliseconds sample_interval(1000); ///< of the hang watch
constexpr milliseconds stack_timeout(10000);
constexpr milliseconds stack_interval(100);

Time now() {
    return std::chrono::steady_clock::now();
}

std::string count_of(std::size_t count, std::string_view one, std::string_view several) {
    return format_text("{} {}", count, count == 1 ? one : several);
}

std::string seconds(milliseconds time) {
    return format_text("{:g} s", std::chrono::duration<double>(time).count());
}

bool is_readable(int fd) {
    pollfd waited{fd, POLLIN, 0};
    return ::poll(&waited, 1, 0) > 0;
}

/// The slurmstepd of this step. Slurm ends a step through it; if it is killed, nobody else would end the processes
/// below it.
struct StepDaemon {
    pid_t pid = -1; ///< -1: none
    UniqueFd end;   ///< readable once it has ended; empty: not watched
};

StepDaemon find_step_daemon() {
    const auto root = SysRoot::open("/"); // this machine's processes, even if another root is emulated
    const auto pid = root ? step_daemon_above(*root, ::getpid()) : std::nullopt;
    return pid ? StepDaemon{*pid, open_pidfd(*pid)} : StepDaemon();
}

class JobRunner {
public:
    JobRunner(const Job& job, Control& control, ProcessSet& processes, StepDaemon step_daemon)
        : job_(job), control_(control), processes_(processes), step_daemon_(std::move(step_daemon)), plan_(job.plan),
          policy_(new_policy()) {
        if (job.options.hang_after) {
            probe_.emplace(job.root, ports(), gpus());
            next_look_ = now() + sample_interval;
        }
    }

    int run() {
        open_events();
        if (control_.fd() >= 0 && !processes_.also_watch(control_.fd())) {
            say("warning: the other launchers cannot be watched");
        }
        if (step_daemon_.end && !processes_.also_watch(step_daemon_.end.get())) {
            step_daemon_.end.reset();
        }
        start_attempt(0);
        take_orders();
        while (!exit_code_) {
            const auto events = processes_.wait(deadline());
            if (!events) {
                say(format_text("{}: {}", job_.node, events.error().message));
                control_.report_node_lost(events.error().message);
                send(policy_.on_failure(now()));
                exit_code_ = 1;
                break;
            }
            handle(*events);
        }
        if (events_) {
            events_->job(JobEvent::Kind::End, *exit_code_);
        }
        tell_problems();
        if (const auto* const arbiter = control_.arbiter()) {
            // Through the output's thread: a console that accepts nothing must not delay the end.
            for (const auto& text :
                 report_end({*exit_code_, arbiter->failures(), arbiter->end_reasons()}, job_.options.report_file)) {
                say(text);
            }
        }
        return *exit_code_;
    }

private:
    [[nodiscard]] EndPolicy new_policy() const { return {job_.options.shutdown_timeout, job_.options.end_signals}; }

    const std::vector<RankDeviceNames>& devices() {
        if (!devices_) {
            devices_ = job_.find_devices ? job_.find_devices() : std::vector<RankDeviceNames>();
        }
        return *devices_;
    }

    RankDeviceNames device_of(unsigned local_rank) {
        return local_rank < devices().size() ? devices()[local_rank] : RankDeviceNames();
    }

    /// Returns the values that `name` inserts for each device, without empty ones and duplicates.
    template<typename Name>
    std::vector<std::string> of_devices(Name name) {
        std::set<std::string> names;
        for (const auto& device : devices()) {
            name(device, names);
        }
        names.erase(std::string());
        return {names.begin(), names.end()};
    }

    std::vector<std::string> ports() {
        return of_devices(
            [](const auto& device, auto& names) { names.insert(device.hcas.begin(), device.hcas.end()); });
    }
    std::vector<std::string> gpus() {
        return of_devices([](const auto& device, auto& names) {
            names.insert(device.gpu_uuid.empty() ? device.gpu_pci : device.gpu_uuid);
        });
    }
    std::vector<std::string> gpu_files() {
        return of_devices([](const auto& device, auto& names) { names.insert(device.gpu_file); });
    }

    void say(const std::string& text) {
        if (attempt_) {
            attempt_->output().say("rdma-nccl: " + text);
        } else {
            print_error(text);
        }
    }

    void open_events() {
        if (job_.options.output.events.empty()) {
            return;
        }
        if (auto log = EventLog::open(job_.options.output.events, job_.node)) {
            events_.emplace(std::move(*log));
        } else {
            print_error("warning: " + log.error().message);
        }
    }

    // --- Ranks

    void start_attempt(unsigned number) {
        attempt_.reset();
        number_ = number;
        ended_by_signal_ = false;
        processes_.clear();
        policy_ = new_policy();
        leftovers_ = {};
        pids_.clear();
        own_code_ = 0;
        ended_told_ = false;
        gpu_deadline_.reset();
        output_deadline_.reset();
        auto attempt = Attempt::prepare(job_, number, events_ ? &*events_ : nullptr);
        if (!attempt) {
            fail_to_start(number, 0, attempt.error());
            end_attempt();
            return;
        }
        attempt_.emplace(std::move(*attempt));
        if (!processes_.also_watch(attempt_->output().done_fd(), true)) {
            say("warning: the end of the ranks' output cannot be watched");
        }
        for (unsigned i = 0; i < plan_.ranks_per_node.value && policy_.phase() == Phase::Running; ++i) {
            const auto started = attempt_->start(processes_, plan_, i);
            pids_.push_back(started.value_or(0));
            if (!started) {
                fail_to_start(number, i, started.error());
            }
        }
        attempt_->all_started();
        if (processes_.running() == 0) {
            end_attempt();
        }
    }

    /// Handles an error of the launcher itself with one rank, or with all from `local_rank` on.
    void fail_to_start(unsigned number, unsigned local_rank, const Error& error) {
        say(format_text("rank {} (local {}) on {}: {}; ending the other {}", plan_.first_rank() + local_rank,
                        local_rank, job_.node, error.message, count_of(processes_.running(), "rank", "ranks")));
        auto failure = failure_of(job_, {local_rank, 0, 1 << 8, {}}, number);
        failure.error = error.message;
        control_.report_failure(failure, now());
        if (attempt_) {
            attempt_->add(failure);
        }
        send(policy_.on_failure(now()));
    }

    void handle(const Events& events) {
        const auto time = now();
        // Signals are handled before exits, and exits wait for a signal whose other copy has not come yet: a rank that
        // fails because of a signal to the whole step is not the cause.
        for (const auto& received : events.signals) {
            if (received.sender == guard_) {
                signals_.from_guard(received.number, time);
            } else {
                const bool ends = job_.options.end_signals.contains(received.number);
                // The guard's copy may have been lost: a pending signal is not queued again.
                const bool by_slurm = received.sender == step_daemon_.pid;
                signals_.direct(received.number, time, by_slurm,
                                by_slurm || (ends && policy_.phase() == Phase::Running));
            }
        }
        act_on_signals(time);
        if (events.guard_gone) {
            kill_all("its launcher was killed", time);
        }
        if (step_daemon_.end && is_readable(step_daemon_.end.get())) {
            step_daemon_.end.reset(); // only once, because it stays readable
            kill_all("its slurmstepd was killed", time);
        }
        exits_.insert(exits_.end(), events.exits.begin(), events.exits.end());
        if (!signals_.deadline()) {
            for (const auto& rank_exit : std::exchange(exits_, {})) {
                handle_exit(rank_exit);
            }
        }
        handle_time();
        check_for_hang(time);
        if (processes_.running() == 0 && exits_.empty()) {
            end_attempt();
        }
        take_orders();
    }

    /// The guard or slurmstepd is gone, so nobody controls this job: no grace, and no waiting for other nodes.
    void kill_all(std::string_view why, Time time) {
        control_.report_node_lost(format_text("node {} is lost: {}", job_.node, why));
        send(policy_.on_guard_gone(time));
        exit_code_now_ = 128 + SIGKILL;
        if (ended_told_) {
            exit_code_ = exit_code_now_;
        }
    }

    void handle_exit(const RankExit& rank_exit) {
        attempt_->note_exit(rank_exit);
        if (rank_exit.status == 0 && !rank_exit.exec_error) {
            return;
        }
        const auto failure = failure_of(job_, rank_exit, attempt_->number());
        const std::set<int> ends_of_ours{128 + SIGTERM, 128 + SIGKILL};
        const bool by_us = policy_.phase() != Phase::Running && ends_of_ours.contains(failure.code);
        auto told = failure;
        told.out_of_memory = !by_us && memory_.happened();
        if (policy_.phase() == Phase::Running) {
            say(describe_failure(told, processes_.running()));
        }
        if (!by_us && !ended_by_signal_) {
            control_.report_failure(told, now());
            attempt_->add(told);
            own_code_ = told.code;
        }
        send(policy_.on_failure(now()));
    }

    void handle_time() {
        const bool was_ending = policy_.phase() == Phase::Ending;
        send(policy_.on_time(now()));
        if (was_ending && policy_.phase() == Phase::Killing && processes_.running() > 0) {
            say(format_text("{}: {} did not end within {}: killing", job_.node,
                            count_of(processes_.running(), "rank", "ranks"), seconds(job_.options.shutdown_timeout)));
        }
    }

    void end_leftovers() {
        const bool unannounced = policy_.phase() == Phase::Running;
        policy_.on_leftovers(now());
        const auto count = leftovers_.signal_new(policy_.leftover_signal());
        if (!count) {
            say(format_text("{}: processes that the ranks left behind cannot be found: {}", job_.node,
                            count.error().message));
            policy_.give_up();
        } else if (unannounced) {
            say(format_text("{}: ending {} that the ranks left behind", job_.node,
                            count_of(*count, "process", "processes")));
        }
    }

    /// Called when no rank runs: ends the leftover processes, and reports to the others when there are none.
    void end_attempt() {
        if (ended_told_) {
            return;
        }
        if (processes_.has_children() && policy_.phase() != Phase::GivenUp) {
            end_leftovers();
        }
        const bool hanging = policy_.phase() == Phase::GivenUp;
        if ((processes_.has_children() && !hanging) || waits_for_output() || waits_for_gpus()) {
            return;
        }
        if (hanging) {
            report_hanging();
        }
        ended_told_ = true;
        gpu_deadline_.reset();
        output_deadline_.reset();
        if (exit_code_now_) { // for the other nodes, this node is lost
            exit_code_ = exit_code_now_;
            return;
        }
        if (attempt_) {
            for (const auto& failure : attempt_->complete_failures([this](unsigned rank) { return device_of(rank); })) {
                control_.report_failure(failure, now());
            }
        }
        control_.report_ended({number_, !hanging});
        if (finish_) {
            exit_code_ = final_code();
        }
    }

    /// A rank that failed after the other nodes finished still counts.
    [[nodiscard]] int final_code() const { return *finish_ == 0 ? own_code_ : *finish_; }

    /// Output is never dropped because a console is slow. But a job that was ended waits only a limited time for it.
    bool waits_for_output() {
        if (!attempt_ || is_readable(attempt_->output().done_fd())) {
            return false;
        }
        if (policy_.phase() != Phase::Running && !output_deadline_) {
            output_deadline_ = now() + output_timeout;
        }
        return !output_deadline_ || now() < *output_deadline_;
    }

    /// Before a restart the memory of the GPUs must be free: the driver frees it after the last process that holds it
    /// has ended.
    bool waits_for_gpus() {
        const bool may_restart =
            number_ < job_.options.max_restarts && policy_.phase() != Phase::Running && !ended_by_signal_;
        const auto files = may_restart ? gpu_files() : std::vector<std::string>();
        if (files.empty() || find_device_processes(job_.root, files).empty()) {
            gpu_deadline_.reset();
            return false;
        }
        if (!gpu_deadline_) {
            gpu_deadline_ = now() + gpu_memory_timeout;
        }
        return now() < *gpu_deadline_;
    }

    // --- Signals

    void act_on_signals(Time time) {
        for (const auto& due : signals_.take_due(time)) {
            if (events_ && due.here) {
                events_->job(JobEvent::Kind::Signal, due.signal);
            }
            const unsigned times = signals_.outstanding(due.signal, due.count);
            for (unsigned i = 0; i < times; ++i) {
                deliver(due.signal, !(due.ranks_have_it && i == 0), due.here);
            }
            if (due.here) {
                control_.report_signal({due.signal, due.count});
            }
        }
    }

    /// `pass_on`: the ranks have not received the signal already.
    void deliver(int signal_number, bool pass_on, bool got_here) {
        if (const auto mapped = job_.options.on_signal.find(signal_number); mapped != job_.options.on_signal.end()) {
            processes_.signal_ranks(mapped->second);
            return;
        }
        const bool ends = job_.options.end_signals.contains(signal_number);
        const bool begins = ends && policy_.phase() == Phase::Running;
        if (ends && ended_told_) { // this node waits for others; a second signal ends that
            if (++repeated_end_signals_ > 1) {
                exit_code_ = 128 + signal_number;
            }
            return;
        }
        auto action = policy_.on_signal(signal_number, now());
        ended_by_signal_ = ended_by_signal_ || begins;
        if (!pass_on && action.to_groups == signal_number) {
            action.to_groups = 0;
        }
        if (!pass_on && action.to_ranks == signal_number) {
            action.to_ranks = 0;
        }
        send(action);
        if (begins && got_here && plan_.node_rank.value == 0) { // scancel signals all nodes; one message is enough
            say(format_text("{}: got {}; ending {}, SIGKILL after {}", job_.node, signal_text(signal_number),
                            count_of(processes_.running(), "rank", "ranks"), seconds(job_.options.shutdown_timeout)));
        }
    }

    void send(const EndPolicy::Action& action) {
        if (action.to_groups != 0) {
            processes_.signal_groups(action.to_groups);
            if (job_.options.end_signals.contains(action.to_groups)) {
                processes_.signal_groups(SIGCONT); // a stopped process handles the signal only when it continues
            }
        }
        if (action.to_ranks != 0) {
            processes_.signal_ranks(action.to_ranks);
        }
    }

    // --- The other nodes

    void take_orders() {
        // An order may be answered at once, and the answer may cause another order.
        for (auto orders = control_.process(now()); !orders.empty() && !exit_code_; orders = control_.process(now())) {
            for (const auto& order : orders) {
                std::visit([this](const auto& one) { obey(one); }, order);
            }
        }
        for (const auto& warning : control_.take_warnings()) {
            say(format_text("warning: {}: {}", job_.node, warning));
        }
    }

    void obey(const EndRanks& order) {
        if (order.attempt != number_ || ended_told_) {
            return;
        }
        if (stacks_.valid()) { // wait for the stacks before the ranks are ended
            end_after_stacks_ = true;
            return;
        }
        send(policy_.on_failure(now()));
    }
    void obey(const SignalCount& order) {
        if (order.old && !job_.options.end_signals.contains(order.signal)) {
            signals_.outstanding(order.signal, order.count); // it was for ranks of an earlier attempt
        } else {
            signals_.from_node(order.signal, order.count, now());
        }
    }
    void obey(const Restart& order) {
        plan_.master_port = {order.port, "the restart"};
        if (events_) {
            events_->job(JobEvent::Kind::Restart, static_cast<int>(order.attempt));
        }
        if (plan_.node_rank.value == 0) {
            say(format_text("starting all ranks again ({} of {} restarts), port {}", order.attempt,
                            job_.options.max_restarts, order.port));
        }
        start_attempt(order.attempt);
    }
    void obey(const Finish& order) {
        finish_ = order.code;
        if (ended_told_) {
            exit_code_ = final_code();
        } else { // the others gave this node up, or finished before it connected: nothing may outlive the launcher
            send(policy_.on_failure(now()));
        }
    }
    void obey(const ShowStacks& /*order*/) {
        if (!stacks_.valid()) {
            stacks_ = std::async(std::launch::async, [&job = job_, pids = processes_.running_pids()] {
                return read_stacks(job.root, pids, job.environment, stack_timeout);
            });
        }
    }

    void tell_stacks() {
        if (!stacks_.valid() || stacks_.wait_for(milliseconds(0)) != std::future_status::ready) {
            return;
        }
        for (const auto& stack : stacks_.get()) {
            const auto rank = std::find(pids_.begin(), pids_.end(), stack.pid);
            say(stack_text(stack,
                           format_text("rank {} on {}", plan_.first_rank() + (rank - pids_.begin()), job_.node)));
        }
        if (std::exchange(end_after_stacks_, false)) {
            obey(EndRanks{number_, {}});
        }
    }

    void check_for_hang(Time time) {
        tell_stacks();
        if (!probe_ || time < next_look_) {
            return;
        }
        next_look_ = time + sample_interval;
        if (!attempt_) {
            return;
        }
        control_.report_activity(probe_->moved(attempt_->output().bytes()));
    }

    // --- Waiting

    [[nodiscard]] std::optional<Time> deadline() const {
        std::optional<Time> first = earlier(policy_.deadline(), control_.deadline());
        first = earlier(first, signals_.deadline());
        first = earlier(first, output_deadline_);
        if (gpu_deadline_) {
            first = earlier(first, now() + gpu_memory_interval);
        }
        if (probe_) {
            first = earlier(first, next_look_);
        }
        if (stacks_.valid()) {
            first = earlier(first, now() + stack_interval);
        }
        return first;
    }

    void report_hanging() {
        std::string pids;
        for (const pid_t pid : list_children().value_or(processes_.running_pids())) {
            pids += format_text("{}{}", pids.empty() ? "" : ", ", pid);
        }
        if (!pids.empty()) {
            say(format_text("{}: not gone after SIGKILL, left alone: pid {} (state D in ps: hangs in a driver or file "
                            "system)",
                            job_.node, pids));
        }
    }

    void tell_problems() {
        if (attempt_) {
            for (const auto& problem : attempt_->output().take_problems()) {
                say("warning: " + problem);
            }
        }
        if (const auto problem = events_ ? events_->take_problem() : std::nullopt) {
            say("warning: " + *problem);
        }
    }

    const Job& job_;
    Control& control_;
    ProcessSet& processes_;
    StepDaemon step_daemon_;
    WorldPlan plan_;
    EndPolicy policy_;
    ChildSweep leftovers_;
    SignalDedup signals_;
    std::vector<RankExit> exits_; ///< not handled yet
    OutOfMemoryWatch memory_;
    std::optional<EventLog> events_;
    std::optional<Attempt> attempt_; ///< uses events_
    std::optional<ActivityProbe> probe_;
    std::optional<std::vector<RankDeviceNames>> devices_;
    Time next_look_;
    pid_t guard_ = ::getppid();
    unsigned number_ = 0;                           ///< number of the current attempt
    std::vector<pid_t> pids_;                       ///< by local rank
    std::future<std::vector<ProcessStack>> stacks_; ///< being read
    bool end_after_stacks_ = false;
    int own_code_ = 0;             ///< code of the last failure on this node
    bool ended_told_ = false;      ///< the end of this attempt was reported
    bool ended_by_signal_ = false; ///< ranks that fail now do so because of the signal
    unsigned repeated_end_signals_ = 0;
    std::optional<Time> gpu_deadline_;
    std::optional<Time> output_deadline_;
    std::optional<int> exit_code_now_; ///< exit with this code once the ranks are gone, without asking the other nodes
    std::optional<int> finish_;        ///< exit code that the coordinator ordered for all launchers
    std::optional<int> exit_code_;
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
    failure.time_us = wall_time_us();
    return failure;
}

std::string describe_failure(const RankFailure& failure, std::size_t others) {
    return format_text("rank {} (local {}) on {}, pid {}: {}{}", failure.rank, failure.local_rank, failure.host,
                       failure.pid, describe_end(failure),
                       others == 0 ? std::string()
                                   : format_text("; ending the other {}", count_of(others, "rank", "ranks")));
}

int run_job(const Job& job, Control& control, const BlockedSignals& signals, int guard_fd) {
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    auto processes = ProcessSet::create(signals, guard_fd);
    if (!processes) {
        print_error(format_text("{}: {}", job.node, processes.error().message));
        return 1;
    }
    return JobRunner(job, control, *processes, find_step_daemon()).run();
}

} // namespace rdma_nccl::run
