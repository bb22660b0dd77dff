// SPDX-License-Identifier: Apache-2.0
#include "lib/nccl/model.h"

#include <algorithm>
#include <functional>
#include <string_view>
#include <vector>

namespace rdma_nccl {

namespace {

/// One slot of the GID table as NCCL sees it. An empty slot is the GID "::" without a type.
struct Slot {
    IpAddress value;
    std::optional<GidType> type;
};

/// NCCL does not check for 169.254/16, multicast or loopback: a GID is valid if it is not zero and not in fe80::/64.
bool is_valid(const IpAddress& gid) {
    const auto fe80 = IpPrefix::parse("fe80::/64");
    return gid != IpAddress() && !fe80->contains(gid);
}

class Chooser {
public:
    explicit Chooser(const NcclGidEnvironment& environment) : environment_(environment) {}

    void start(const Slot& first) { current_ = first; }
    void look_at(unsigned index, const Slot& candidate) {
        if (takes(candidate)) {
            pick_.index = index;
            current_ = candidate;
        }
    }
    [[nodiscard]] NcclGidPick pick() const { return pick_; }

private:
    /// An entry of the wanted family replaces one of the other family at once, whatever its RoCE version. Otherwise it
    /// must be valid, and its version must be the wanted one and better than the current entry's.
    bool takes(const Slot& candidate) {
        const bool wanted_family = candidate.value.is_ipv4() != environment_.ipv6;
        const bool same_family = candidate.value.is_ipv4() == current_.value.is_ipv4();
        const bool in_range = !environment_.range || environment_.range->contains(candidate.value);
        if (!wanted_family || !in_range) {
            return false;
        }
        if (!same_family) {
            return true;
        }
        if (!is_valid(candidate.value)) {
            return false;
        }
        pick_.meets_unreadable_type = pick_.meets_unreadable_type || !candidate.type || !current_.type;
        const GidType wanted = environment_.roce_version == RoceVersion::V2 ? GidType::RoceV2 : GidType::RoceV1;
        return candidate.type == wanted && (current_.type != candidate.type || !is_valid(current_.value));
    }

    NcclGidEnvironment environment_;
    Slot current_;
    NcclGidPick pick_;
};

using Names = std::vector<std::string>;

constexpr std::size_t most_interfaces = 16; // MAX_IFS

bool has_address(const Netdev& netdev, bool ipv6) {
    return std::any_of(netdev.addresses.begin(), netdev.addresses.end(), [ipv6](const InterfaceAddress& entry) {
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

NcclGidPick nccl_gid_pick(const Port& port, const NcclGidEnvironment& environment) {
    std::size_t length = port.gid_table_length;
    for (const auto& gid : port.gids) {
        length = std::max<std::size_t>(length, std::size_t{gid.index} + 1);
    }
    std::vector<Slot> table(std::max<std::size_t>(length, 1));
    for (const auto& gid : port.gids) {
        table.at(gid.index) = {gid.value, gid.type};
    }
    Chooser chooser(environment);
    chooser.start(table.front());
    for (unsigned index = 1; index < table.size(); ++index) {
        chooser.look_at(index, table[index]);
    }
    return chooser.pick();
}

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
