// SPDX-License-Identifier: Apache-2.0
#include "tools/explain/explain.h"

#include "lib/base/format.h"

namespace rdma_nccl {

namespace {

Explanation head_address_decision(const Plan& plan) {
    if (!plan.users_head) {
        return {"MASTER_ADDR", plan.head.address ? plan.head.address->text() : "none", plan.head.why, {}};
    }
    Explanation decision{"MASTER_ADDR", *plan.users_head, "set before, kept", {}};
    if (plan.head.address) {
        decision.rejected.push_back({plan.head.address->text(), "user", plan.head.why});
    }
    return decision;
}

Explanation interface_decision(const Plan& plan) {
    const auto& sockets = plan.sockets;
    std::string text = sockets.interface.empty() ? "none" : sockets.interface;
    if (sockets.address) {
        text += ", " + sockets.address->text();
    }
    return {"socket interface", std::move(text), sockets.why, {}};
}

Explanation ports_decision(const NodePlan& node) {
    const auto& choice = node.plan.fabric;
    const std::string list = choice.nccl_ib_hca();
    Explanation decision{"HCA ports", list.empty() ? "none" : list, {}, {}};
    if (node.facts.fabric.hcas.empty()) {
        decision.why = "no RDMA device in /sys/class/infiniband";
        return decision;
    }
    decision.why = format_text("{} of {} ports pass all rules", choice.used().size(), choice.ports.size());
    for (const auto& port : choice.ports) {
        if (!port.used()) {
            decision.rejected.push_back(
                {format_text("{} port {}", port.hca, port.port), std::string(rule_name(port.rule)), port.reason});
        }
    }
    return decision;
}

/// Returns the GID index that NCCL 2.21 and newer would use for the port by itself, and with our settings.
std::string nccl_text(const PortChoice& choice) {
    if (!choice.nccl_default || !choice.nccl_effective) {
        return {};
    }
    const std::string alone = *choice.nccl_default == *choice.gid_index
                                  ? "NCCL alone takes the same"
                                  : format_text("NCCL alone takes {}", *choice.nccl_default);
    return *choice.nccl_effective == *choice.gid_index ? alone
                                                       : format_text("{}, told {}", alone, *choice.nccl_effective);
}

Explanation gid_decision(const Port& port, const PortChoice& choice) {
    Explanation decision{format_text("{}{} port {}", gid_of, choice.hca, choice.port), {}, {}, {}};
    for (std::size_t i = 0; i < port.gids.size(); ++i) {
        const auto& gid = port.gids[i];
        const auto& verdict = choice.gids.at(i);
        const std::string text = format_text("index {}, {}", gid.index, gid.value.text());
        if (verdict.used()) {
            decision.decision = text;
            decision.why = format_text("{}; {}", verdict.reason, nccl_text(choice));
        } else {
            decision.rejected.push_back({text, std::string(rule_name(verdict.rule)), verdict.reason});
        }
    }
    return decision;
}

Explanation index_decision(const NodePlan& node) {
    const auto& choice = node.plan.fabric;
    if (choice.common_gid_index) {
        return {"GID index", format_text("{}", *choice.common_gid_index), "the same on all used ports", {}};
    }
    return {"GID index", "per port", "the used ports differ: NCCL 2.21 or newer finds each port's by itself", {}};
}

void add_gid_decisions(const NodePlan& node, std::vector<Explanation>& decisions) {
    std::size_t position = 0; // one PortChoice per port, in the order of the fabric
    bool any = false;
    for (const auto& hca : node.facts.fabric.hcas) {
        for (const auto& port : hca.ports) {
            const auto& choice = node.plan.fabric.ports.at(position++);
            if (choice.gid_index) {
                decisions.push_back(gid_decision(port, choice));
                any = true;
            }
        }
    }
    if (any) {
        decisions.push_back(index_decision(node));
    }
}

} // namespace

std::vector<Explanation> decisions_of(const NodePlan& node) {
    const auto& plan = node.plan;
    if (plan.leave_alone) {
        return {{"step", "left alone", plan.leave_alone_why, {}}};
    }
    std::vector<Explanation> decisions = {
        {"layout", std::string(layout_name(plan.layout.layout)), plan.layout.why, {}}};
    if (node.facts.step.job_id != 0) { // outside a job there are no other nodes to meet
        decisions.push_back({"head node", plan.head_node.name, plan.head_node.why, {}});
        decisions.push_back(head_address_decision(plan));
        decisions.push_back({"MASTER_PORT", format_text("{}", plan.port.first), plan.port.why, {}});
    }
    decisions.push_back({"GPUs of a task", format_text("{}", plan.visible_gpus), plan.visible_gpus_source, {}});
    decisions.push_back(interface_decision(plan));
    decisions.push_back(ports_decision(node));
    add_gid_decisions(node, decisions);
    return decisions;
}

std::vector<std::string> notes_of(const NodePlan& node) {
    std::vector<std::string> notes = node.plan.notes;
    for (const auto& hca : node.facts.fabric.hcas) {
        for (const auto& problem : hca.problems) {
            notes.push_back(format_text("{}: {}", hca.name, problem));
        }
        for (const auto& port : hca.ports) {
            for (const auto& problem : port.problems) {
                notes.push_back(format_text("{} port {}: {}", hca.name, port.number, problem));
            }
        }
    }
    return notes;
}

} // namespace rdma_nccl
