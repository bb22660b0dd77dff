// SPDX-License-Identifier: Apache-2.0
// What holds for every plan: its variables lead NCCL to what was chosen, and all its texts can be printed.
#pragma once

#include "lib/base/text.h"
#include "lib/nccl/model.h"
#include "lib/plan/node_placement.h"
#include "lib/plan/plan.h"
#include "tests/fuzz/check.h"
#include "tests/fuzz/choice_check.h"

#include <optional>
#include <set>
#include <string>
#include <vector>

namespace fuzz {

/// A step of two nodes that nobody has set a variable for.
inline rdma_nccl::NodeFacts facts_with(const rdma_nccl::Fabric& fabric) {
    rdma_nccl::NodeFacts facts;
    facts.host_name = "n01";
    facts.step.job_id = 7;
    facts.step.leader_job_id = 7;
    facts.step.nodes = {"n01", "n02"};
    facts.step.node_count = 2;
    facts.step.task_count = 2;
    facts.step.tasks_per_node = {1, 1};
    facts.head_node = rdma_nccl::find_head_node(facts.step);
    facts.fabric = fabric;
    facts.visible_gpus = {std::vector<std::string>(fabric.gpus.size()), "the node's PCI devices", ""};
    return facts;
}

/// What the ranks get.
inline std::optional<std::string> value_of(const rdma_nccl::Plan& plan, std::string_view name) {
    const auto* const variable = rdma_nccl::find_variable(plan.variables, name);
    return variable != nullptr && variable->action == rdma_nccl::VariableAction::Set ? std::optional(variable->value)
                                                                                     : std::nullopt;
}

/// The index that NCCL 2.21 or newer takes under these variables, by its own rule.
inline unsigned index_under(const rdma_nccl::Plan& plan, const rdma_nccl::Port& port) {
    using namespace rdma_nccl;
    if (const auto index = value_of(plan, "NCCL_IB_GID_INDEX")) {
        return parse_number<unsigned>(*index).value();
    }
    const auto range = value_of(plan, "NCCL_IB_ADDR_RANGE");
    return nccl_gid_pick(port, {value_of(plan, "NCCL_IB_ADDR_FAMILY") == "AF_INET6",
                                value_of(plan, "NCCL_IB_ROCE_VERSION_NUM") == "1" ? RoceVersion::V1 : RoceVersion::V2,
                                range ? IpPrefix::parse(*range) : std::nullopt})
        .index;
}

inline void check_variables(const rdma_nccl::Plan& plan) {
    using namespace rdma_nccl;
    std::set<std::string> names;
    std::vector<std::string> environment;
    std::set<std::string, std::less<>> set;
    for (const auto& variable : plan.variables) {
        require(names.insert(variable.name).second, "each variable once", variable.name);
        require(!variable.why.empty(), "each variable says why", variable.name);
        require_plain(variable.value);
        require_plain(variable.source + variable.why);
        if (variable.action == VariableAction::Set) {
            require(!variable.value.empty(), "a value that is set", variable.name);
            environment.push_back(variable.name + "=" + variable.value);
            set.insert(variable.name);
        }
    }
    environment.push_back(std::string(marker_variable) + "=" + marker_value("7.0", plan.variables));
    require(Environment(environment).ours() == set, "a step inside this one knows what is ours");
}

inline void check_sockets(const rdma_nccl::Plan& plan, const rdma_nccl::Fabric& fabric) {
    const auto& sockets = plan.sockets;
    require(sockets.interface.empty() != sockets.address.has_value(), "an interface with an address, or neither");
    require_plain(sockets.why);
    require_all_plain(sockets.warnings);
    if (sockets.interface.empty()) {
        require(!value_of(plan, "NCCL_SOCKET_IFNAME"), "no interface for NCCL where there is none");
        return;
    }
    const auto* const netdev = fabric.find_netdev(sockets.interface);
    require(netdev != nullptr && netdev->up, "an interface that is up", sockets.interface);
    require(std::any_of(netdev->addresses.begin(), netdev->addresses.end(),
                        [&](const auto& entry) { return entry.address == *sockets.address; }),
            "an address of the interface", sockets.address->text());
    const auto name = value_of(plan, "NCCL_SOCKET_IFNAME");
    require(!name || *name == "=" + sockets.interface, "NCCL and the plan agree on the interface");
}

inline void check_plan(const rdma_nccl::Fabric& fabric, const rdma_nccl::Settings& settings) {
    using namespace rdma_nccl;
    const NodeFacts facts = facts_with(fabric);
    const Plan plan = make_plan(facts, settings);
    check_variables(plan);
    check_sockets(plan, fabric);
    const std::string hcas = value_of(plan, "NCCL_IB_HCA").value_or("");
    // "^" names none: where no port is used, NCCL shall not try one.
    require((hcas == "^" ? "" : hcas) == plan.fabric.nccl_ib_hca(), "NCCL_IB_HCA is the choice");
    for (const auto& port : decided_ports(fabric, plan.fabric)) {
        if (port.choice.used() && port.is_roce()) {
            require(port.choice.nccl_effective == index_under(plan, port.fact),
                    "the variables tell NCCL what was chosen");
        }
    }
    require_all_plain(plan.warnings);
    require_all_plain(plan.notes);
    require_plain(plan_summary(plan, facts));
    require_all_plain(plan_lines(plan, facts.step, plan_task(plan, TaskFacts(), facts.environment)));
}

} // namespace fuzz
