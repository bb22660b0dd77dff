// SPDX-License-Identifier: Apache-2.0
#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "lib/nccl/model.h"
#include "lib/select/candidates.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <map>
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

/// Returns "; gids/3: Input/output error" if the port may have more entries than could be read, else "".
std::string unread_text(const Port& port) {
    const auto problem = port.problem_with("gids");
    return problem.empty() ? "" : "; " + problem;
}

/// Returns the reason for leaving out a port without a usable entry.
Exclusion exclusion_without_gid(const Port& port, const std::optional<Fault>& nearest, const Settings& settings) {
    const auto unread = unread_text(port);
    if (!nearest && (port.gid_table_length == 0 || !unread.empty())) {
        return {PortRule::NoGidTable, format_text("has no GID table that can be read ({}): left out",
                                                  unread.empty() ? "gids: empty" : unread.substr(2))};
    }
    if (!nearest) {
        return {PortRule::NoGid,
                format_text("has no GID at all ({} slots are empty): left out; bring its interface up in this network "
                            "namespace and give it an IPv4 address",
                            port.gid_table_length)};
    }
    const bool wrong_version = nearest->rule == GidRule::WrongVersion;
    return {PortRule::NoUsableGid, format_text("has no {}{} address ({}{}{}): left out; {}",
                                               wrong_version ? "" : "usable ", roce_version_text(settings),
                                               wrong_version ? "only " : "", nearest->reason, unread, nearest->remedy)};
}

/// Returns how the port with a link-local entry on this interface gets a better one.
std::string remedy_for_link_local(const Netdev* netdev, const Gid& gid, const Settings& settings) {
    const bool ipv6 = settings.family == FamilyChoice::Ipv6;
    auto remedy = format_text("give {} {} address", gid.netdev.empty() ? "its interface" : gid.netdev,
                              ipv6 ? "a global IPv6" : "an IPv4");
    if (netdev == nullptr) {
        return remedy;
    }
    if (!netdev->upper.empty()) {
        return format_text("{} belongs to {}", gid.netdev, netdev->upper);
    }
    for (const auto& [address, prefix_length] : netdev->addresses) {
        if (address.is_routable() && address.is_ipv4() != ipv6) { // the kernel adds a new address's entries later
            return format_text("{} has {}, which is not in the GID table yet: try again, or set {} down and up",
                               gid.netdev, address.text(), gid.netdev);
        }
    }
    return remedy;
}

