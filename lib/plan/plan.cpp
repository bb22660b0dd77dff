// SPDX-License-Identifier: Apache-2.0
#include "lib/plan/plan.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "lib/plan/nccl_overrides.h"
#include "lib/plan/nccl_variables.h"
#include "lib/plan/node_placement.h"

#include <algorithm>
#include <array>

namespace rdma_nccl {

namespace {

constexpr std::array<std::string_view, 4> rank_variables = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
constexpr std::array<std::string_view, 8> pet_variables = {"PET_NNODES",      "PET_NPROC_PER_NODE", "PET_NODE_RANK",
                                                           "PET_MASTER_ADDR", "PET_MASTER_PORT",    "PET_RDZV_BACKEND",
                                                           "PET_RDZV_ID",     "PET_RDZV_CONF"};

/// Adds brackets if a colon can follow: "[fd00::1]"; returns "10.0.0.1" unchanged.
std::string bracketed(const std::string& address) {
    return address.find(':') == std::string::npos ? address : "[" + address + "]";
}

/// For `net=auto`: returns the interface on the network of the head address, if this node has an address there.
std::optional<SocketChoice> interface_towards(const Fabric& fabric, const IpAddress& head) {
    for (const auto& netdev : fabric.netdevs) {
        for (const auto& own : netdev.addresses) {
            const auto network = IpPrefix::of(own.address, own.prefix_length);
            const bool same = own.address == head || (network && network->length() > 0 && network->contains(head));
            if (netdev.up && !netdev.loopback && same) {
                return SocketChoice{
                    netdev.name, own.address, format_text("on the network of MASTER_ADDR {}", head.text()), {}};
            }
        }
    }
    return std::nullopt;
}

void add_rendezvous(VariableList& variables, const Plan& plan) {
    if (plan.head.address) {
        variables.set("MASTER_ADDR", plan.head.address->text(), plan.head.source, plan.head.why);
    } else {
        (void)variables.forbid("MASTER_ADDR", "no address known for this step");
    }
    variables.set("MASTER_PORT", format_text("{}", plan.port.first), plan.port.source, plan.port.why);
}

void add_jax(VariableList& variables, const Plan& plan) {
    const std::string address = plan.master_address();
    if (!address.empty() && plan.port.second) {
        variables.set("JAX_COORDINATOR_ADDRESS", format_text("{}:{}", bracketed(address), *plan.port.second),
                      plan.port.source, "second port of the block");
    }
}

void add_nodes(VariableList& variables, const Step& step) {
    const std::string count = format_text("{}", step.node_count);
    variables.set("NNODES", count, "slurm", "nodes of the step");
    variables.set("GROUP_WORLD_SIZE", count, "slurm", "nodes of the step");
}

/// torchrun reads only PET_*. Static ranks follow Slurm's order (doc/facts/torchrun-rendezvous.md).
void add_torchrun(VariableList& variables, const Plan& plan, const Step& step) {
    variables.set("PET_NNODES", format_text("{}", step.node_count), "slurm", "nodes of the step");
    if (plan.visible_gpus > 0) {
        variables.set("PET_NPROC_PER_NODE", format_text("{}", plan.visible_gpus), plan.visible_gpus_source,
                      "one rank per GPU");
    }
    if (const auto address = plan.master_address(); !address.empty()) {
        variables.set("PET_MASTER_ADDR", bracketed(address), plan.users_head ? "user" : plan.head.source,
                      "as MASTER_ADDR");
    }
    const auto* port = find_variable(variables.list(), "MASTER_PORT");
    variables.set("PET_MASTER_PORT", port->value, port->source, "as MASTER_PORT");
    variables.set("PET_RDZV_BACKEND", "static", "layout", "ranks follow the order of Slurm's nodes");
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
    const auto forbid = [&](auto names, std::string_view remedy) {
        std::vector<std::string_view> users;
        for (const auto name : names) {
            if (variables.forbid(name, "not in this layout")) {
                users.push_back(name);
            }
        }
        if (!users.empty()) {
            plan.warnings.push_back(format_text("{} set in the environment, kept: {}", joined(users), remedy));
        }
    };
    if (plan.layout.layout == Layout::Rank) {
        forbid(pet_variables, "torchrun options have no meaning with one task per rank; unset them");
    } else if (plan.layout.layout == Layout::Node) {
        forbid(rank_variables, "in node layout the launcher sets them; unset them");
    } else {
        forbid(std::array<std::string_view, 2>{"LOCAL_RANK", "LOCAL_WORLD_SIZE"},
               "in pod layout the launcher sets them; unset them");
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
    if (plan.layout.layout != Layout::Rank && plan.visible_gpus > 0) {
        std::string ids;
        for (unsigned i = 0; i < plan.visible_gpus; ++i) {
            ids += format_text("{}{}", i == 0 ? "" : ",", i);
        }
        variables.set("JAX_LOCAL_DEVICE_IDS", ids, plan.visible_gpus_source, "all visible GPUs");
    }
}

/// For `rdma-nccl run`, which binds the ranks that it starts and does not see srun's options.
void add_binding(VariableList& variables, const Plan& plan, const Settings& settings) {
    const auto given = settings.given.find("bind");
    if (plan.layout.layout != Layout::Rank && settings.bind != BindChoice::Auto && given != settings.given.end()) {
        variables.set("RDMA_NCCL_BIND", given->second.text, given->second.place, "for rdma-nccl run");
    }
}

std::vector<Variable> plan_variables(Plan& plan, const NodeFacts& facts, const Settings& settings, bool unequal_gpus) {
    VariableList variables(facts.environment, facts.nccl_conf);
    const bool in_step = facts.step.job_id != 0; // outside a step there are no peers, and no port to agree on
    if (in_step) {
        add_rendezvous(variables, plan);
        add_nodes(variables, facts.step);
    }
    forbid_other_layout(variables, plan);
    if (in_step && plan.layout.layout != Layout::Rank) {
        add_torchrun(variables, plan, facts.step);
        add_ranks(variables, plan, unequal_gpus);
    }
    if (in_step && plan.layout.layout == Layout::Pod) {
        variables.force("WORLD_SIZE", format_text("{}", facts.step.node_count), "slurm", "number of nodes: pod layout");
    }
    if (in_step) {
        add_jax(variables, plan);
    }
    add_nccl(variables, plan, facts, settings);
    add_gpus(variables, plan);
    add_binding(variables, plan, settings);
    remove_left_over(variables, plan, facts.environment);
    return variables.take();
}

/// Decides on the ports and GIDs. `left_out`: ports that the nodes agreed not to use.
void choose_ports(Plan& plan, const NodeFacts& facts, const Settings& settings,
                  const std::vector<std::string>& left_out) {
    plan.fabric = choose_fabric(facts.fabric, settings, left_out);
    model_effective(facts, settings, plan.fabric);
}

/// The interface on the head's network. Outside a step there are no other nodes to meet: the head is this node.
std::optional<SocketChoice> sockets_towards_head(const Plan& plan, const NodeFacts& facts, const Settings& settings) {
    const auto head = plan.users_head ? IpAddress::parse(*plan.users_head) : plan.head.address;
    const bool meets = facts.step.job_id != 0 || plan.users_head;
    return meets && head && settings.net.is_auto() ? interface_towards(facts.fabric, *head) : std::nullopt;
}

void warn_about_head(Plan& plan, const NodeFacts& facts, const Settings& settings, bool agreed) {
    const bool asked_later = facts.head_is_to_be_agreed && !agreed;
    if (asked_later && !plan.head.address && !plan.head.warnings.empty()) {
        plan.head.warnings.pop_back(); // the warning that there is no address: the nodes will agree on one
    }
    if (plan.users_head || facts.step.job_id == 0) {
        return;
    }
    append(plan.warnings, plan.head.warnings);
    if (!asked_later && plan.head.address && !plan.head_node.certain && facts.step.node_count > 1 &&
        settings.head.is_auto()) {
        plan.warnings.push_back(
            format_text("rank 0 may run on another node than {} ({}): give head=NAME if ranks do not meet",
                        plan.head_node.name, plan.head_node.why));
    }
}

/// Collects the warnings of all parts. `sockets`: the choice without regard to the head.
void collect_warnings(Plan& plan, const NodeFacts& facts, const Settings& settings, const SocketChoice& sockets,
                      bool agreed) {
    plan.warnings = facts.step.problems;
    append(plan.warnings, plan.layout.warnings);
    warn_about_head(plan, facts, settings, agreed);
    append(plan.warnings, plan.port.warnings);
    plan.notes = facts.fabric.problems;
    if (facts.fabric.hcas.empty()) {
        plan.warnings.emplace_back("no RDMA device in /sys/class/infiniband: NCCL will use sockets");
    }
    append(plan.warnings, plan.fabric.warnings);
    append(plan.warnings, judge_nccl_overrides(facts, plan.fabric));
    append(plan.warnings, sockets.warnings);
}

/// Replaces this node's own decisions with what the nodes agreed on.
void take_agreement(Plan& plan, const Agreement& agreement) {
    plan.head_node = {agreement.head_node, "agreed by all nodes", true};
    if (agreement.head) {
        plan.head = {agreement.head, "exchange", agreement.head_why, {}};
    }
    if (agreement.block) {
        plan.port = *agreement.block;
    }
    if (plan.layout.layout != agreement.layout) {
        plan.layout = {agreement.layout, "as another node of the step has it", {}};
    }
    plan.ranks = agreement.ranks;
}

/// Only RDMA needs locked memory, so that limit is a warning. Other low limits are notes, which end no strict step.
void judge_node_limits(Plan& plan, const NodeFacts& facts, const Settings& settings) {
    const bool by_task = plan.layout.layout == Layout::Rank;
    const unsigned ranks = facts.step.task_count * (by_task ? 1 : std::max(plan.visible_gpus, 1U));
    const bool rdma = !plan.fabric.used().empty() && settings.memlock != MemlockChoice::Ignore;
    append(plan.warnings, judge_limits({facts.limits.memlock_kib, {}, {}}, rdma, ranks));
    append(plan.notes, judge_limits({{}, facts.limits.open_files, facts.limits.shm_mib}, false, ranks));
}

/// One thread per CPU that a rank has to itself: from the task's mask, or its share of the node if tasks are not bound.
void add_threads(VariableList& variables, const Plan& plan, const TaskFacts& task) {
    const bool rank_layout = plan.layout.layout == Layout::Rank;
    const unsigned ranks = std::max(rank_layout ? task.local_tasks : plan.visible_gpus, 1U);
    const unsigned tasks = std::max(task.local_tasks, 1U);
    const unsigned share = task.cpus_per_task > 0 ? task.cpus_per_task : task.node_cpus / tasks;
    const unsigned task_cpus = std::max(std::min(task.task_cpus, share), 1U);
    const unsigned threads = std::max(rank_layout ? task_cpus : task_cpus / ranks, 1U);
    variables.set("OMP_NUM_THREADS", format_text("{}", threads), "CPU mask",
                  format_text("CPUs of this task: {}, ranks on the node: {}", task_cpus, ranks));
}

} // namespace

std::string Plan::master_address() const {
    if (users_head) {
        return *users_head;
    }
    return head.address ? head.address->text() : "";
}

Plan make_plan(const NodeFacts& facts, const Settings& settings) {
    Plan plan;
    if (facts.program.kind == ProgramKind::RuntimeDaemon) {
        plan.leave_alone = true;
        plan.leave_alone_why = format_text("{} starts the ranks of another runtime", facts.program.name);
        return plan;
    }
    plan.visible_gpus = facts.visible_gpus;
    plan.visible_gpus_source = facts.visible_gpus_source;
    plan.layout = choose_layout(settings, facts.step, facts.program, facts.visible_gpus);
    plan.users_head = facts.environment.get_users("MASTER_ADDR");
    choose_ports(plan, facts, settings, {});
    plan.port = choose_port(settings, facts.step, facts.environment.get_users("MASTER_PORT"), facts.ephemeral_ports);
    return complete_plan(std::move(plan), facts, settings, {});
}

Plan complete_plan(Plan own, const NodeFacts& facts, const Settings& settings, const Coordination& coordination) {
    Plan plan = std::move(own);
    if (plan.leave_alone) {
        return plan;
    }
    const auto& agreement = coordination.agreement;
    if (agreement && !agreement->left_out.empty()) {
        choose_ports(plan, facts, settings, agreement->left_out);
    }
    const SocketChoice sockets = choose_socket_interface(facts.fabric, plan.fabric, settings);
    plan.head_node = facts.head_node;
    plan.head = choose_head(settings, facts.step, facts.head_node, facts.head_resolution, sockets.address);
    plan.port = coordination.held_ports.value_or(plan.port);
    if (agreement) {
        take_agreement(plan, *agreement);
    }
    plan.sockets = sockets_towards_head(plan, facts, settings).value_or(sockets);
    collect_warnings(plan, facts, settings, sockets, agreement.has_value());
    plan.variables = plan_variables(plan, facts, settings, coordination.unequal_gpus);
    judge_node_limits(plan, facts, settings);
    return plan;
}

TaskFacts task_facts(const Environment& environment, const Step& step, const TaskIds& ids, unsigned task_cpus,
                     unsigned node_cpus) {
    const auto number = [&environment](std::string_view name, unsigned otherwise) {
        return parse_number<unsigned>(environment.get(name).value_or("")).value_or(otherwise);
    };
    TaskFacts task;
    task.rank = number("SLURM_PROCID", ids.rank);
    task.local_rank = number("SLURM_LOCALID", ids.local_rank);
    task.node_rank = number("SLURM_NODEID", ids.node_rank);
    task.local_tasks = ids.local_tasks;
    task.task_count = step.task_count;
    task.node_count = step.node_count;
    task.task_cpus = task_cpus;
    task.node_cpus = std::min(node_cpus, number("SLURM_CPUS_ON_NODE", node_cpus));
    task.cpus_per_task = number("SLURM_CPUS_PER_TASK", 0);
    return task;
}

std::vector<Variable> plan_task(const Plan& plan, const TaskFacts& task, const Environment& environment,
                                const NodePlacement* placed) {
    static const NcclConf no_conf; // none of these variables is NCCL's
    VariableList variables(environment, no_conf);
    const auto number = [](unsigned value) { return format_text("{}", value); };
    const bool rank_layout = plan.layout.layout == Layout::Rank;
    // With one task per node, the task's id orders the nodes, so that node rank 0 runs rank 0 even with an arbitrary
    // distribution: node rank 0 hosts torchrun's static rendezvous.
    const unsigned node_rank = rank_layout ? task.node_rank : task.rank;
    if (rank_layout) {
        variables.force("RANK", number(task.rank), "slurm", "SLURM_PROCID");
        variables.force("WORLD_SIZE", number(task.task_count), "slurm", "tasks of the step");
        variables.force("LOCAL_RANK", number(task.local_rank), "slurm", "SLURM_LOCALID");
        variables.force("LOCAL_WORLD_SIZE", number(task.local_tasks), "slurm", "tasks on this node");
        if (plan.visible_gpus > 0 && placed == nullptr) {
            variables.set("JAX_LOCAL_DEVICE_IDS", number(task.local_rank % plan.visible_gpus), "slurm",
                          "as LOCAL_RANK");
        }
    }
    variables.force("NODE_RANK", number(node_rank), "slurm",
                    rank_layout ? "SLURM_NODEID" : "SLURM_PROCID, one task per node");
    variables.force("GROUP_RANK", number(node_rank), "slurm", "as NODE_RANK");
    if (!rank_layout) {
        variables.set("PET_NODE_RANK", number(node_rank), "slurm", "as NODE_RANK");
        // torchrun's c10d rendezvous hosts its store on the node whose host name resolves to the endpoint. It does not
        // recognize an address of the fabric (_matches_machine_hostname in torch/distributed/elastic, 1.13 to 2.8).
        if (task.rank == 0) {
            variables.set("PET_RDZV_CONF", "is_host=1", "slurm", "this node hosts the rendezvous, also with c10d");
        } else {
            (void)variables.forbid("PET_RDZV_CONF", "another node hosts the rendezvous");
        }
    }
    if (plan.layout.layout == Layout::Pod) {
        variables.force("RANK", number(node_rank), "slurm", "node rank: pod layout");
    }
    if (placed != nullptr && rank_layout) {
        add_placement(variables, *placed, task, plan);
    }
    if (find_variable(variables.list(), "OMP_NUM_THREADS") == nullptr) {
        add_threads(variables, plan, task);
    }
    return variables.take();
}

} // namespace rdma_nccl
