// SPDX-License-Identifier: Apache-2.0
#include "plugin/step_evidence.h"

#include "lib/format.h"
#include "lib/nccl_log.h"
#include "lib/nccl_name_list.h"
#include "lib/step_watch.h"
#include "lib/traffic.h"
#include "lib/users_nccl.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace rdma_nccl {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr char end_of_step = 'e';
constexpr char has_begun = 'b';
constexpr milliseconds patience_with_beginning(250);         // a driver may hang; the tasks wait no longer than this
constexpr std::size_t most_of_a_log = std::size_t{64} << 20; // of one rank; its connections come first

/// For good: what is read of the user's (logs), and what a driver is asked, is not for root.
bool become(uid_t uid, gid_t gid) {
    if (::getuid() != 0) {
        return true;
    }
    return ::setgroups(0, nullptr) == 0 && ::setgid(gid) == 0 && ::setuid(uid) == 0;
}

/// A signal for the step's tasks may reach this process, too, where Slurm finds them by their parents.
void ignore_signals() {
    sigset_t all{};
    (void)::sigfillset(&all);
    (void)::sigprocmask(SIG_SETMASK, &all, nullptr);
}

/// The ports that NCCL will use: the plan's, or what the user's own list takes.
std::vector<std::string> expected_ports(const NodeFacts& facts, const Plan& plan) {
    std::vector<std::string> ports;
    const auto users = users_nccl_value(facts, "NCCL_IB_HCA");
    if (!users || users->empty()) {
        for (const auto* port : plan.fabric.used()) {
            ports.push_back(format_text("{}:{}", port->hca, port->port));
        }
        return ports;
    }
    const NcclNameList list(*users);
    for (const auto& hca : facts.fabric.hcas) {
        for (const auto& port : hca.ports) {
            if (port.state == "ACTIVE" && list.matches(hca.name, port.number)) {
                ports.push_back(format_text("{}:{}", hca.name, port.number));
            }
        }
    }
    return ports;
}

/// Why RDMA may not have been used, as far as the node knows before the ranks run.
std::vector<std::string> causes_of(const NodeFacts& facts, const Plan& plan) {
    auto causes = judge_users_nccl(facts, plan.fabric);
    if (plan.fabric.used().empty()) {
        causes.insert(causes.end(), plan.fabric.warnings.begin(), plan.fabric.warnings.end());
    }
    const auto limits = judge_limits({facts.limits.memlock_kib, std::nullopt, std::nullopt}, true, 1);
    causes.insert(causes.end(), limits.begin(), limits.end());
    return causes;
}

/// NVIDIA's module for it, or that of MLNX_OFED. Without them there may still be DMA-BUF, which nothing here tells.
std::optional<bool> gpu_direct_possible(const Root& root) {
    const bool module = root.exists("/sys/module/nvidia_peermem/version") ||
                        root.exists("/sys/kernel/mm/memory_peers/nv_mem/version") ||
                        root.exists("/sys/kernel/mm/memory_peers/nvidia-peermem/version");
    return module ? std::optional(true) : std::nullopt;
}

void read_log(const std::string& path, NcclLogReader& reader) {
    // The user's directory: what lies there may be anything.
    const UniqueFd file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat status {};
    if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
        return;
    }
    std::array<char, 65536> buffer{};
    std::size_t total = 0;
    ssize_t count = 0;
    while (total < most_of_a_log && (count = ::read(file.get(), buffer.data(), buffer.size())) > 0) {
        reader.read({buffer.data(), static_cast<std::size_t>(count)});
        total += static_cast<std::size_t>(count);
    }
    reader.end_of_file();
}

std::vector<std::string> files_in(const std::string& directory) {
    const auto root = Root::open("/");
    std::vector<std::string> paths;
    for (const auto& name : root ? root->list(directory).value_or(std::vector<std::string>{}) : paths) {
        paths.push_back(format_text("{}/{}", directory, name));
    }
    return paths;
}

