// SPDX-License-Identifier: Apache-2.0
#include "tools/run/process/process_set.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "lib/slurm/step_processes.h"
#include "tools/common/print.h"
#include "tools/common/process.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <iterator>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>

namespace rdma_nccl::run {

namespace {

using Phase = EndPolicy::Phase;

/// Keys of the epoll entries. A rank has its index + first_rank_key, another descriptor its number + first_other_key.
constexpr std::size_t first_other_key = std::size_t{1} << 32U;
constexpr std::size_t signal_key = 0;
constexpr std::size_t guard_key = 1;
constexpr std::size_t first_rank_key = 2;

/// A child that could not execute its program writes this to the report pipe.
struct ExecFailure {
    std::size_t index = 0;
    int os_error = 0;
};

/// Processes of a container's runtime may end a moment after the rank, by themselves (process 1 of bubblewrap's).
constexpr std::chrono::milliseconds helper_timeout(500);

/// Raises the soft limit of open files to the hard limit, because the launcher keeps a descriptor per rank. Returns the
/// old limit; nullopt if it stays.
std::optional<rlimit> raise_file_limit() {
    rlimit old{};
    const bool known = ::getrlimit(RLIMIT_NOFILE, &old) == 0;
    const rlimit raised{old.rlim_max, old.rlim_max};
    return known && ::setrlimit(RLIMIT_NOFILE, &raised) == 0 ? std::optional(old) : std::nullopt;
}

/// Returns the children of the calling thread, which must be the one that forks. Fails if /proc does not list them.
Result<std::vector<pid_t>> list_children() {
    // proc(5): some children may be missing if children end during the read. Each such end is one more SIGCHLD, and so
    // causes one more call.
    std::ifstream file("/proc/thread-self/children");
    if (!file) {
        return fail("cannot read /proc/thread-self/children");
    }
    return std::vector<pid_t>(std::istream_iterator<pid_t>(file), {});
}

} // namespace

bool reap_children(const std::function<void(pid_t, int)>& ended) {
    while (true) {
        int status = 0;
        const pid_t pid = ::waitpid(-1, &status, WNOHANG);
        if (pid <= 0) {
            return pid == 0;
        }
        ended(pid, status);
    }
}

UniqueFd open_pidfd(pid_t pid) {
    return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))); // glibc 2.36 and later have a function for it
}

Result<ProcessSet> ProcessSet::create(const BlockedSignals& signals, int guard_fd, bool use_pidfds) {
    auto reader = SignalReader::open(signals);
    if (!reader) {
        return tl::unexpected(reader.error());
    }
    ProcessSet set(signals, std::move(*reader), use_pidfds);
    set.old_file_limit_ = raise_file_limit();
    auto report = open_pipe(O_CLOEXEC | O_NONBLOCK);
    set.epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
    set.null_.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!set.null_) {
        return os_failure("cannot open /dev/null");
    }
    if (!report || !set.epoll_ || !set.watch(set.reader_.fd(), signal_key, EPOLLIN) ||
        // Only once, because a closed pipe stays ready.
        (guard_fd >= 0 && !set.watch(guard_fd, guard_key, EPOLLIN | EPOLLONESHOT))) {
        return os_failure("cannot set up the event loop");
    }
    set.report_ = std::move(*report);
    return set;
}

