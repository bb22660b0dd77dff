// SPDX-License-Identifier: Apache-2.0
#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "lib/exchange/messages.h"
#include "lib/fabric/readers.h"
#include "lib/plan/inspect.h"
#include "lib/plan/nccl_variables.h"
#include "lib/select/rails.h"

#include <algorithm>

namespace rdma_nccl {

namespace {

/// Returns an address with the prefix length that the interface has for it, or with its full length if it has none.
InterfaceAddress with_length(const Netdev* netdev, const IpAddress& address) {
    const auto* const own =
        netdev == nullptr ? nullptr : find_by(netdev->addresses, &InterfaceAddress::address, address);
    return own == nullptr ? InterfaceAddress{address, address.is_ipv4() ? 32U : 128U} : *own;
}

ReportedPort report_port(const Fabric& fabric, const PortChoice& choice, const Port& port) {
    ReportedPort result{choice.hca, choice.port, choice.link_layer, port.believable_rate_gbps(), 0, {}, {}};
    const auto* const gid = choice.gid_index ? find_by(port.gids, &Gid::index, *choice.gid_index) : nullptr;
    if (gid != nullptr) {
        const Netdev* const netdev = fabric.find_netdev(gid->netdev);
        result.mtu = netdev == nullptr ? 0 : netdev->mtu;
        result.address = with_length(netdev, gid->value);
        if (gid->type) {
            result.roce = *gid->type == GidType::RoceV1 ? RoceVersion::V1 : RoceVersion::V2;
        }
    }
    return result;
}

/// True for the interfaces of HCAs in use.
bool is_of_fabric(const Fabric& fabric, const FabricChoice& choice, const std::string& netdev) {
    return std::ranges::any_of(fabric.hcas,
                               [&](const Hca& hca) { return choice.uses(hca.name) && contains(hca.netdevs, netdev); });
}

/// Returns why the tasks must have Slurm's ranks: something other than our variables numbers them.
std::string keeps_order(const NodeFacts& facts) {
    const auto& environment = facts.environment;
    if (facts.step.heterogeneous) {
        return "the step is heterogeneous";
    }
    // srun also sets this to what it chose itself, block or cyclic; srun sees from the task numbers which it was.
    if (facts.step.distribution.starts_with("arbitrary")) {
        return "--distribution=arbitrary was asked for";
    }
    for (const auto* const name : {"RANK", "NODE_RANK", "GROUP_RANK", "PET_NODE_RANK"}) {
        if (environment.get_users(name)) {
            return format_text("{} was set before: unset it", name);
        }
    }
    return {};
}

} // namespace

NodeReport make_report(const NodeFacts& facts, const Plan& plan, std::string node) {
    NodeReport report;
    report.node = std::move(node);
    report.gpus = facts.visible_gpus.count();
    report.release = own_release();
    report.layout = plan.layout.layout;
    report.cpus = facts.allowed_cpus;
    report.memlock_kib = facts.limits.memlock_kib;
    report.failover = failover_of(facts, plan);
    report.hcas = static_cast<unsigned>(facts.fabric.hcas.size());
    for (const auto& hca : facts.fabric.hcas) {
        report.active_ports += static_cast<unsigned>(std::ranges::count(hca.ports, "ACTIVE", &Port::state));
    }
    report.fabric = fabric_summary(facts, plan.fabric);
    report.alone = plan.layout.alone;
    for (const auto* choice : in_order_of_nccl(facts.fabric, plan.fabric)) {
        if (const Port* const port = facts.fabric.find_port(choice->hca, choice->port)) {
            report.ports.push_back(report_port(facts.fabric, *choice, *port));
        }
    }
    for (const auto& netdev : facts.fabric.netdevs) {
        for (const auto& own : netdev.addresses) {
            if (netdev.up && !netdev.loopback && own.address.is_routable() &&
                !is_virtual_bridge(facts.fabric.netdevs, netdev.name)) {
                report.addresses.push_back({netdev.name, own, is_of_fabric(facts.fabric, plan.fabric, netdev.name)});
            }
        }
    }
    report.users_head = plan.users_head.value_or("");
    report.plan_head = plan.users_head ? IpAddress::parse(*plan.users_head) : plan.head.address;
    report.plan_head_is_given = plan.users_head || plan.head.source == "setting";
    report.plan_head_why = plan.users_head ? "MASTER_ADDR was set before" : plan.head.why;
    report.warnings = plan.warnings;
    report.topology_address = facts.environment.get("SLURM_TOPOLOGY_ADDR").value_or("");
    report.topology_pattern = facts.environment.get("SLURM_TOPOLOGY_ADDR_PATTERN").value_or("");
    // Slurm removes the variable in favour of none before plugins see it (mpi_process_env(), 22.05 to 26.05).
    const auto mpi = facts.environment.get("SLURM_MPI_TYPE").value_or("none");
    report.mpi = mpi == "none" ? "" : mpi;
    report.keeps_order = keeps_order(facts);
    report.fabric_profile = fabric_profile_to_agree(plan.fabric_profile);
    return report;
}

} // namespace rdma_nccl
