// SPDX-License-Identifier: Apache-2.0
#include "lib/plan/report.h"

#include "lib/base/format.h"
#include "lib/base/text.h"

#include <algorithm>

namespace rdma_nccl {

namespace {

std::string gid_summary(const FabricChoice& fabric) {
    const auto used = fabric.used();
    if (used.empty()) {
        return "";
    }
    if (used.front()->link_layer == LinkLayer::InfiniBand) {
        return ", InfiniBand";
    }
    if (fabric.common_gid_index) {
        return format_text(", GID index {}", *fabric.common_gid_index);
    }
    return ", GID index per port";
}

std::string hca_summary(const FabricChoice& fabric) {
    const auto names = fabric.used_names();
    if (names.empty()) {
        return "no HCA";
    }
    return format_text("{} ({})", count_text(names.size(), "HCA port"),
                       names.size() <= 2 ? joined(names, ",") : names.front() + ".." + names.back());
}

std::string head_text(const Plan& plan) {
    const auto* port = find_variable(plan.variables, "MASTER_PORT");
    std::string address = plan.master_address();
    if (const auto numeric = IpAddress::parse(address)) {
        address = numeric->bracketed();
    }
    return format_text("{}:{}", address.empty() ? "none" : address, port == nullptr ? "none" : port->value);
}

std::string variable_line(const Variable& variable) {
    switch (variable.action) {
    case VariableAction::Set:
        return format_text("  {}={}  [{}: {}]", variable.name, variable.value, variable.source, variable.why);
    case VariableAction::Keep:
        return format_text("  {}={}  [{}: kept]", variable.name, variable.value, variable.source);
    case VariableAction::Leave:
        return format_text("  {} left unset  [{}: {}]", variable.name, variable.source, variable.why);
    case VariableAction::Unset:
        break;
    }
    return format_text("  {} removed  [{}]", variable.name, variable.why);
}

} // namespace

std::string fabric_summary(const FabricChoice& fabric) {
    return hca_summary(fabric) + gid_summary(fabric);
}

std::string plan_summary(const Plan& plan, const Step& step) {
    return format_text("{} layout, {} on {}, head {} ({}), {}", layout_name(plan.layout.layout),
                       count_text(step.task_count, "task"), count_text(step.node_count, "node"), plan.head_node.name,
                       head_text(plan), fabric_summary(plan.fabric));
}

std::vector<std::string> plan_lines(const Plan& plan, const Step& step, const std::vector<Variable>& task_variables) {
    std::vector<std::string> lines;
    lines.push_back(format_text("layout {}: {}", layout_name(plan.layout.layout), plan.layout.why));
    lines.push_back(format_text("step {}.{}: {} on {}; {}{}{}", step.job_id, step.step_id,
                                count_text(step.task_count, "task"), count_text(step.node_count, "node"),
                                count_text(plan.visible_gpus, "visible GPU"),
                                plan.visible_gpus_source.empty() ? "" : " by ", plan.visible_gpus_source));
    lines.push_back(format_text("head {} ({}): {}", plan.head_node.name, head_text(plan),
                                plan.users_head ? "MASTER_ADDR was set before" : plan.head.why));
    for (const auto& port : plan.fabric.ports) {
        lines.push_back(format_text("{} port {} {}", port.hca, port.port, port.reason));
    }
    const auto add = [&lines](const std::vector<Variable>& variables) {
        std::transform(variables.begin(), variables.end(), std::back_inserter(lines), variable_line);
    };
    add(plan.variables);
    add(task_variables);
    return lines;
}

} // namespace rdma_nccl
