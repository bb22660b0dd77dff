// SPDX-License-Identifier: Apache-2.0
#include "tools/run_job.h"

#include "lib/format.h"
#include "tools/print.h"
#include "tools/run_children.h"
#include "tools/run_message.h"
#include "tools/run_policy.h"

#include <csignal>
#include <cstring>
#include <set>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace rdma_nccl {

namespace {

using Phase = EndPolicy::Phase;

EndPolicy::Time now() {
    return std::chrono::steady_clock::now();
}

std::string count_of(std::size_t count, std::string_view one, std::string_view several) {
    return format_text("{} {}", count, count == 1 ? one : several);
}

std::string seconds(std::chrono::milliseconds time) {
    return format_text("{:g} s", std::chrono::duration<double>(time).count());
}

class JobRunner {
public:
    JobRunner(const Job& job, ProcessSet& processes) : job_(job), processes_(processes), policy_(job.grace) {}

    int run() {
        start_ranks();
        while (policy_.phase() != Phase::GivenUp && (processes_.running() > 0 || processes_.has_children())) {
            const auto events = processes_.wait(policy_.deadline());
            if (!events) {
                print_error(format_text("{}: {}", job_.node, events.error().message));
                send(policy_.on_failure(1, now()));
                break;
            }
            handle(*events);
        }
        if (policy_.phase() == Phase::GivenUp) {
            report_hanging();
        }
        return policy_.exit_code();
    }

private:
    void start_ranks() {
        for (unsigned i = 0; i < job_.plan.ranks_per_node.value && policy_.phase() == Phase::Running; ++i) {
            const auto binding = job_.worker.placed == nullptr ? Binding() : binding_of(*job_.worker.placed, i);
            const auto started = processes_.start(
                job_.commands.of(i), worker_environment(job_.plan, i, job_.worker, job_.environment), binding);
            if (!started) {
                print_error(format_text("rank {} (local {}) on {}: {}; ending the other {}", job_.plan.first_rank() + i,
                                        i, job_.node, started.error().message,
                                        count_of(processes_.running(), "rank", "ranks")));
                send(policy_.on_failure(1, now()));
            }
        }
    }

    void handle(const Events& events) {
        // Signals before exits: a rank that fails because of a signal to the whole step is not the cause.
        for (const auto& received : events.signals) {
            if (is_news(received)) {
                handle_signal(received.number);
            }
        }
        if (events.guard_gone) {
            send(policy_.on_guard_gone(now()));
        }
        for (const auto& rank_exit : events.exits) {
            handle_exit(rank_exit);
        }
        handle_time();
        if (processes_.running() == 0 && processes_.has_children()) {
            end_leftovers();
        }
    }

    /// The guard hands all signals on. Slurm, depending on its proctrack plugin and SignalChildrenProcesses, sends them
    /// to this process too: one Ctrl-C must not count as two, nor reach the ranks twice from here.
    bool is_news(const ReceivedSignal& received) {
        if (received.sender == guard_) {
            return direct_signals_.erase(received.number) == 0;
        }
        if (!is_end_signal(received.number) || policy_.phase() != Phase::Running) {
            return false;
        }
        direct_signals_.insert(received.number);
        return true;
    }

    void handle_signal(int signal_number) {
        const bool begins = is_end_signal(signal_number) && policy_.phase() == Phase::Running;
        send(policy_.on_signal(signal_number, now()));
        if (begins) {
            print_error(format_text("{}: got {}; ending {}, SIGKILL after {}", job_.node, signal_text(signal_number),
                                    count_of(processes_.running(), "rank", "ranks"), seconds(job_.grace)));
        }
    }

    void handle_exit(const RankExit& rank_exit) {
        const int code = rank_exit.exec_error ? exit_code_for_exec_error(*rank_exit.exec_error)
                                              : exit_code_for_status(rank_exit.status);
        if (code == 0) {
            return;
        }
        if (policy_.phase() == Phase::Running) {
            print_error(describe_failure(job_, rank_exit, processes_.running()));
        }
        send(policy_.on_failure(code, now()));
    }

    void handle_time() {
        const bool was_ending = policy_.phase() == Phase::Ending;
        send(policy_.on_time(now()));
        if (was_ending && policy_.phase() == Phase::Killing && processes_.running() > 0) {
            print_error(format_text("{}: {} did not end within {}: killing", job_.node,
                                    count_of(processes_.running(), "rank", "ranks"), seconds(job_.grace)));
        }
    }

    void end_leftovers() {
        const bool unannounced = policy_.phase() == Phase::Running;
        policy_.on_leftovers(now());
        const auto count = leftovers_.signal_new(policy_.leftover_signal());
        if (!count) {
            print_error(format_text("{}: processes that the ranks left behind cannot be found: {}", job_.node,
                                    count.error().message));
            policy_.give_up();
        } else if (unannounced) {
            print_error(format_text("{}: ending {} that the ranks left behind", job_.node,
                                    count_of(*count, "process", "processes")));
        }
    }

    void send(const EndPolicy::Action& action) {
        if (action.to_groups != 0) {
            processes_.signal_groups(action.to_groups);
            if (is_end_signal(action.to_groups)) {
                processes_.signal_groups(SIGCONT); // a stopped process acts on the signal only when it runs again
            }
        }
        if (action.to_ranks != 0) {
            processes_.signal_ranks(action.to_ranks);
        }
    }

    void report_hanging() const {
        std::string pids;
        for (const pid_t pid : list_children().value_or(processes_.running_pids())) {
            pids += format_text("{}{}", pids.empty() ? "" : ", ", pid);
        }
        if (!pids.empty()) {
            print_error(format_text("{}: not gone after SIGKILL, left alone: pid {} (state D in ps: hangs in a driver "
                                    "or file system)",
                                    job_.node, pids));
        }
    }

    const Job& job_;
    ProcessSet& processes_;
    EndPolicy policy_;
    ChildSweep leftovers_;
    pid_t guard_ = ::getppid();
    std::set<int> direct_signals_; ///< acted on, but not come from the guard yet
};

} // namespace

std::string describe_failure(const Job& job, const RankExit& rank_exit, std::size_t others) {
    std::string what;
    if (rank_exit.exec_error) {
        what = format_text("cannot execute {}: {}", job.commands.of(rank_exit.index).file,
                           ::strerror(*rank_exit.exec_error));
        if (*rank_exit.exec_error == ENOENT) {
            what += " (the interpreter named in its first line or its ELF header)";
        }
    } else if (WIFSIGNALED(rank_exit.status)) {
        what = format_text("killed by {}{}", signal_text(WTERMSIG(rank_exit.status)),
                           WCOREDUMP(rank_exit.status) ? ", core dumped" : "");
    } else {
        what = format_text("exited with code {}", WEXITSTATUS(rank_exit.status));
    }
    return format_text("rank {} (local {}) on {}, pid {}: {}{}", job.plan.first_rank() + rank_exit.index,
                       rank_exit.index, job.node, rank_exit.pid, what,
                       others == 0 ? std::string()
                                   : format_text("; ending the other {}", count_of(others, "rank", "ranks")));
}

int run_job(const Job& job, const BlockedSignals& signals, int guard_fd) {
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    auto processes = ProcessSet::create(signals, guard_fd);
    if (!processes) {
        print_error(format_text("{}: {}", job.node, processes.error().message));
        return 1;
    }
    return JobRunner(job, *processes).run();
}

} // namespace rdma_nccl
