// SPDX-License-Identifier: Apache-2.0
#include "lib/plan/plan.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/plan/nccl_variables.h"

#include <algorithm>

namespace rdma_nccl {

namespace {

/// For `net=auto`: returns the interface on the head's network, if this node has an address there. Outside a step there
/// are no other nodes to meet: the head is this node.
std::optional<SocketChoice> sockets_towards_head(const Plan& plan, const NodeFacts& facts, const Settings& settings) {
    const auto head = plan.users_head ? IpAddress::parse(*plan.users_head) : plan.head.address;
    if (!head || !settings.net.is_auto() || (facts.step.job_id == 0 && !plan.users_head)) {
        return std::nullopt;
    }
    for (const auto& netdev : facts.fabric.netdevs) {
        for (const auto& own : netdev.addresses) {
            const auto network = IpPrefix::of(own.address, own.prefix_length);
            const bool same = own.address == *head || (network && network->length() > 0 && network->contains(*head));
            if (netdev.up && !netdev.loopback && same) {
                return SocketChoice{
                    netdev.name, own.address, format_text("on the network of MASTER_ADDR {}", head->text()), {}};
            }
        }
    }
    return std::nullopt;
}

void warn_about_head(Plan& plan, const NodeFacts& facts, const Settings& settings, bool agreed) {
    const bool asked_later = facts.head_is_to_be_agreed && !agreed;
    if (asked_later && !plan.head.address && !plan.head.warnings.empty()) {
        plan.head.warnings.pop_back(); // the warning that there is no address: the nodes will agree on one
    }
    if (plan.users_head || facts.step.job_id == 0 || !plan.meets()) {
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
        const auto* const problem = facts.fabric.hca_problem();
        plan.warnings.push_back(format_text("{}: NCCL will use sockets",
                                            problem ? format_text("cannot tell the RDMA devices ({})", *problem)
                                                    : "no RDMA device in /sys/class/infiniband"));
    }
    append(plan.warnings, plan.fabric.warnings);
    append(plan.warnings, judge_nccl_overrides(facts, plan.fabric));
    append(plan.warnings, judge_failover(facts, plan.fabric, settings));
    append(plan.warnings, sockets.warnings);
    auto& of_profiles = settings.strict ? plan.notes : plan.warnings; // a file that is ignored ends no strict step
    for (const auto& fault : facts.fabric_profile_faults) {
        of_profiles.push_back(fault.substr(0, fault.find('\n')));
    }
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
    plan.layout.alone = agreement.alone;
    plan.ranks = agreement.ranks;
    plan.order = agreement.order;
}

/// Only RDMA needs locked memory, so that limit is a warning. Other low limits are notes, which end no strict step.
void judge_node_limits(Plan& plan, const NodeFacts& facts, const Settings& settings) {
    const bool by_task = plan.layout.layout == Layout::Rank;
    const unsigned ranks = facts.step.task_count * (by_task ? 1 : std::max(plan.visible_gpus, 1U));
    const bool rdma = !plan.fabric.used().empty() && settings.memlock != MemlockChoice::Ignore;
    append(plan.warnings, judge_limits({facts.limits.memlock_kib, {}, {}}, rdma, ranks));
    append(plan.notes, judge_limits({{}, facts.limits.open_files, facts.limits.shm_mib}, false, ranks));
}

} // namespace

Plan make_plan(const NodeFacts& facts, const Settings& settings) {
    Plan plan;
    if (facts.program.kind == ProgramKind::RuntimeDaemon) {
        plan.leave_alone = true;
        plan.leave_alone_why = format_text("{} starts the ranks of another runtime", facts.program.name);
        return plan;
    }
    plan.visible_gpus = facts.visible_gpus.count();
    plan.visible_gpus_source = facts.visible_gpus.source;
    plan.layout = choose_layout(settings, facts.step, facts.program, plan.visible_gpus);
    plan.cpus_stay =
        settings.enable && !asked_by_user(settings) && !settings.given.contains("bind") && plan.visible_gpus == 0;
    plan.users_head = facts.environment.get_users("MASTER_ADDR");
    plan.fabric = choose_fabric(facts.fabric, settings);
    model_effective(facts, settings, plan.fabric);
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
        plan.fabric = choose_fabric(facts.fabric, settings, agreement->left_out);
        model_effective(facts, settings, plan.fabric);
    }
    const SocketChoice sockets = choose_socket_interface(facts.fabric, plan.fabric, settings);
    plan.head_node = facts.head_node;
    plan.head = choose_head(settings, facts.step, facts.head_node, facts.head_resolution, sockets.address);
    plan.port = coordination.held_ports.value_or(plan.port);
    if (agreement) {
        take_agreement(plan, *agreement);
    }
    const auto towards_head = sockets_towards_head(plan, facts, settings);
    plan.sockets = towards_head.value_or(sockets);
    plan.meets_anywhere = !towards_head || (!plan.users_head && facts.step.node_count == 1);
    collect_warnings(plan, facts, settings, sockets, agreement.has_value());
    const bool lone_node = facts.step.node_count == 1 && !facts.step.heterogeneous; // else other components may run
    plan.fabric_profile = plan_fabric_profile(facts, settings, agreement ? agreement->fabric_profile : lone_node);
    plan.variables = plan_variables(plan, facts, settings, coordination.unequal_gpus);
    judge_node_limits(plan, facts, settings);
    return plan;
}

} // namespace rdma_nccl
