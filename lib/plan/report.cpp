// SPDX-License-Identifier: Apache-2.0
// Describes a plan and a placement in words, for the plugin's details and for the command.
#include "lib/plan/node_placement.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"

#include <algorithm>
#include <array>

namespace rdma_nccl {

namespace {

std::string port_text(const Plan& plan) {
    const auto* port = find_variable(plan.variables, "MASTER_PORT");
    return port == nullptr ? "none" : port->value;
}

std::string address_text(const std::string& address) {
    const auto numeric = IpAddress::parse(address);
    return numeric ? numeric->bracketed() : address.empty() ? "none" : printable(address);
}

std::string head_line(const Plan& plan) {
    if (!plan.meets()) {
        return format_text("each task is a world of its own: {}", plan.layout.alone);
    }
    return format_text("head {} ({}:{}): {}", plan.head_node.name, address_text(plan.master_address()), port_text(plan),
                       plan.users_head ? "MASTER_ADDR was set before" : plan.head.why);
}

std::string variable_line(const Variable& variable) {
    switch (variable.action) {
    case VariableAction::Set:
        return format_text("  {}={}  [{}: {}]", variable.name, variable.value, variable.source, variable.why);
    case VariableAction::Keep:
    case VariableAction::Restore:
        return format_text("  {}={}  [{}: kept]", variable.name, variable.value, variable.source);
    case VariableAction::Leave:
        return format_text("  {} left unset  [{}: {}]", variable.name, variable.source, variable.why);
    case VariableAction::Unset:
        break;
    }
    return format_text("  {} removed  [{}]", variable.name, variable.why);
}

std::string gpus_text(const NodePlacement& node, const Fabric& fabric, const RankPlacement& rank) {
    if (rank.gpus.empty()) {
        return node.seen_gpus.value_or(0) > 0 ? "a GPU that cannot be told" : "no GPU";
    }
    const auto texts = mapped(rank.gpus, [&](std::size_t number) {
        const auto& position = node.gpus.at(number);
        return printable(node.gpu_ids.at(number)) +
               (position ? format_text(" ({})", fabric.gpus.at(*position).pci) : "");
    });
    return (texts.size() == 1 ? "GPU " : "GPUs ") + joined(texts);
}

std::string cpus_text(const RankPlacement& rank) {
    if (rank.cpus.empty()) {
        return "CPUs not known";
    }
    std::string text = format_text("CPUs {}", rank.cpus.list());
    if (rank.cores > 0) {
        text += format_text(" ({})", format_count(rank.cores, "core"));
    }
    if (rank.gpu_to_cpus > Distance::SameNuma && rank.gpu_to_cpus != Distance::Unknown) {
        text += format_text(", {}", rank.gpu_to_cpus == Distance::Other ? "far from its GPU (another package)"
                                                                        : "another NUMA node than its GPU");
    }
    return text;
}

} // namespace

std::string format_summary(const StepSummary& s) {
    std::string text = format_text("{} layout, {} on {}", layout_name(s.layout), format_count(s.tasks, "task"),
                                   format_count(s.nodes, "node"));
    if (!s.alone.empty()) {
        return text + format_text(", each task a world of its own ({}), {}", s.alone, s.fabric);
    }
    if (s.ranks > 0) {
        text += format_text(", {}", format_count(s.ranks, "rank"));
    }
    const std::string head = s.users_head.empty()
                                 ? format_text("{} ({}:{})", s.head_node, address_text(s.address), s.port)
                                 : format_text("{}:{} (MASTER_ADDR set before)", address_text(s.users_head), s.port);
    return format_text("{}, head {}, {}", text, head, s.fabric);
}

std::string plan_summary(const Plan& plan, const NodeFacts& facts) {
    return format_summary({.layout = plan.layout.layout,
                           .alone = plan.layout.alone,
                           .tasks = facts.step.task_count,
                           .nodes = facts.step.node_count,
                           .head_node = plan.head_node.name,
                           .address = plan.master_address(),
                           .users_head = plan.users_head.value_or(""),
                           .port = port_text(plan),
                           .fabric = fabric_summary(facts, plan.fabric)});
}

std::optional<std::string> lone_step_hint(const NodeFacts& facts) {
    const auto& step = facts.step;
    const bool second = step.node_count == 1 && step.job_nodes.size() > 1 && !step.nodes.empty() &&
                        step.nodes.front() == step.job_nodes[1];
    const bool has_rank = std::ranges::any_of(std::array{"NODE_RANK", "RANK"}, [&](auto name) {
        return parse_number<unsigned>(facts.environment.get_users(name).value_or("")).value_or(0) > 0;
    });
    if (!second || !facts.program.alone.empty() || !(has_rank || facts.program.names_others)) {
        return std::nullopt;
    }
    return format_text("hint: this step has one of the job's {0} nodes; one world on all: srun -N{0} "
                       "--ntasks-per-node=1 ...",
                       step.job_nodes.size());
}

std::vector<std::string> plan_lines(const Plan& plan, const Step& step, const std::vector<Variable>& task_variables) {
    std::vector<std::string> lines = {
        format_text("layout {}: {}", layout_name(plan.layout.layout), plan.layout.why),
        format_text("step {}.{}: {} on {}; {}{}{}", step.job_id, step.step_id, format_count(step.task_count, "task"),
                    format_count(step.node_count, "node"), format_count(plan.visible_gpus, "visible GPU"),
                    plan.visible_gpus_source.empty() ? "" : " by ", plan.visible_gpus_source),
        head_line(plan)};
    append(lines, mapped(plan.fabric.ports, [](const PortChoice& port) {
               return format_text("{} port {} {}", port.hca, port.port, port.reason);
           }));
    append(lines, mapped(plan.variables, variable_line));
    append(lines, mapped(task_variables, variable_line));
    return lines;
}

std::string rank_text(const NodePlacement& node, const Fabric& fabric, const RankPlacement& rank) {
    std::string text = format_text("{}, {}", gpus_text(node, fabric, rank), cpus_text(rank));
    if (node.binds_memory && rank.memory_node) {
        text += format_text(", memory of NUMA node {}", *rank.memory_node);
    }
    if (!rank.hcas.empty()) {
        text += format_text(", {} first", node.ports.at(rank.hcas.front()));
        if (rank.to_hca != Distance::Unknown) {
            text += format_text(" ({})", distance_text(rank.to_hca));
        }
    }
    return text;
}

std::vector<std::string> placement_lines(const NodePlacement& node, const Fabric& fabric) {
    std::vector<std::string> lines;
    for (std::size_t rank = 0; rank < node.placement.ranks.size(); ++rank) {
        lines.push_back(format_text("local rank {}: {}", rank, rank_text(node, fabric, node.placement.ranks[rank])));
    }
    return lines;
}

std::string binding_why(const NodePlacement& node) {
    if (!node.binds_cpus) {
        return "nothing is bound";
    }
    const auto& ranks = node.placement.ranks;
    const auto any = [&](CpuSource source) {
        return std::ranges::any_of(ranks, [source](const RankPlacement& rank) { return rank.source == source; });
    };
    if (any(CpuSource::Scarce)) {
        return "fewer CPUs than ranks: left in common";
    }
    if (!any(CpuSource::Shared)) {
        return "each rank has CPUs of its own: kept";
    }
    return any(CpuSource::Slurm) ? "what tasks had in common is shared out, own CPUs are kept"
                                 : "the tasks shared their CPUs: divided among them, near the GPUs";
}

std::string write_masks(const std::vector<CpuSet>& masks) {
    std::string text;
    const bool same = std::ranges::all_of(masks, [&](const CpuSet& mask) { return mask == masks.front(); });
    for (std::size_t i = 0; i < masks.size() && (i == 0 || !same); ++i) {
        text += (i == 0 ? "" : "/") + masks[i].list();
    }
    return text;
}

std::optional<std::vector<CpuSet>> read_masks(std::string_view text, std::size_t ranks) {
    std::vector<CpuSet> masks;
    for (const auto part : split(text, '/')) {
        const auto mask = CpuSet::parse_list(part);
        if (!mask || mask->empty()) {
            return std::nullopt;
        }
        masks.push_back(*mask);
    }
    if (masks.size() == 1) {
        masks.resize(ranks, CpuSet(masks.front()));
    }
    return masks.size() == ranks ? std::optional(std::move(masks)) : std::nullopt;
}

} // namespace rdma_nccl