/// Describes a port whose best entry is link-local: there is a better one that cannot be used, or none.
void describe_link_local(const Fabric& fabric, const Port& port, GidChoice& choice,
                         const std::optional<Fault>& nearest_routable, const Settings& settings) {
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
        reason = format_text("has no {} address (only {}{})", roce_version_text(settings), only, unread_text(port));
        remedy = remedy_for_link_local(fabric.find_netdev(gid.netdev), gid, settings);
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
        describe_link_local(fabric, port, choice, nearest_routable, settings);
    } else if (settings.prefix && choice.gid_class != GidClass::InPrefix) {
        choice.problem = Exclusion{PortRule::OutsidePrefix,
                                   format_text("has no usable address in {} (prefix) as others have, but {}: left out",
                                               settings.prefix->text(), choice.gid->value.text())};
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

// What NCCL is told, so that it takes the chosen entries.

using Ports = std::vector<PortCandidate*>;

const IpAddress& value_of(const PortCandidate& candidate) {
    return candidate.gid.gid->value;
}

/// Returns "index 3: mlx5_1 port 1, mlx5_2 port 1; index 5: mlx5_3 port 1".
std::string indices_text(const Ports& ports) {
    std::map<unsigned, std::vector<std::string>> names;
    for (const PortCandidate* const port : ports) {
        names[port->gid.gid->index].push_back(port->name());
    }
    return joined(
        mapped(names, [](const auto& of) { return format_text("index {}: {}", of.first, joined(of.second)); }), "; ");
}

/// Returns the smallest network that contains all chosen addresses; nullopt when they are of both families.
std::optional<IpPrefix> covering_network(const Ports& ports) {
    const auto& first = value_of(*ports.front());
    unsigned common = 128;
    for (const PortCandidate* const port : ports) {
        const auto& other = value_of(*port);
        if (other.is_ipv4() != first.is_ipv4()) {
            return std::nullopt;
        }
        unsigned same = 0;
        for (std::size_t i = 0; i < first.bytes().size(); ++i) {
            const auto difference = static_cast<std::uint8_t>(first.bytes().at(i) ^ other.bytes().at(i));
            same += static_cast<unsigned>(std::countl_zero(difference));
            if (difference != 0) {
                break;
            }
        }
        common = std::min(common, same);
    }
    return IpPrefix::of(first, first.is_ipv4() ? common - 96 : common);
}

/// Returns the ports for which NCCL's rule would choose another entry than we do.
Ports disagreeing(const Ports& ports, const NcclGidEnvironment& environment) {
    return selected(ports, [&](const PortCandidate* port) {
        return nccl_gid_pick(*port->port, environment).index != port->gid.gid->index;
    });
}

/// Returns the range with which NCCL agrees on the most ports; nullopt if NCCL does as well without a range.
std::optional<IpPrefix> choose_range(const Ports& ports, NcclGidEnvironment environment, const Settings& settings) {
    std::optional<IpPrefix> best;
    std::size_t fewest = disagreeing(ports, environment).size();
    for (const auto& range : {settings.prefix, covering_network(ports)}) {
        environment.range = range;
        const std::size_t count = disagreeing(ports, environment).size();
        // Tells NCCL the user's own prefix even if it changes nothing.
        if (range && (count < fewest || (count == fewest && range == settings.prefix))) {
            best = range;
            fewest = count;
        }
    }
    return best;
}

void warn_of_differing_indices(const Ports& ports, const NcclGidEnvironment& environment,
                               std::vector<std::string>& warnings) {
    warnings.push_back(
        format_text("the GID index differs ({}): NCCL_IB_GID_INDEX stays unset; NCCL 2.21 or newer finds "
                    "the entry per port, older versions cannot",
                    indices_text(ports)));
    for (const PortCandidate* const port : disagreeing(ports, environment)) {
        warnings.push_back(format_text("{}: NCCL will take GID index {} instead of {} ({}); leave the port out with "
                                       "hca=^{}, or give its interface the addresses in the order of the other ports",
                                       port->name(), nccl_gid_pick(*port->port, environment).index,
                                       port->gid.gid->index, value_of(*port).text(), port->hca->name));
    }
    const auto unreadable = std::ranges::find_if(ports, [&](const PortCandidate* port) {
        return nccl_gid_pick(*port->port, environment).meets_unreadable_type;
    });
    if (unreadable != ports.end()) {
        warnings.push_back(
            format_text("{} has GIDs whose type cannot be read: NCCL 2.21 to 2.25 stop there; use 2.26 or "
                        "newer, or set gid=",
                        (*unreadable)->name()));
    }
}

/// Records which entries NCCL would choose, to explain the decision to users.
void model_nccl(const Ports& ports, const NcclGidEnvironment& environment, FabricChoice& choice) {
    for (const PortCandidate* const port : ports) {
        auto* const found = find_by(choice.ports, &PortChoice::name, port_name(port->hca->name, port->port->number));
        found->nccl_default = nccl_gid_pick(*port->port, {}).index;
        found->nccl_effective =
            choice.common_gid_index ? *choice.common_gid_index : nccl_gid_pick(*port->port, environment).index;
    }
}

} // namespace

GidChoice choose_gid(const Fabric& fabric, const Port& port, const Settings& settings) {
    return settings.gid ? choose_forced(fabric, port, settings, *settings.gid) : choose_best(fabric, port, settings);
}

void decide_gid_index(const std::vector<PortCandidate*>& used, const Settings& settings, FabricChoice& choice) {
    const auto ports = selected(used, &PortCandidate::is_roce);
    if (ports.empty()) {
        return;
    }
    const auto is_ipv6 = [](const PortCandidate* port) { return !value_of(*port).is_ipv4(); };
    choice.gid_family_is_ipv6 = std::ranges::all_of(ports, is_ipv6);
    if (!choice.gid_family_is_ipv6 && std::ranges::any_of(ports, is_ipv6)) {
        choice.warnings.emplace_back(
            "some RoCE ports have an IPv4 address, others IPv6 only: peers can be reached from "
            "ports of their own family only; set family= to take one kind");
    }
    NcclGidEnvironment environment{choice.gid_family_is_ipv6, settings.roce, std::nullopt};
    const unsigned first_index = ports.front()->gid.gid->index;
    if (std::ranges::all_of(ports, [&](const auto* port) { return port->gid.gid->index == first_index; })) {
        choice.common_gid_index = first_index;
        model_nccl(ports, environment, choice);
        return;
    }
    choice.gid_range = choose_range(ports, environment, settings);
    environment.range = choice.gid_range;
    model_nccl(ports, environment, choice);
    warn_of_differing_indices(ports, environment, choice.warnings);
}

} // namespace rdma_nccl
