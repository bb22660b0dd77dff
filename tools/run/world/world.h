// SPDX-License-Identifier: Apache-2.0
// Plans the world of `rdma-nccl run`: how many nodes and ranks it has, which ranks run on this node, and the rendezvous
// address. Planning is pure; facts about the machine come through WorldInquiry. And the environment of a rank in it:
// torchrun's worker variables (torch.distributed.elastic.agent.server.local_elastic_agent), and variables that torchrun
// leaves to the user.
#pragma once

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"
#include "lib/exchange/messages.h"
#include "lib/placement/placement.h"
#include "lib/plan/node_placement.h"
#include "lib/plan/port_block.h"
#include "lib/slurm/step.h"
#include "lib/sys/environment.h"
#include "tools/run/control/control.h"
#include "tools/run/options/options.h"

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace rdma_nccl::run {

/// A value and its source: "--nnodes", "PET_NNODES", "SLURM_STEP_NUM_NODES", ...
template<typename T>
struct Sourced {
    T value{};
    std::string source;
};

/// The plan. Every node has the same number of ranks, or the number that the nodes of a step agreed on
/// (RDMA_NCCL_RANKS).
struct WorldPlan {
    Sourced<unsigned> ranks_per_node;
    Sourced<unsigned> nodes;
    Sourced<unsigned> node_rank;
    Sourced<std::string> master_addr; ///< without the brackets of an IPv6 address
    Sourced<std::uint16_t> master_port;
    std::string run_id;              ///< TORCHELASTIC_RUN_ID, the same on all nodes
    std::optional<RankShare> agreed; ///< set if the number of ranks is that of the GPUs, which may differ
    std::vector<std::string> warnings;
    std::vector<std::string> notes; ///< the same on all nodes

    [[nodiscard]] unsigned world_size() const { return agreed ? agreed->total : nodes.value * ranks_per_node.value; }
    [[nodiscard]] unsigned first_rank() const {
        return agreed ? agreed->first : node_rank.value * ranks_per_node.value;
    }
};

/// Questions to the machine. Each is called at most once, and only if its answer is needed.
struct WorldInquiry {
    std::function<VisibleGpus()> visible_gpus;
    std::function<unsigned()> allowed_cpus;                       ///< of the affinity mask
    std::function<Result<std::uint16_t>()> free_port;             ///< for a world of one node
    std::function<Result<std::string>(const Step&)> head_address; ///< of the step's first node
    std::function<Result<std::uint16_t>(const Step&)> step_port;  ///< the same on all nodes of the step
    std::function<std::string()> random_id;
};

/// Plans the world. Each value comes from the strongest source that has it: command line, PET_* (torchrun's variables),
/// NNODES, NODE_RANK, MASTER_ADDR and MASTER_PORT (set by the plugin or the user), the Slurm step. Without any, the
/// world is this node alone. --rdzv-endpoint gives address and port only if none of these does: under c10d it names a
/// place where launchers connect, which need not be the node of rank 0.
/// Fails with a message that names the option or variable, its value and the valid values.
Result<WorldPlan> plan_world(const Options& options, const Environment& environment, const WorldInquiry& inquiry);

/// Names and values.
using Variables = std::vector<std::pair<std::string, std::string>>;

/// What else a rank's environment depends on.
struct WorkerSettings {
    unsigned allowed_cpus = 1;             ///< CPUs of the affinity mask, which all ranks of the node share
    std::string error_directory = {};      ///< for TORCHELASTIC_ERROR_FILE; empty: do not set it
    const NodePlacement* placed = nullptr; ///< places of the ranks; nullptr: not bound
    std::string recorder_directory = {};   ///< for the files of PyTorch's flight recorder; empty: it is off
    unsigned attempt = 0;                  ///< how many times the ranks were started before
    std::uint16_t ras_port = 0;            ///< of NCCL's RAS on this node; 0: leave NCCL_RAS_ADDR alone
    std::string conf_ras_address = {};     ///< NCCL_RAS_ADDR of NCCL's configuration files; empty: not in them
};

/// Returns NCCL_RAS_ADDR of the ranks: the user's, from the environment or a configuration file of NCCL's; else with a
/// port that is only this step's, so that it is not the RAS of another job that answers; else NCCL's own default.
std::string ras_address(const WorkerSettings& settings, const Environment& base);

/// Returns the variables that a rank gets in addition to the launcher's. `base` is the launcher's environment: the
/// user's values in it are kept where torchrun keeps them (OMP_NUM_THREADS, TORCH_NCCL_ASYNC_ERROR_HANDLING,
/// JAX_LOCAL_DEVICE_IDS), and so are those of PyTorch's flight recorder.
Variables worker_variables(const WorldPlan& plan, const Options& options, unsigned local_rank,
                           const WorkerSettings& settings, const Environment& base);

/// Returns the rank's whole environment, each entry as "NAME=value".
std::vector<std::string> worker_environment(const WorldPlan& plan, const Options& options, unsigned local_rank,
                                            const WorkerSettings& settings, const Environment& base);

// The ports on which the launchers of this world connect, and on which its ranks restart. These functions act.

/// A port that is bound but not listening, so that no other process gets it. A rank can still bind it with
/// SO_REUSEADDR, as rendezvous servers do, and listen; the kernel gives it to nobody else (measured on Linux 6.18).
struct HeldPort {
    UniqueFd socket;
    std::uint16_t port = 0;
};

/// Binds any free port of this node. Fails if there is none.
Result<HeldPort> hold_free_port();

/// Creates the control of this node's launcher. `node`: its name. `range`: that of ports derived from job and step.
std::unique_ptr<Control> start_control(const Options& options, const Environment& environment, const WorldPlan& plan,
                                       const std::string& node, const PortRange& range);

} // namespace rdma_nccl::run
