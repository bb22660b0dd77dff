// SPDX-License-Identifier: Apache-2.0
#include "lib/base/format.h"
#include "lib/select/candidates.h"

#include <algorithm>
#include <array>
#include <tuple>

namespace rdma_nccl {

namespace {

constexpr unsigned max_index = 255; // ibv_global_route::sgid_index is a uint8_t

/// Why an entry is unusable. The greater the rule's value, the nearer the entry came to being used; the user is told of
/// the greatest one.
struct Fault {
    GidRule rule;
    std::string reason;
    std::string remedy;
};

/// Returns the version that the user asked for.
std::string roce_version_text(const Settings& settings) {
    return settings.roce == RoceVersion::V2 ? "RoCE v2" : "RoCE v1";
}

std::optional<Fault> netdev_fault(const Fabric& fabric, const Gid& gid) {
    if (fabric.netdevs.empty()) {
        return std::nullopt; // /sys/class/net was not copied: nothing to compare with
    }
    const Netdev* const netdev = fabric.find_netdev(gid.netdev);
    if (netdev == nullptr) {
        return Fault{GidRule::NetdevUnknown,
                     gid.netdev.empty() ? "no interface in this network namespace"
                                        : format_text("{} is not in this network namespace", gid.netdev),
                     "move the interface into this network namespace, or run in the host's"};
    }
    if (netdev->loopback) {
        return Fault{GidRule::Loopback, format_text("{} is the loopback interface", netdev->name),
                     "put the RDMA device on a real interface"};
    }
    if (!netdev->up) {
        return Fault{GidRule::NetdevDown, format_text("{} is down", netdev->name),
                     format_text("bring {} up", netdev->name)};
    }
    return std::nullopt;
}

Fault type_fault(const Gid& gid) {
    if (gid.type_problem == TypeProblem::Missing) {
        return {GidRule::TypeUnknown, "its type is not told", "the kernel is older than 4.5: update it, or set gid="};
    }
    if (gid.type_problem == TypeProblem::Strange) {
        return {GidRule::TypeUnknown, format_text("its type is '{}'", gid.type_text),
                "only RoCE v1 and v2 are known: update rdma-nccl, or set gid="};
    }
    return {GidRule::TypeUnknown, format_text("its type cannot be read ({})", gid.type_text),
            "in a container, run in the network namespace of its interface"};
}

/// Returns the first objection to an entry.
std::optional<Fault> find_fault(const Fabric& fabric, const Gid& gid, const Settings& settings) {
    if (gid.value.is_zero() || gid.value.is_multicast() || gid.value.is_loopback()) {
        return Fault{GidRule::NotUnicast, format_text("{} is no address of a node", gid.value.text()),
                     "give its interface an IPv4 address"};
    }
    if (!gid.type) {
        return type_fault(gid);
    }
    const bool want_v2 = settings.roce == RoceVersion::V2;
    if (gid.type != (want_v2 ? GidType::RoceV2 : GidType::RoceV1)) {
        return Fault{GidRule::WrongVersion, want_v2 ? "RoCE v1" : "RoCE v2",
                     want_v2 ? "enable RoCE v2 on it, or set roce=1" : "set roce=2"};
    }
    if (auto fault = netdev_fault(fabric, gid)) {
        return fault;
    }
    const bool ipv4 = gid.value.is_ipv4();
    if (settings.family == (ipv4 ? FamilyChoice::Ipv6 : FamilyChoice::Ipv4)) {
        return Fault{GidRule::WrongFamily, ipv4 ? "not IPv6, as family=ipv6 asks" : "not IPv4, as family=ipv4 asks",
                     ipv4 ? "add an IPv6 address, or set family=auto" : "add an IPv4 address, or set family=auto"};
    }
    if (gid.index > max_index) {
        return Fault{GidRule::IndexTooHigh, format_text("index {} is above 255, which verbs cannot use", gid.index),
                     "remove unused addresses of its interface, or reload the driver"};
    }
    return std::nullopt;
}

GidClass class_of(const Gid& gid, const Settings& settings) {
    if (settings.prefix && settings.prefix->contains(gid.value)) {
        return GidClass::InPrefix;
    }
    if (gid.value.is_link_local()) {
        return GidClass::LinkLocal;
    }
    return gid.value.is_ipv4() ? GidClass::Ipv4 : GidClass::GlobalIpv6;
}

/// True for a VLAN, macvlan or the like: it is stacked on another interface that is not its slave, unlike a bond.
bool is_stacked(const Fabric& fabric, const std::string& name) {
    const Netdev* const netdev = fabric.find_netdev(name);
    if (netdev == nullptr || netdev->lowers.empty()) {
        return false;
    }
    return std::ranges::none_of(netdev->lowers, [&](const std::string& lower) {
        const Netdev* const below = fabric.find_netdev(lower);
        return below != nullptr && below->upper == name;
    });
}

/// Returns the rank of an entry; smaller is better. Among link-local entries (fe80::, 169.254/16), IPv4 is better: NCCL
/// looks at that family by default.
auto rank_of(const Fabric& fabric, const Gid& gid, const Settings& settings) {
    const GidClass gid_class = class_of(gid, settings);
    const bool second_family = gid_class == GidClass::LinkLocal && !gid.value.is_ipv4();
    return std::tuple(gid_class, second_family, is_stacked(fabric, gid.netdev), gid.index);
}

std::string class_text(GidClass gid_class, const Settings& settings) {
    constexpr std::array names = {"", "IPv4", "IPv6", "link-local"};
    return gid_class == GidClass::InPrefix ? format_text("inside {}", settings.prefix->text())
                                           : names.at(static_cast<std::size_t>(gid_class));
}

/// Returns why `chosen` is preferred to `gid`, which is usable too.
GidVerdict second_verdict(const Fabric& fabric, const Gid& gid, const Gid& chosen, const Settings& settings) {
    const GidClass gid_class = class_of(gid, settings);
    if (gid_class != class_of(chosen, settings)) {
        return {
            gid.index, GidRule::LessPreferred,
            format_text("index {} is preferred: {}", chosen.index, class_text(class_of(chosen, settings), settings))};
    }
    if (is_stacked(fabric, gid.netdev) && !is_stacked(fabric, chosen.netdev)) {
        return {gid.index, GidRule::Stacked,
                format_text("{} stands on another interface, index {} is preferred", gid.netdev, chosen.index)};
    }
    return {gid.index, GidRule::Later, format_text("as good as index {}, which comes first", chosen.index)};
}

/// Returns the reason for leaving out a port without a usable entry.
Exclusion exclusion_without_gid(const Port& port, const std::optional<Fault>& nearest, const Settings& settings) {
    if (!nearest && port.gid_table_length == 0) {
        return {PortRule::NoGidTable, "has no GID table that can be read: left out"};
    }
    if (!nearest) {
        return {PortRule::NoGid,
                format_text("has no GID at all ({} slots are empty): left out; bring its interface up in this network "
                            "namespace and give it an IPv4 address",
                            port.gid_table_length)};
    }
    const bool wrong_version = nearest->rule == GidRule::WrongVersion;
    return {PortRule::NoUsableGid,
            format_text("has no {}{} address ({}{}): left out; {}", wrong_version ? "" : "usable ",
                        roce_version_text(settings), wrong_version ? "only " : "", nearest->reason, nearest->remedy)};
}

/// Describes a port whose best entry is link-local: there is a better one that cannot be used, or none.
void describe_link_local(const Fabric& fabric, GidChoice& choice, const std::optional<Fault>& nearest_routable,
                         const Settings& settings) {
    const Gid& gid = *choice.gid;
    const std::string only = gid.value.is_ipv4() ? "169.254/16" : "fe80::";
    std::string reason;
    std::string remedy;
    if (nearest_routable && nearest_routable->rule != GidRule::WrongVersion) {
        remedy = nearest_routable->remedy;
        // The remedy alone tells of the wrong family.
        const bool say_why = nearest_routable->rule != GidRule::WrongFamily;
        choice.remedy = say_why ? format_text("{}: {}", nearest_routable->reason, remedy) : remedy;
        reason = format_text("has no usable {} address but {} ({})", roce_version_text(settings), only,
                             nearest_routable->reason);
    } else {
        reason = format_text("has no {} address (only {})", roce_version_text(settings), only);
        const Netdev* const netdev = fabric.find_netdev(gid.netdev);
        remedy = netdev != nullptr && !netdev->upper.empty()
                     ? format_text("{} belongs to {}", gid.netdev, netdev->upper)
                     : format_text("give {} {} address", gid.netdev.empty() ? "its interface" : gid.netdev,
                                   settings.family == FamilyChoice::Ipv6 ? "a global IPv6" : "an IPv4");
        choice.remedy = remedy;
    }
    choice.problem = Exclusion{PortRule::LinkLocal, format_text("{}: left out; {}", reason, remedy)};
}

GidChoice choose_best(const Fabric& fabric, const Port& port, const Settings& settings) {
    GidChoice choice;
    std::optional<Fault> nearest;
    std::optional<Fault> nearest_routable;
    const auto keep_nearest = [](std::optional<Fault>& kept, const Fault& fault) {
        if (!kept || fault.rule > kept->rule) {
            kept = fault;
        }
    };
    for (const auto& gid : port.gids) {
        const auto fault = find_fault(fabric, gid, settings);
        choice.verdicts.push_back({gid.index, fault ? fault->rule : GidRule::Used, fault ? fault->reason : ""});
        if (!fault) {
            const bool better =
                choice.gid == nullptr || rank_of(fabric, gid, settings) < rank_of(fabric, *choice.gid, settings);
            choice.gid = better ? &gid : choice.gid;
            continue;
        }
        keep_nearest(nearest, *fault);
        if (gid.value.is_routable()) {
            keep_nearest(nearest_routable, *fault);
        }
    }
    if (choice.gid == nullptr) {
        choice.problem = exclusion_without_gid(port, nearest, settings);
        return choice;
    }
    choice.gid_class = class_of(*choice.gid, settings);
    if (choice.gid_class == GidClass::LinkLocal) {
        describe_link_local(fabric, choice, nearest_routable, settings);
    }
    for (std::size_t i = 0; i < port.gids.size(); ++i) {
        auto& verdict = choice.verdicts[i];
        if (&port.gids[i] == choice.gid) {
            verdict.reason = format_text("{}, {}", roce_version_text(settings), class_text(choice.gid_class, settings));
        } else if (verdict.used()) {
            verdict = second_verdict(fabric, port.gids[i], *choice.gid, settings);
        }
    }
    return choice;
}

/// gid=N: the user decides. Refuses only an entry that verbs cannot address.
GidChoice choose_forced(const Fabric& fabric, const Port& port, const Settings& settings, unsigned index) {
    GidChoice choice;
    for (const auto& gid : port.gids) {
        const bool forced = gid.index == index && index <= max_index;
        choice.verdicts.push_back({gid.index, forced ? GidRule::Used : GidRule::NotForced,
                                   format_text("{}gid={}", forced ? "forced by " : "not ", index)});
        if (forced) {
            choice.gid = &gid;
            choice.gid_class = class_of(gid, settings);
            const auto fault = find_fault(fabric, gid, settings);
            choice.doubt = fault ? fault->reason : "";
        }
    }
    if (choice.gid == nullptr) {
        choice.problem = Exclusion{
            PortRule::NoSuchGid,
            index > max_index
                ? format_text("cannot use gid={}: left out; verbs know indices 0 to 255 only", index)
                : format_text(
                      "has nothing at GID index {} (gid={}): left out; `rdma-nccl gids --all` lists what there is",
                      index, index)};
    }
    return choice;
}

} // namespace

GidChoice choose_gid(const Fabric& fabric, const Port& port, const Settings& settings) {
    return settings.gid ? choose_forced(fabric, port, settings, *settings.gid) : choose_best(fabric, port, settings);
}

} // namespace rdma_nccl