std::optional<LogEvidence> read_logs(const std::string& directory) {
    if (directory.empty()) {
        return std::nullopt;
    }
    NcclLogReader reader;
    for (const auto& path : files_in(directory)) {
        read_log(path, reader);
    }
    auto log = summary(reader.finish());
    return log.ranks > 0 ? std::optional(std::move(log)) : std::nullopt;
}

/// False when the step is not to be reported: slurmstepd has closed its end, or is gone.
bool watch_until_end(StepWatch& watch, int control) {
    for (;;) {
        const auto pause = std::chrono::ceil<milliseconds>(watch.next_look() - Clock::now()).count();
        pollfd event{control, POLLIN, 0};
        const int ready = ::poll(&event, 1, static_cast<int>(std::clamp<decltype(pause)>(pause, 0, 60000)));
        if (ready < 0 && errno != EINTR) {
            return false;
        }
        if (ready > 0) {
            char byte = 0;
            return ::read(control, &byte, 1) == 1 && byte == end_of_step;
        }
        watch.look();
    }
}

void watch_step(const EvidenceTask& task, pid_t slurmstepd, int control, ExchangeClient& srun) {
    ignore_signals();
    if (!become(task.uid, task.gid)) {
        return;
    }
    (void)::prctl(PR_SET_PDEATHSIG, SIGKILL); // behind setuid(2), which takes it back
    const auto root = Root::open(task.root);
    if (!root || ::getppid() != slurmstepd) {
        return;
    }
    const auto expected = expected_ports(task.facts, task.plan);
    StepWatch watch(*root, traffic_sources(*root, task.facts.fabric, expected),
                    {task.job_id, task.step_id, slurmstepd});
    (void)!::write(control, &has_begun, 1);
    if (!watch_until_end(watch, control)) {
        return;
    }
    watch.look(true);
    if (watch.should_settle()) {
        std::this_thread::sleep_for(watch.settle());
        watch.look(true);
    }
    NodeEvidence evidence = watch.evidence();
    evidence.node = task.facts.host_name;
    evidence.log = read_logs(task.log_directory);
    evidence.causes = causes_of(task.facts, task.plan);
    if (task.plan.visible_gpus > 0) {
        const bool ranks = task.plan.layout.layout == Layout::Rank;
        evidence.gpus = ranks ? std::min(task.tasks, task.plan.visible_gpus) : task.plan.visible_gpus;
        evidence.gpu_direct_possible = gpu_direct_possible(*root);
    }
    (void)srun.send_evidence(evidence);
}

} // namespace

std::optional<EvidenceProcess> EvidenceProcess::start(const EvidenceTask& task, ExchangeClient& srun) {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
        return std::nullopt;
    }
    UniqueFd control(ends[0]);
    const UniqueFd other(ends[1]);
    const pid_t slurmstepd = ::getpid();
    auto child = Child::start([&] { watch_step(task, slurmstepd, other.get(), srun); },
                              std::array{srun.descriptor(), other.get()});
    if (!child) {
        return std::nullopt;
    }
    pollfd begun{control.get(), POLLIN, 0};
    (void)::poll(&begun, 1, static_cast<int>(patience_with_beginning.count()));
    return EvidenceProcess(std::move(*child), std::move(control));
}

void EvidenceProcess::end_step() {
    (void)!::send(control_.get(), &end_of_step, 1, MSG_NOSIGNAL); // it may have been killed
    control_.reset();
}

std::string make_log_directory(std::uint32_t job_id, std::uint32_t step_id) {
    std::string path = format_text("/tmp/rdma-nccl-{}.{}-XXXXXX", job_id, step_id);
    return ::mkdtemp(path.data()) != nullptr ? path : std::string();
}

void remove_log_directory(const std::string& path) {
    for (const auto& file : files_in(path)) {
        (void)::unlink(file.c_str());
    }
    (void)::rmdir(path.c_str());
}

} // namespace rdma_nccl
