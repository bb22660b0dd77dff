// SPDX-License-Identifier: Apache-2.0
#include "lib/nccl_interface_model.h"

#include <algorithm>
#include <functional>
#include <string_view>

namespace rdma_nccl {

namespace {

using Names = std::vector<std::string>;

constexpr std::size_t most_interfaces = 16; // MAX_IFS

bool has_address(const Netdev& netdev, bool ipv6) {
    return std::any_of(netdev.addresses.begin(), netdev.addresses.end(), [ipv6](const InterfaceAddress& entry) {
        return entry.address.is_ipv4() != ipv6 && !(ipv6 && entry.address.is_loopback());
    });
}

/// Every interface that NCCL may look at, in its order.
Names candidates(const Fabric& fabric, const NcclInterfaceEnvironment& environment) {
    std::vector<const Netdev*> in_order;
    for (const auto& netdev : fabric.netdevs) {
        if (netdev.up || netdev.loopback || environment.before_2_28) {
            in_order.push_back(&netdev);
        }
    }
    std::stable_sort(in_order.begin(), in_order.end(),
                     [](const Netdev* a, const Netdev* b) { return a->order < b->order; });
    Names names;
    for (const bool ipv6 : {false, true}) {
        for (const Netdev* const netdev : in_order) {
            const bool listed = std::find(names.begin(), names.end(), netdev->name) != names.end();
            if (environment.ipv6.value_or(ipv6) == ipv6 && !listed && has_address(*netdev, ipv6)) {
                names.push_back(netdev->name);
            }
        }
    }
    return names;
}

using Test = std::function<bool(std::string_view)>;

Test begins_with(std::string_view prefix) {
    return [prefix](std::string_view name) { return name.starts_with(prefix); };
}

} // namespace

std::vector<std::string> nccl_interfaces(const Fabric& fabric, const NcclInterfaceEnvironment& environment) {
    const bool virbr_is_last = !environment.before_2_28;
    const auto anything_else = [virbr_is_last](std::string_view name) {
        return !name.starts_with("docker") && !name.starts_with("lo") && !(virbr_is_last && name.starts_with("virbr"));
    };
    const Names all = candidates(fabric, environment);
    for (const auto& test : {begins_with("ib"), Test(anything_else), begins_with("docker"), begins_with("lo"),
                             virbr_is_last ? begins_with("virbr") : Test([](std::string_view) { return false; })}) {
        Names names;
        std::copy_if(all.begin(), all.end(), std::back_inserter(names), test);
        if (!names.empty()) {
            names.resize(std::min(names.size(), most_interfaces));
            return names;
        }
    }
    return {};
}

} // namespace rdma_nccl
