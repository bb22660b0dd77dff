// SPDX-License-Identifier: Apache-2.0
#include "plugin/stepd.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "lib/evidence/step_watch.h"
#include "lib/net/listeners.h"

#include <cerrno>
#include <csignal>
#include <grp.h>
#include <poll.h>
#include <set>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

namespace rdma_nccl {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr char has_begun = 'b';
constexpr milliseconds beginning_timeout(250); // a driver may hang; the tasks wait no longer than this
constexpr milliseconds to_exit(20);            // after its descriptors are closed
constexpr milliseconds log_timeout(2200);      // from the step's end: the report has to be sent within end_timeout
constexpr milliseconds least_log_time(300);    // where a busy machine runs this process late

/// A signal for the step's tasks may also reach this process if Slurm finds them by their parents.
void ignore_signals() {
    sigset_t all{};
    (void)::sigfillset(&all);
    (void)::sigprocmask(SIG_SETMASK, &all, nullptr);
}

/// slurmstepd, and the thread in it that starts the tasks.
struct Parent {
    pid_t process = 0;
    pid_t thread = 0;
};

/// Returns true if that thread has a child other than this process: if a launch fails midway, nothing else shows that
/// the step has ended. Also true if the kernel does not list children (CONFIG_PROC_CHILDREN).
bool has_tasks(const Parent& slurmstepd) {
    const auto root = SysRoot::open("/");
    const auto text =
        root ? root->read(format_text("/proc/{}/task/{}/children", slurmstepd.process, slurmstepd.thread)) : fail("");
    return !text || split_words(*text).size() > 1;
}

/// Reports each stranger at rank 0's ports to srun, once. Nobody else should listen there.
struct PortWatch {
    std::vector<std::uint16_t> ports;
    StepUser user;
    ExchangeClient& srun;
    std::set<std::uint32_t> reported{}; ///< inodes of sockets

    void sample() {
        const auto listeners =
            ports.empty() ? std::vector<PortListener>() : find_listeners(ports).value_or(std::vector<PortListener>());
        constexpr std::size_t most_alarms = 8; // a user may open any number of sockets
        for (const auto& stranger : strangers(listeners, user.uid)) {
            if (reported.size() < most_alarms && reported.insert(stranger.inode).second) {
                (void)srun.send_alarm(format_stranger(stranger));
            }
        }
    }
};

/// Returns when the step ended, as slurmstepd tells it. Returns nullopt if the step must not be reported: slurmstepd
/// has closed its end or is gone, or the step had no tasks for two samples.
std::optional<Clock::time_point> watch_until_end(StepWatch& watch, PortWatch& ports, const Parent& slurmstepd,
                                                 int control) {
    unsigned empty_samples = 0;
    for (;;) {
        pollfd event{control, POLLIN, 0};
        const int ready = poll_until({&event, 1}, watch.next_sample());
        if (ready < 0 && errno != EINTR) {
            return std::nullopt;
        }
        if (ready > 0) {
            Clock::time_point end;
            return ::read(control, &end, sizeof end) == sizeof end ? std::optional(end) : std::nullopt;
        }
        watch.sample();
        ports.sample();
        empty_samples = has_tasks(slurmstepd) ? 0 : empty_samples + 1;
        if (empty_samples == 2) {
            return std::nullopt;
        }
    }
}

void watch_as_user(const NodeState& state, const Parent& slurmstepd, int control, ExchangeClient& srun) {
    ignore_signals();
    if (!become(state.user)) {
        return;
    }
    (void)::prctl(PR_SET_PDEATHSIG, SIGKILL); // after setuid(2), which resets it
    const auto root = SysRoot::open(state.settings.root);
    if (!root || ::getppid() != slurmstepd.process) {
        return;
    }
    const WatchedStep step{
        *root, state.facts, state.plan, state.running_tasks, state.log_directory, state.profiles_directory};
    auto watch = watch_step(step, {state.job_id, state.facts.step.step_id, slurmstepd.process, state.user.uid,
                                   state.facts.step.leader_job_id});
    (void)!::write(control, &has_begun, 1);
    PortWatch ports{state.ports_of_rank_zero(), state.user, srun};
    const auto end = watch_until_end(watch, ports, slurmstepd, control);
    if (!end) {
        return;
    }
    watch.sample(true);
    auto faults = state.container_faults ? state.container_faults->all() : std::vector<std::string>();
    const auto log_deadline = std::max(*end + log_timeout, Clock::now() + least_log_time);
    (void)srun.send_evidence(collect_evidence(step, watch, *end, std::move(faults), log_deadline));
}

} // namespace

StepUser StepUser::current() {
    StepUser user{::geteuid(), ::getegid()};
    const int count = ::getgroups(0, nullptr);
    user.groups.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
    if (count < 0 || ::getgroups(count, user.groups.data()) != count) {
        user.groups.clear();
    }
    return user;
}

bool become(const StepUser& user) {
    return ::getuid() != 0 || (::setgroups(user.groups.size(), user.groups.data()) == 0 && ::setgid(user.gid) == 0 &&
                               ::setuid(user.uid) == 0);
}

std::optional<EvidenceProcess> EvidenceProcess::start(const NodeState& state, ExchangeClient& srun) {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
        return std::nullopt;
    }
    UniqueFd control(ends[0]);
    const UniqueFd other(ends[1]);
    // No gettid() before glibc 2.30. Slurm calls us in the thread that forked the task.
    const Parent slurmstepd{::getpid(), static_cast<pid_t>(::syscall(SYS_gettid))};
    auto child = Child::start([&] { watch_as_user(state, slurmstepd, other.get(), srun); },
                              std::array{srun.descriptor(), other.get()});
    if (!child) {
        return std::nullopt;
    }
    pollfd begun{control.get(), POLLIN, 0};
    (void)::poll(&begun, 1, static_cast<int>(beginning_timeout.count()));
    return EvidenceProcess(std::move(*child), std::move(control));
}

void EvidenceProcess::end_step(const ExchangeClient& srun) {
    const auto now = Clock::now();
    (void)::send(control_.get(), &now, sizeof now, MSG_NOSIGNAL); // the child may have been killed
    pollfd child{control_.get(), 0, 0}; // for POLLHUP, which comes at once: finish() looks now and then
    const auto deadline = now + end_timeout;
    (void)poll_until({&child, 1}, deadline);
    if (!child_.finish(std::max(milliseconds(milliseconds_until(deadline)), to_exit))) {
        srun.hang_up(); // a child stuck in a driver keeps its copy open, and srun would wait
    }
    control_.reset();
}

} // namespace rdma_nccl