bool ProcessSet::watch(int fd, std::size_t key, std::uint32_t what) const {
    epoll_event event{};
    event.events = what;
    event.data.u64 = key;
    return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

Result<pid_t> ProcessSet::start(const Command& command, const std::vector<std::string>& environment,
                                const Binding& binding, int out_fd, int err_fd) {
    const std::size_t index = ranks_.size();
    ProcessStart start{.words = command.arguments, .file = command.file, .environment = environment};
    start.input = index == 0 ? STDIN_FILENO : null_.get();
    start.output = out_fd;
    start.errors = err_fd;
    start.leads_group = true;
    start.prepare = [&] {
        if (const auto bound = bind_self(binding); !bound) {
            print_error(format_text("warning: local rank {} {}", index, bound.error().message));
        }
        if (old_file_limit_) { // the program may use select(2)
            ::setrlimit(RLIMIT_NOFILE, &*old_file_limit_);
        }
        signals_.restore();
    };
    start.on_failure = [&](int os_error) {
        const ExecFailure failure{index, os_error};
        [[maybe_unused]] const auto written = ::write(report_.writer.get(), &failure, sizeof(failure));
        return exit_code_for_exec_error(os_error);
    };
    auto pid = start_process(start);
    if (!pid) {
        const int code = pid.error().os_error;
        return fail(
            format_text("cannot start a process: {} (limits: ulimit -u, pids.max of the cgroup)", ::strerror(code)),
            code);
    }
    Rank rank{*pid, use_pidfds_ ? open_pidfd(*pid) : UniqueFd()};
    if (rank.pidfd && !watch(rank.pidfd.get(), first_rank_key + index, EPOLLIN)) {
        rank.pidfd.reset(); // SIGCHLD also reports the end
    }
    ranks_.push_back(std::move(rank));
    has_children_ = true;
    return pid;
}

bool ProcessSet::also_watch(int fd, bool once) const {
    return watch(fd, first_other_key + static_cast<std::size_t>(fd), once ? EPOLLIN | EPOLLONESHOT : EPOLLIN);
}

Result<Events> ProcessSet::wait(std::optional<Time> until) {
    // Pidfds become ready in the order in which the processes end, and epoll keeps that order, so the first failure
    // comes first.
    constexpr std::size_t most_others = 8;
    std::vector<epoll_event> ready(first_rank_key + most_others + ranks_.size());
    const int count =
        ::epoll_wait(epoll_.get(), ready.data(), static_cast<int>(ready.size()), milliseconds_until(until));
    if (count < 0 && errno != EINTR) {
        return os_failure("cannot wait for the ranks");
    }
    ready.resize(static_cast<std::size_t>(std::max(count, 0)));
    Events events;
    for (const auto& event : ready) {
        if (event.data.u64 == signal_key) {
            while (const auto received = reader_.next()) {
                if (received->number != SIGCHLD) {
                    events.signals.push_back(*received);
                }
            }
        } else if (event.data.u64 == guard_key) {
            events.guard_gone = true;
        } else if (event.data.u64 < first_other_key) {
            reap_rank(event.data.u64 - first_rank_key, events);
        }
    }
    has_children_ = reap_children([&](pid_t pid, int status) {
        const auto rank = std::ranges::find_if(ranks_, [pid](const Rank& r) { return r.running && r.pid == pid; });
        if (rank != ranks_.end()) {
            note_exit(*rank, status, events);
        }
    });
    add_exec_failures(events);
    return events;
}

void ProcessSet::reap_rank(std::size_t index, Events& events) {
    Rank& rank = ranks_[index];
    int status = 0;
    if (rank.running && ::waitpid(rank.pid, &status, WNOHANG) == rank.pid) {
        note_exit(rank, status, events);
    }
}

void ProcessSet::note_exit(Rank& rank, int status, Events& events) {
    rank.running = false;
    rank.pidfd.reset();
    events.exits.push_back({static_cast<std::size_t>(&rank - ranks_.data()), rank.pid, status, std::nullopt});
}

void ProcessSet::add_exec_failures(Events& events) {
    // A child writes before it exits, so the reports of these exits are in the pipe or were read earlier.
    ExecFailure failure;
    while (!events.exits.empty() &&
           ::read(report_.reader.get(), &failure, sizeof(failure)) == static_cast<ssize_t>(sizeof(failure))) {
        ranks_.at(failure.index).exec_error = failure.os_error;
    }
    for (auto& rank_exit : events.exits) {
        rank_exit.exec_error = ranks_[rank_exit.index].exec_error;
    }
}

std::vector<pid_t> ProcessSet::running_pids() const {
    std::vector<pid_t> pids;
    for (const Rank& rank : ranks_) {
        if (rank.running) {
            pids.push_back(rank.pid);
        }
    }
    return pids;
}

void ProcessSet::signal_ranks(int signal_number, bool groups) const {
    for (const pid_t pid : running_pids()) {
        ::kill(groups ? -pid : pid, signal_number);
    }
}

StepDaemon find_step_daemon() {
    const auto root = SysRoot::open("/"); // this machine's processes, even if another root is emulated
    const auto pid = root ? step_daemon_above(*root, ::getpid()) : std::nullopt;
    return pid ? StepDaemon{*pid, open_pidfd(*pid)} : StepDaemon();
}

Result<std::size_t> ChildSweep::signal_new(int signal_number) {
    const auto children = list_children();
    if (!children) {
        return tl::unexpected(children.error());
    }
    std::size_t count = 0;
    for (const pid_t pid : *children) {
        if (done_.emplace(pid, signal_number).second) {
            ::kill(pid, signal_number);
            ::kill(pid, SIGCONT); // a stopped process handles the signal only when it continues
            ++count;
        }
    }
    return count;
}

void RankEnder::start_attempt() {
    processes_.clear();
    policy_ = first_policy_;
    leftovers_ = {};
    leftovers_due_.reset();
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
        report_(format_text("{}: {} did not end within {:g} s: killing", node_,
                            format_count(processes_.running(), "rank"),
                            std::chrono::duration<double>(policy_.grace()).count()));
    }
}

void RankEnder::on_signal(int signal_number, bool pass_on, Time now) {
    auto action = policy_.on_signal(signal_number, now);
    for (int* const sent : {&action.to_groups, &action.to_ranks}) {
        *sent = !pass_on && *sent == signal_number ? 0 : *sent;
    }
    send(action);
}

bool RankEnder::may_leave_alone(Time now) {
    const bool waits = processes_.has_children() && policy_.phase() == Phase::Running;
    const auto due = leftovers_due_.value_or(now + helper_timeout);
    leftovers_due_ = waits && now < due ? std::optional(due) : std::nullopt;
    return leftovers_due_.has_value();
}

bool RankEnder::end_leftovers(Time now) {
    if (may_leave_alone(now)) {
        return false;
    }
    if (processes_.has_children() && !gave_up()) {
        const bool unannounced = policy_.phase() == Phase::Running;
        policy_.on_leftovers(now);
        const auto count = leftovers_.signal_new(policy_.leftover_signal());
        if (!count) {
            report_(format_text("{}: processes that the ranks left behind cannot be found: {}", node_,
                                count.error().message));
            policy_.give_up();
        } else if (unannounced) {
            report_(format_text("{}: ending {} {} that the ranks left behind", node_, *count,
                                *count == 1 ? "process" : "processes"));
        }
    }
    return !processes_.has_children() || gave_up();
}

void RankEnder::report_left_alone() const {
    const auto pids =
        mapped(list_children().value_or(processes_.running_pids()), [](pid_t pid) { return std::to_string(pid); });
    if (!pids.empty()) {
        report_(format_text("{}: not gone after SIGKILL, left alone: pid {} (state D in ps: hangs in a driver or file "
                            "system)",
                            node_, joined(pids)));
    }
}

} // namespace rdma_nccl::run
