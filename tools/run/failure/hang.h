// SPDX-License-Identifier: Apache-2.0
// Detects that a job hangs: no output, no work on the GPUs and no bytes over RDMA for a while. Finds out where its
// processes are then.
#pragma once

#include "lib/sys/environment.h"
#include "lib/sys/sysroot.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <sys/types.h>
#include <vector>

namespace rdma_nccl::run {

/// Opens NVIDIA's management library. Returns a function that tells whether any of the GPUs (UUIDs "GPU-..." or
/// "MIG-...", or PCI addresses) that report the use of their memory (MIG instances do not) accessed its memory recently
/// (in the last 1/6 to 1 second, as described for nvmlUtilization_t). Empty if there is no library or no driver, or if
/// it knows none of the GPUs. Any call may hang if a GPU hangs.
std::function<bool()> watch_gpu_memory(const std::string& nvml, const std::vector<std::string>& gpus);

/// Watches the activity on this node. A thread reads RDMA counters and GPUs once per `period`. If a driver hangs, it
/// blocks the thread but not the launcher, and nothing counts as moving.
class ActivityProbe {
public:
    /// `ports`: named as in NCCL_IB_HCA and UCX_NET_DEVICES ("mlx5_1:1"). `gpus`: UUIDs ("GPU-...") or PCI addresses of
    /// the ranks' GPUs. `nvml`: NVIDIA's library, which the thread opens; without it GPUs are not watched.
    ActivityProbe(const SysRoot& root, std::vector<std::string> ports, std::vector<std::string> gpus,
                  std::chrono::milliseconds period = std::chrono::seconds(1),
                  const std::string& nvml = "libnvidia-ml.so.1");
    ~ActivityProbe(); ///< does not wait for a driver
    ActivityProbe(const ActivityProbe&) = delete;
    ActivityProbe& operator=(const ActivityProbe&) = delete;

    /// Returns true if anything moved since the last call. `output_bytes`: bytes written by all ranks so far. For a
    /// GPU, the use of its memory counts: a NCCL kernel that waits for a peer keeps the GPU 100 % busy but its memory
    /// idle.
    bool moved(std::uint64_t output_bytes);

private:
    struct State;
    std::shared_ptr<State> state_; ///< shared with the thread
    std::uint64_t output_bytes_ = 0;
    std::uint64_t changes_ = 0;
};

/// Decides from the reports of all nodes. A job hangs if no node has seen anything move for `timeout`. It is not
/// judged while a node does not report: lost nodes are detected by the connections' owner.
class HangJudge {
public:
    using Time = std::chrono::steady_clock::time_point;

    /// `interval`: the time between two reports of a node.
    HangJudge(std::size_t nodes, std::chrono::milliseconds timeout, std::chrono::milliseconds interval, Time now)
        : timeout_(timeout), interval_(interval), last_call_(now), nodes_(nodes, Node{now, now}) {}

    /// Takes a report of node `node`. Returns true once when the job hangs, and not again until something moves. A gap
    /// between calls that is much longer than the interval means that this process was stopped, and perhaps the ranks
    /// too: then the time starts anew.
    bool on_sample(std::size_t node, bool moved, Time now);

    /// Returns how long nothing has moved on any node.
    [[nodiscard]] std::chrono::milliseconds idle_time(Time now) const;

private:
    struct Node {
        Time moved;
        Time reported;
    };

    std::chrono::milliseconds timeout_;
    std::chrono::milliseconds interval_;
    Time last_call_;
    std::vector<Node> nodes_;
    bool reported_ = false;
};

/// Returns a command that shows the stacks of a process: py-spy for Python if it is installed, else gdb; nullopt if
/// there is neither. Both attach by ptrace(2). Yama (/proc/sys/kernel/yama/ptrace_scope 1) allows that to the
/// launcher's children if the rank has called prctl(PR_SET_PTRACER, LAUNCHER).
std::optional<std::vector<std::string>> stack_command(const SysRoot& root, pid_t pid, const Environment& environment);

/// Returns the process to look at for a rank: the program in the container if the rank's own process only starts one
/// that has a PID namespace (bwrap, unshare), else `rank`. Like all process ids here, it is the launcher's for it.
pid_t program_of(const SysRoot& root, pid_t rank);

struct ProcessStack {
    pid_t pid = 0;       ///< of the rank
    pid_t program = 0;   ///< whose stack it is, program_of(pid)
    std::string kernel;  ///< "state D (disk sleep), waits in nvidia_ioctl": always set, needs no program
    std::string command; ///< program that showed the stacks, "gdb"; empty: none
    std::string text;    ///< its output, at most 64 KiB
    std::string problem; ///< "did not end within 20 s", "ended with code 1"; else empty
};

/// Reads the stacks of these ranks' programs, all at the same time, and returns them in the order of `pids`. Takes at
/// most `limit`, and then kills the programs that read them. May be called in a thread of its own, even if another
/// thread waits for all children.
std::vector<ProcessStack> read_stacks(const SysRoot& root, std::span<const pid_t> pids, const Environment& environment,
                                      std::chrono::milliseconds limit);

/// Returns the text for the launcher's stderr, with the programs' output after a bar. Ends with a newline.
std::string stack_text(const ProcessStack& stack, const std::string& rank);

} // namespace rdma_nccl::run
