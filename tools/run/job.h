// SPDX-License-Identifier: Apache-2.0
// Checks this node, finds places for its ranks, and runs its part of a job, from the first rank to the last process and
// through all restarts, or prints what it would start.
#pragma once

#include "lib/plan/node_placement.h"
#include "lib/settings/settings.h"
#include "lib/sys/environment.h"
#include "lib/sys/signal_fd.h"
#include "lib/sys/sysroot.h"
#include "tools/run/control/control.h"
#include "tools/run/failure/report.h"
#include "tools/run/options/options.h"
#include "tools/run/process/process_set.h"
#include "tools/run/world/world.h"

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace rdma_nccl::run {

/// Returns a place for each rank within the CPUs of this process. Reads only what it needs: the topology, the GPUs, and
/// the HCAs that the plugin named in UCX_NET_DEVICES. Returns nullopt if there is nothing to decide (one rank, or
/// bind=off), or if nothing can be bound; then `problem` is the reason.
std::optional<NodePlacement> place_run(const SysRoot& root, const Environment& environment, BindChoice bind,
                                       unsigned ranks, std::string& problem);

/// The devices of a rank, for users; values are empty if unknown.
struct RankDeviceNames {
    std::string gpu;               ///< as in CUDA_VISIBLE_DEVICES
    std::string gpu_pci;           ///< "0000:53:00.0"
    std::string gpu_uuid;          ///< "GPU-..."
    std::string gpu_file;          ///< "/dev/nvidia3"; empty when unknown
    std::vector<std::string> hcas; ///< "mlx5_1:1", nearest first: those that the plugin named, or would use
};

/// Returns the devices by local rank. Reads the whole fabric if the plugin has not named HCAs.
std::vector<RankDeviceNames> find_devices(const SysRoot& root, const Environment& environment, unsigned ranks);

/// The devices of this node's ranks, which are searched for only when they are needed.
class RankDevices {
public:
    /// `find` returns them by local rank; an empty function: none are known.
    explicit RankDevices(std::function<std::vector<RankDeviceNames>()> find) : find_(std::move(find)) {}

    RankDeviceNames of(unsigned local_rank) {
        return local_rank < all().size() ? all()[local_rank] : RankDeviceNames();
    }
    std::vector<std::string> ports() {
        return names([](const auto& one) { return one.hcas; });
    }
    /// Returns UUIDs, or PCI addresses.
    std::vector<std::string> gpus() {
        return names([](const auto& one) { return std::vector{one.gpu_uuid.empty() ? one.gpu_pci : one.gpu_uuid}; });
    }
    std::vector<std::string> gpu_files() {
        return names([](const auto& one) { return std::vector{one.gpu_file}; });
    }

private:
    const std::vector<RankDeviceNames>& all();
    /// Returns names without empty ones and duplicates.
    std::vector<std::string> names(const std::function<std::vector<std::string>(const RankDeviceNames& one)>& names_of);

    std::function<std::vector<RankDeviceNames>()> find_;
    std::optional<std::vector<RankDeviceNames>> devices_;
};

/// What was found out before the ranks start.
struct Job {
    const WorldPlan& plan;
    std::vector<Command> commands;  ///< by local rank
    WorkerSettings worker;          ///< without values that differ between attempts
    const Environment& environment; ///< of the launcher
    const Options& options;
    const SysRoot& root;
    std::string node;                                           ///< for messages
    std::function<std::vector<RankDeviceNames>()> find_devices; ///< by local rank; called at most once, when needed
    std::string error_directory{};    ///< for error.json if there is no log directory; empty: none
    std::string log_directory{};      ///< empty: none
    bool records = false;             ///< with PyTorch's flight recorder
    std::string recorder_directory{}; ///< for the files of PyTorch's flight recorder; empty: it is off
};

/// Returns what is known about a rank's failure right after its exit.
RankFailure failure_of(const Job& job, const RankExit& rank_exit, unsigned attempt);

/// Returns the message about the first failure on a node: "rank 3 (local 3) on n01, pid 1234: killed by signal 9
/// (Killed); ending the other 7 ranks".
std::string describe_failure(const RankFailure& failure, std::size_t others);

/// Starts the ranks and waits until they and all processes that they left behind have ended, here and on all nodes that
/// `control` connects. The first failure ends the others. Returns the exit code of the launcher. `guard_fd`: the job is
/// killed when its other end is closed.
int run_job(const Job& job, Control& control, const BlockedSignals& signals, int guard_fd);

// The output of --dry-run, as a pure function of the job.

/// Returns a table of the ranks (CPUs and memory node only if they are bound), then the variables that they get in
/// addition to the launcher's: first those that all ranks have, then those of each rank. Commands are quoted for a
/// shell.
std::string dry_run_text(const Job& job);

/// Returns the same as JSON, {"schema": 1, ...}.
std::string dry_run_json(const Job& job);

/// Returns the file and the arguments, quoted for a shell.
std::string command_text(const Command& command);

// Checks of this node: before the ranks start, in less than a tenth of a second, and before a restart.

struct PreflightQuestion {
    const SysRoot& root;
    const Environment& environment;
    unsigned ranks = 1; ///< on this node
    unsigned world_size = 1;
    std::string master_addr;       ///< of the world
    std::vector<std::string> gpus; ///< device files of the ranks' GPUs ("/dev/nvidia0"); empty: unknown or none
};

/// Returns warnings that describe a problem and its solution: limits of locked memory, open files or /dev/shm that are
/// too small; other processes of this user that hold the GPUs; files /dev/shm/nccl-* that no process uses; http_proxy
/// and similar variables, which affect a rendezvous by gRPC or HTTP; HCAs in NCCL_IB_HCA or UCX_NET_DEVICES that do not
/// exist or are not ACTIVE. The limits are those of this process, so it must not have changed them; they are checked
/// only on the live machine, and only if the plugin has not done it (RDMA_NCCL_SET).
std::vector<std::string> preflight(const PreflightQuestion& question);

/// Returns true if no_proxy excludes this host from the proxy. Its entries are host names, suffixes, networks and "*",
/// separated by commas (as curl, Python, Go and gRPC read it).
bool no_proxy_covers(std::string_view no_proxy, std::string_view host);

/// Returns the processes of this user that have one of these device files ("/dev/nvidia0") open, in ascending order,
/// without this process, its ancestors and NVIDIA's own processes ("nvidia-cuda-mps-server"). Processes that may not be
/// read are skipped. A restart waits until there are none: the memory of a GPU is free once the last of them is gone.
std::vector<pid_t> find_device_processes(const SysRoot& root, std::span<const std::string> device_files);

} // namespace rdma_nccl::run
