// SPDX-License-Identifier: Apache-2.0
// The variables of a plan by which ranks meet: those that all tasks of a node share, and those of each task.
#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "lib/plan/nccl_variables.h"
#include "lib/plan/node_placement.h"
#include "lib/plan/plan.h"

#include <algorithm>

namespace rdma_nccl {

namespace {

/// Adds brackets if a colon can follow: "[fd00::1]"; returns "10.0.0.1" unchanged.
std::string bracketed(const std::string& address) {
    return address.find(':') == std::string::npos ? address : "[" + address + "]";
}

void add_rendezvous(VariableList& variables, const Plan& plan, const Step& step) {
    if (plan.head.address) {
        variables.set("MASTER_ADDR", plan.head.address->text(), plan.head.source, plan.head.why);
    } else {
        (void)variables.forbid("MASTER_ADDR", "no address known for this step");
    }
    variables.set("MASTER_PORT", std::to_string(plan.port.first), plan.port.source, plan.port.why);
    for (const auto* const name : {"NNODES", "GROUP_WORLD_SIZE"}) {
        variables.set(name, std::to_string(step.node_count), "slurm", "nodes of the step");
    }
}

void add_jax(VariableList& variables, const Plan& plan) {
    const std::string address = plan.master_address();
    if (!address.empty() && plan.port.second) {
        variables.set("JAX_COORDINATOR_ADDRESS", format_text("{}:{}", bracketed(address), *plan.port.second),
                      plan.port.source, "second port of the block");
    }
}

/// torchrun reads only PET_*. Static ranks follow Slurm's order (doc/facts/torchrun-rendezvous.md).
void add_torchrun(VariableList& variables, const Plan& plan, const Step& step) {
    variables.set("PET_NNODES", std::to_string(step.node_count), "slurm", "nodes of the step");
    if (plan.visible_gpus > 0) {
        variables.set("PET_NPROC_PER_NODE", std::to_string(plan.visible_gpus), plan.visible_gpus_source,
                      "one rank per GPU");
    }
    if (const auto address = plan.master_address(); !address.empty()) {
        variables.set("PET_MASTER_ADDR", bracketed(address), plan.users_head ? "user" : plan.head.source,
                      "as MASTER_ADDR");
    }
    const auto* port = find_variable(variables.list(), "MASTER_PORT");
    variables.set("PET_MASTER_PORT", port->value, port->source, "as MASTER_PORT");
    variables.set("PET_RDZV_BACKEND", "static", "layout",
                  plan.order ? "ranks follow the order by the network" : "ranks follow the order of Slurm's nodes");
    variables.set("PET_RDZV_ID", step.name(), "slurm", "job and step");
}

/// Tells the launcher on this node which ranks to start. One node cannot know that alone if GPU counts differ.
void add_ranks(VariableList& variables, const Plan& plan, bool unequal_gpus) {
    if (plan.ranks) {
        variables.force(ranks_variable,
                        format_text("{}:{}:{}", plan.ranks->first, plan.ranks->count, plan.ranks->total), "exchange",
                        "first rank here, ranks here, all ranks");
    } else if (unequal_gpus) {
        variables.force(ranks_variable, "unequal", "exchange",
                        "the nodes have different numbers of GPUs, and did not agree on the ranks");
    }
}

void forbid_other_layout(VariableList& variables, Plan& plan) {
    std::vector<std::string_view> names = {"LOCAL_RANK", "LOCAL_WORLD_SIZE"};
    std::string_view remedy = "in pod layout the launcher sets them; unset them";
    if (plan.layout.layout == Layout::Rank) {
        names = {"PET_NNODES",      "PET_NPROC_PER_NODE", "PET_NODE_RANK", "PET_MASTER_ADDR",
                 "PET_MASTER_PORT", "PET_RDZV_BACKEND",   "PET_RDZV_ID",   "PET_RDZV_CONF"};
        remedy = "torchrun options have no meaning with one task per rank; unset them";
    } else if (plan.layout.layout == Layout::Node) {
        names = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
        remedy = "in node layout the launcher sets them; unset them";
    }
    const auto users =
        selected(names, [&](std::string_view name) { return variables.forbid(name, "not in this layout"); });
    if (!users.empty()) {
        plan.warnings.push_back(format_text("{} set in the environment, kept: {}", joined(users), remedy));
    }
}

/// Removes what an outer step of ours set and this plan does not mention, except variables that every task sets anew.
void remove_left_over(VariableList& variables, const Plan& plan, const Environment& environment) {
    const auto by_task = plan_task(plan, TaskFacts(), environment);
    for (const auto& name : environment.ours()) {
        if (name.ends_with("_VISIBLE_DEVICES")) {
            continue; // ours only ordered the same GPUs: without it the task would see more of them
        }
        if (find_variable(variables.list(), name) == nullptr && find_variable(by_task, name) == nullptr) {
            (void)variables.forbid(name, "left from an outer step");
        }
    }
}

void add_gpus(VariableList& variables, const Plan& plan) {
    variables.set("CUDA_DEVICE_ORDER", "PCI_BUS_ID", "default", "GPU numbers as in Slurm and nvidia-smi");
    if (plan.layout.layout != Layout::Rank && plan.visible_gpus > 0 && plan.meets()) {
        variables.set("JAX_LOCAL_DEVICE_IDS", first_numbers(plan.visible_gpus), plan.visible_gpus_source,
                      "all visible GPUs");
    }
}

/// For `rdma-nccl run`, which starts the ranks and does not see srun's options.
void add_settings_of_run(VariableList& variables, const Plan& plan, const Settings& settings) {
    const auto pass_on = [&](const char* key, const char* name) {
        const auto given = settings.given.find(key);
        if (given != settings.given.end()) {
            variables.set(name, given->second.text, given->second.place, "for rdma-nccl run");
        }
    };
    if (plan.layout.layout != Layout::Rank && settings.bind != BindChoice::Auto) {
        pass_on("bind", "RDMA_NCCL_BIND");
    }
    if (plan.layout.layout != Layout::Rank && settings.recorder) {
        pass_on("recorder", "RDMA_NCCL_RECORDER");
    }
}

/// One thread per CPU that a rank has to itself: from the task's mask, or its share of the node if tasks are not bound.
void add_threads(VariableList& variables, const Plan& plan, const TaskFacts& task) {
    const bool rank_layout = plan.layout.layout == Layout::Rank;
    const unsigned ranks = std::max(rank_layout ? task.local_tasks : plan.visible_gpus, 1U);
    const unsigned tasks = std::max(task.local_tasks, 1U);
    const unsigned share = task.cpus_per_task > 0 ? task.cpus_per_task : task.node_cpus / tasks;
    const unsigned task_cpus = std::max(std::min(task.task_cpus, share), 1U);
    const unsigned threads = std::max(rank_layout ? task_cpus : task_cpus / ranks, 1U);
    variables.set("OMP_NUM_THREADS", std::to_string(threads), "CPU mask",
                  format_text("CPUs of this task: {}, ranks on the node: {}", task_cpus, ranks));
}

} // namespace

std::vector<Variable> plan_variables(Plan& plan, const NodeFacts& facts, const Settings& settings, bool unequal_gpus) {
    VariableList variables(facts.environment, facts.nccl_conf);
    // Outside a step there are no peers, and no port to agree on; neither has a launcher that is a world of its own.
    const bool in_step = facts.step.job_id != 0 && plan.meets();
    if (in_step) {
        add_rendezvous(variables, plan, facts.step);
    }
    if (plan.meets()) {
        forbid_other_layout(variables, plan);
    }
    if (in_step && plan.layout.layout != Layout::Rank) {
        add_torchrun(variables, plan, facts.step);
        add_ranks(variables, plan, unequal_gpus);
    }
    if (in_step && plan.layout.layout == Layout::Pod) {
        variables.force("WORLD_SIZE", std::to_string(facts.step.node_count), "slurm", "number of nodes: pod layout");
    }
    if (in_step) {
        add_jax(variables, plan);
    }
    if (in_step && plan.order) {
        variables.force(node_order_variable, "topology", "exchange", "NODE_RANK does not follow SLURM_NODEID");
    }
    add_nccl(variables, plan, facts, settings);
    add_gpus(variables, plan);
    add_settings_of_run(variables, plan, settings);
    remove_left_over(variables, plan, facts.environment);
    return variables.take();
}

TaskFacts task_facts(TaskFacts task, const Environment& environment) {
    const auto number = [&environment](std::string_view name, unsigned otherwise) {
        return parse_number<unsigned>(environment.get(name).value_or("")).value_or(otherwise);
    };
    task.rank = number("SLURM_PROCID", task.rank);
    task.local_rank = number("SLURM_LOCALID", task.local_rank);
    task.node_rank = number("SLURM_NODEID", task.node_rank);
    task.node_cpus = std::min(task.node_cpus, number("SLURM_CPUS_ON_NODE", task.node_cpus));
    task.cpus_per_task = number("SLURM_CPUS_PER_TASK", 0);
    return task;
}

std::vector<Variable> plan_task(const Plan& plan, const TaskFacts& task, const Environment& environment,
                                const NodePlacement* placed) {
    if (!plan.meets()) {
        return {};
    }
    static const NcclConf no_conf; // none of these variables is NCCL's
    VariableList variables(environment, no_conf);
    using std::to_string;
    const bool rank_layout = plan.layout.layout == Layout::Rank;
    // With one task per node, the task's id orders the nodes, so that node rank 0 runs rank 0 even with an arbitrary
    // distribution: node rank 0 hosts torchrun's static rendezvous.
    const unsigned slurms = rank_layout ? task.node_rank : task.rank;
    const unsigned node_rank = plan.order ? plan.order->node_rank : slurms;
    const std::string_view by_order = "the node's place in the order by the network";
    // What was exported for all tasks cannot be right for each. For one it can: a loop of srun gives each step its own.
    const auto set = [&](std::string_view name, unsigned value, std::string_view why) {
        task.task_count > 1 ? variables.force(name, to_string(value), "slurm", std::string(why))
                            : variables.set(name, to_string(value), "slurm", std::string(why));
    };
    if (rank_layout) {
        set("RANK", plan.order ? plan.order->first_task + task.local_rank : task.rank,
            plan.order ? by_order : "SLURM_PROCID");
        set("WORLD_SIZE", task.task_count, "tasks of the step");
        set("LOCAL_RANK", task.local_rank, "SLURM_LOCALID");
        set("LOCAL_WORLD_SIZE", task.local_tasks, "tasks on this node");
        if (plan.visible_gpus > 0 && placed == nullptr) {
            variables.set("JAX_LOCAL_DEVICE_IDS", to_string(task.local_rank % plan.visible_gpus), "slurm",
                          "as LOCAL_RANK");
        }
    }
    set("NODE_RANK", node_rank,
        plan.order    ? by_order
        : rank_layout ? "SLURM_NODEID"
                      : "SLURM_PROCID, one task per node");
    set("GROUP_RANK", node_rank, "as NODE_RANK");
    if (!rank_layout) {
        variables.set("PET_NODE_RANK", to_string(node_rank), "slurm", "as NODE_RANK");
        // torchrun's c10d rendezvous hosts its store on the node whose host name resolves to the endpoint. It does not
        // recognize an address of the fabric (_matches_machine_hostname in torch/distributed/elastic, 1.13 to 2.8).
        if (node_rank == 0) {
            variables.set("PET_RDZV_CONF", "is_host=1", "slurm", "this node hosts the rendezvous, also with c10d");
        } else {
            (void)variables.forbid("PET_RDZV_CONF", "another node hosts the rendezvous");
        }
    }
    if (plan.layout.layout == Layout::Pod) {
        variables.force("RANK", to_string(node_rank), "slurm", "node rank: pod layout");
    }
    if (placed != nullptr && rank_layout) {
        add_placement(variables, *placed, task, plan);
    }
    if (!plan.cpus_stay && find_variable(variables.list(), "OMP_NUM_THREADS") == nullptr) {
        add_threads(variables, plan, task);
    }
    return variables.take();
}

} // namespace rdma_nccl
