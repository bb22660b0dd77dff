// SPDX-License-Identifier: Apache-2.0
#include "lib/nccl/model.h"

#include "lib/base/lists.h"

#include <algorithm>
#include <string_view>

namespace rdma_nccl {

namespace {

/// One slot of the GID table as NCCL sees it. An empty slot is the GID "::" without a type.
struct Slot {
    IpAddress value;
    std::optional<GidType> type;
};

/// NCCL does not check for 169.254/16, multicast or loopback: a GID is valid if it is not zero and not in fe80::/64.
bool is_valid(const IpAddress& gid) {
    static const auto fe80 = IpPrefix::parse("fe80::/64");
    return gid != IpAddress() && !fe80->contains(gid);
}

/// An entry of the wanted family replaces one of the other family at once, whatever its RoCE version. Otherwise it must
/// be valid, and its version must be the wanted one and better than the current entry's.
bool takes(const Slot& candidate, const Slot& current, const NcclGidEnvironment& environment, NcclGidPick& pick) {
    const bool wanted_family = candidate.value.is_ipv4() != environment.ipv6;
    const bool in_range = !environment.range || environment.range->contains(candidate.value);
    if (!wanted_family || !in_range) {
        return false;
    }
    if (candidate.value.is_ipv4() != current.value.is_ipv4()) {
        return true;
    }
    if (!is_valid(candidate.value)) {
        return false;
    }
    pick.meets_unreadable_type = pick.meets_unreadable_type || !candidate.type || !current.type;
    const GidType wanted = environment.roce_version == RoceVersion::V2 ? GidType::RoceV2 : GidType::RoceV1;
    return candidate.type == wanted && (current.type != candidate.type || !is_valid(current.value));
}

using Names = std::vector<std::string>;

constexpr std::size_t max_interfaces = 16; // MAX_IFS

bool has_address(const Netdev& netdev, bool ipv6) {
    return std::ranges::any_of(netdev.addresses, [ipv6](const InterfaceAddress& entry) {
        return entry.address.is_ipv4() != ipv6 && !(ipv6 && entry.address.is_loopback());
    });
}

/// Returns every interface that NCCL may consider, in NCCL's order.
Names candidates(const Fabric& fabric, const NcclInterfaceEnvironment& environment) {
    std::vector<const Netdev*> in_order;
    for (const auto& netdev : fabric.netdevs) {
        if (netdev.up || netdev.loopback || environment.before_2_28) {
            in_order.push_back(&netdev);
        }
    }
    std::ranges::stable_sort(in_order, {}, &Netdev::order);
    Names names;
    for (const bool ipv6 : {false, true}) {
        for (const Netdev* const netdev : in_order) {
            if (environment.ipv6.value_or(ipv6) == ipv6 && has_address(*netdev, ipv6)) {
                add_once(names, netdev->name);
            }
        }
    }
    return names;
}

} // namespace

NcclGidPick nccl_gid_pick(const Port& port, const NcclGidEnvironment& environment) {
    std::size_t length = port.gid_table_length;
    for (const auto& gid : port.gids) {
        length = std::max<std::size_t>(length, std::size_t{gid.index} + 1);
    }
    std::vector<Slot> table(std::max<std::size_t>(length, 1));
    for (const auto& gid : port.gids) {
        table.at(gid.index) = {gid.value, gid.type};
    }
    NcclGidPick pick;
    for (unsigned index = 1; index < table.size(); ++index) {
        if (takes(table[index], table[pick.index], environment, pick)) {
            pick.index = index;
        }
    }
    return pick;
}

std::vector<std::string> nccl_interfaces(const Fabric& fabric, const NcclInterfaceEnvironment& environment) {
    const auto is_last_resort = [&](std::string_view name) {
        return name.starts_with("docker") || name.starts_with("lo") ||
               (!environment.before_2_28 && name.starts_with("virbr"));
    };
    const Names all = candidates(fabric, environment);
    for (const std::string_view prefix : {"ib", "", "docker", "lo", "virbr"}) { // "": all but the last three
        auto names = selected(all, [&](std::string_view name) {
            return prefix.empty() ? !is_last_resort(name) : name.starts_with(prefix);
        });
        if (!names.empty()) {
            names.resize(std::min(names.size(), max_interfaces));
            return names;
        }
    }
    return {};
}

} // namespace rdma_nccl
