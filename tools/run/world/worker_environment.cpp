// SPDX-License-Identifier: Apache-2.0
#include "tools/run/world/world.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "lib/flight_recorder/variables.h"
#include "lib/nccl_ras/client.h"

#include <algorithm>

namespace rdma_nccl::run {

namespace {

/// Returns the index of the rank's GPU among those that it sees.
std::string visible_number(unsigned local_rank, const Options& options) {
    return std::to_string(options.virtual_local_rank ? 0 : local_rank);
}

void add_ranks(Variables& variables, const WorldPlan& plan, const Options& options, unsigned local_rank) {
    const auto rank = std::to_string(plan.first_rank() + local_rank);
    const auto world_size = std::to_string(plan.world_size());
    const auto node_rank = std::to_string(plan.node_rank.value);
    const auto nodes = std::to_string(plan.nodes.value);
    variables.insert(variables.end(), {{"RANK", rank},
                                       {"LOCAL_RANK", visible_number(local_rank, options)},
                                       {"WORLD_SIZE", world_size},
                                       {"LOCAL_WORLD_SIZE", std::to_string(plan.ranks_per_node.value)},
                                       {"GROUP_RANK", node_rank},
                                       {"GROUP_WORLD_SIZE", nodes},
                                       {"ROLE_RANK", rank},
                                       {"ROLE_NAME", options.role},
                                       {"ROLE_WORLD_SIZE", world_size},
                                       {"NODE_RANK", node_rank},
                                       {"NNODES", nodes},
                                       {"MASTER_ADDR", plan.master_addr.value},
                                       {"MASTER_PORT", std::to_string(plan.master_port.value)}});
}

void add_torchelastic(Variables& variables, const WorldPlan& plan, const Options& options, unsigned local_rank,
                      const WorkerSettings& settings) {
    variables.insert(variables.end(), {{"TORCHELASTIC_RESTART_COUNT", std::to_string(settings.attempt)},
                                       {"TORCHELASTIC_MAX_RESTARTS", std::to_string(options.max_restarts)},
                                       {"TORCHELASTIC_RUN_ID", plan.run_id},
                                       // "True" would promise a store of the launcher at MASTER_ADDR:MASTER_PORT, and
                                       // rank 0 would wait for it instead of opening its own.
                                       {"TORCHELASTIC_USE_AGENT_STORE", "False"}});
    if (!settings.error_directory.empty()) {
        variables.emplace_back("TORCHELASTIC_ERROR_FILE",
                               format_text("{}/{}/error.json", settings.error_directory, local_rank));
    }
}

/// Adds the rank's GPU as torchrun does: the n-th of the list, or GPU n without a list. plan_world() has checked that
/// there is an n-th.
void add_only_gpu(Variables& variables, unsigned local_rank, const Environment& base) {
    const auto list = base.get("CUDA_VISIBLE_DEVICES");
    variables.emplace_back("CUDA_VISIBLE_DEVICES",
                           list ? std::string(trim(split(*list, ',').at(local_rank))) : std::to_string(local_rank));
}

/// The plugin's list of ports is for the whole node; each rank gets a list with its nearest ports first.
void add_place(Variables& variables, const NodePlacement& placed, unsigned local_rank, const Environment& base) {
    const auto& rank = placed.placement.ranks.at(local_rank);
    for (const char* name : {"UCX_NET_DEVICES", "NVSHMEM_HCA_LIST"}) {
        if (!rank.hcas.empty() && base.ours().contains(name)) {
            variables.emplace_back(name, placed.ports_of(rank));
        }
    }
}

/// Slurm's numbers are those of its tasks, which are launchers here. Programs that read them when TORCHELASTIC_RUN_ID
/// is absent (Lightning's SLURMEnvironment, JAX) expect those of the ranks.
void add_slurm(Variables& variables, const WorldPlan& plan, unsigned local_rank) {
    const auto world_size = std::to_string(plan.world_size());
    variables.insert(variables.end(), {{"SLURM_PROCID", std::to_string(plan.first_rank() + local_rank)},
                                       {"SLURM_LOCALID", std::to_string(local_rank)},
                                       {"SLURM_NTASKS", world_size},
                                       {"SLURM_NPROCS", world_size},
                                       {"SLURM_NTASKS_PER_NODE", std::to_string(plan.ranks_per_node.value)}});
}

} // namespace

Variables worker_variables(const WorldPlan& plan, const Options& options, unsigned local_rank,
                           const WorkerSettings& settings, const Environment& base) {
    Variables variables;
    add_ranks(variables, plan, options, local_rank);
    if (options.torchelastic_environment) {
        add_torchelastic(variables, plan, options, local_rank, settings);
    } else if (base.get("SLURM_PROCID")) {
        add_slurm(variables, plan, local_rank);
    }
    if (options.virtual_local_rank) {
        add_only_gpu(variables, local_rank, base);
    }
    // get_users() is used because the plugin's values are for the task, which is this launcher, and not for each rank.
    const auto set_default = [&](const char* name, std::string value) {
        if (!base.get_users(name)) {
            variables.emplace_back(name, std::move(value));
        }
    };
    if (settings.recorder_directory.empty()) { // with torchrun's value PyTorch loses dumps (pytorch #121055)
        set_default("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1");
    }
    if (settings.placed != nullptr) {
        add_place(variables, *settings.placed, local_rank, base);
    }
    const std::size_t share = std::max(1U, settings.allowed_cpus / plan.ranks_per_node.value);
    set_default(
        "OMP_NUM_THREADS",
        std::to_string(settings.placed != nullptr ? settings.placed->placement.ranks.at(local_rank).threads() : share));
    set_default("JAX_LOCAL_DEVICE_IDS", visible_number(local_rank, options));
    if (settings.ras_port != 0) {
        set_default("NCCL_RAS_ADDR", ras_address(settings, base));
    }
    if (!settings.recorder_directory.empty()) {
        const auto recorder = flight_recorder::recorder_variables(base, settings.recorder_directory);
        variables.insert(variables.end(), recorder.begin(), recorder.end());
    }
    return variables;
}

std::string ras_address(const WorkerSettings& settings, const Environment& base) {
    const auto users = base.get("NCCL_RAS_ADDR");
    if (users || !settings.conf_ras_address.empty()) {
        return users.value_or(settings.conf_ras_address);
    }
    // "localhost" would be [::1] on some nodes.
    return settings.ras_port == 0 ? std::string(ras::default_address) : format_text("127.0.0.1:{}", settings.ras_port);
}

std::vector<std::string> worker_environment(const WorldPlan& plan, const Options& options, unsigned local_rank,
                                            const WorkerSettings& settings, const Environment& base) {
    auto environment = base.all();
    // PET_* are torchrun's options as variables, and describe this world. If they were passed on, as torchrun does, a
    // torchrun that a rank starts for its own purpose would act as another agent of this world, and hang or break it.
    // TORCHELASTIC_* are set again or omitted, but not inherited from a launcher around this one.
    std::erase_if(environment, [](const auto& variable) {
        return variable.first.starts_with("PET_") || variable.first.starts_with("TORCHELASTIC_");
    });
    for (auto& [name, value] : worker_variables(plan, options, local_rank, settings, base)) {
        environment.insert_or_assign(std::move(name), std::move(value));
    }
    return mapped(environment, [](const auto& variable) { return variable.first + "=" + variable.second; });
}

} // namespace rdma_nccl::run
