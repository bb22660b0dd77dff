// SPDX-License-Identifier: Apache-2.0
// What holds for every choice of HCA ports and GIDs, whatever the machine and the settings.
#pragma once

#include "lib/base/text.h"
#include "lib/nccl/model.h"
#include "lib/select/port_selection.h"
#include "tests/fuzz/check.h"

#include <algorithm>
#include <string>
#include <vector>

namespace fuzz {

/// A port as the machine has it and as it was decided on.
struct DecidedPort {
    const rdma_nccl::Hca& hca;
    const rdma_nccl::Port& fact;
    const rdma_nccl::PortChoice& choice;

    [[nodiscard]] bool is_roce() const { return fact.link_layer == rdma_nccl::LinkLayer::Ethernet; }
    [[nodiscard]] std::string name() const { return hca.name + " port " + std::to_string(fact.number); }
    /// The entry in use, or nullptr.
    [[nodiscard]] const rdma_nccl::Gid* gid() const {
        const auto found = std::find_if(fact.gids.begin(), fact.gids.end(),
                                        [this](const auto& gid) { return gid.index == choice.gid_index; });
        return found == fact.gids.end() ? nullptr : &*found;
    }
};

/// One for each port, in the machine's order.
inline std::vector<DecidedPort> decided_ports(const rdma_nccl::Fabric& fabric, const rdma_nccl::FabricChoice& choice) {
    std::vector<DecidedPort> ports;
    for (const auto& hca : fabric.hcas) {
        for (const auto& fact : hca.ports) {
            require(ports.size() < choice.ports.size(), "a decision for each port");
            ports.push_back({hca, fact, choice.ports[ports.size()]});
        }
    }
    require(ports.size() == choice.ports.size(), "no decision on a port that there is not");
    return ports;
}

inline bool names_ports(const rdma_nccl::Settings& settings) {
    return !settings.hca.is_auto() && !settings.hca.exclude;
}

inline bool is_named(const rdma_nccl::Settings& settings, const DecidedPort& port) {
    return std::any_of(settings.hca.items.begin(), settings.hca.items.end(), [&](const auto& item) {
        return item.name == port.hca.name && (!item.port || *item.port == port.fact.number);
    });
}

/// What leaves out a port that would work, because others are better.
inline bool is_preference(rdma_nccl::PortRule rule) {
    using rdma_nccl::PortRule;
    return rule == PortRule::OutsidePrefix || rule == PortRule::VirtualFunction || rule == PortRule::BondSlave ||
           rule == PortRule::Software || rule == PortRule::OtherLinkLayer || rule == PortRule::LinkLocal ||
           rule == PortRule::Slower || rule == PortRule::Management;
}

/// An entry that may be used without being forced.
inline void check_usable(const rdma_nccl::Gid& gid, const rdma_nccl::Fabric& fabric,
                         const rdma_nccl::Settings& settings) {
    using namespace rdma_nccl;
    require(gid.type == (settings.roce == RoceVersion::V2 ? GidType::RoceV2 : GidType::RoceV1), "the wanted version");
    require(!gid.value.is_zero() && !gid.value.is_multicast() && !gid.value.is_loopback(), "an address of a node");
    require(settings.family != FamilyChoice::Ipv4 || gid.value.is_ipv4(), "family=ipv4");
    require(settings.family != FamilyChoice::Ipv6 || !gid.value.is_ipv4(), "family=ipv6");
    if (!fabric.netdevs.empty()) {
        const Netdev* const netdev = fabric.find_netdev(gid.netdev);
        require(netdev != nullptr && netdev->up && !netdev->loopback, "an interface that is up", gid.netdev);
    }
}

/// Smaller is better (doc/design.md, GIDs).
inline int class_of(const rdma_nccl::Gid& gid, const rdma_nccl::Settings& settings) {
    if (settings.prefix && settings.prefix->contains(gid.value)) {
        return 0;
    }
    return gid.value.is_link_local() ? 3 : gid.value.is_ipv4() ? 1 : 2;
}

inline void check_gids(const DecidedPort& port, const rdma_nccl::Settings& settings) {
    using rdma_nccl::GidRule;
    require(port.choice.gids.size() == port.fact.gids.size(), "a verdict for each GID");
    for (std::size_t i = 0; i < port.fact.gids.size(); ++i) {
        const auto& verdict = port.choice.gids[i];
        const auto& gid = port.fact.gids[i];
        require(verdict.index == gid.index, "verdicts in the order of the GIDs");
        require(!verdict.reason.empty() && !rdma_nccl::rule_name(verdict.rule).empty(), "a reason for each GID");
        require_plain(verdict.reason);
        require(verdict.used() == (port.choice.gid_index == gid.index), "the entry in use, and it alone, is used");
        require((verdict.rule == GidRule::InfiniBand) == (port.fact.link_layer == rdma_nccl::LinkLayer::InfiniBand),
                "InfiniBand needs no index");
        const bool second = verdict.rule == GidRule::LessPreferred || verdict.rule == GidRule::Stacked ||
                            verdict.rule == GidRule::Later;
        if (second && port.gid() != nullptr) {
            const int difference = class_of(gid, settings) - class_of(*port.gid(), settings);
            require(difference >= 0, "no better entry is passed over");
            require((difference > 0) == (verdict.rule == GidRule::LessPreferred), "the reason is the class, if it is");
        }
    }
}

inline void check_used(const DecidedPort& port, const rdma_nccl::Fabric& fabric, const rdma_nccl::Settings& settings) {
    using namespace rdma_nccl;
    require(port.fact.state == "ACTIVE", "a used port is ACTIVE", port.fact.state);
    require(port.hca.node_type.empty() || port.hca.node_type == "CA", "verbs-capable", port.hca.node_type);
    require(port.hca.driver != "efa", "not EFA");
    require(port.fact.link_layer != LinkLayer::Unknown, "a link layer that NCCL knows");
    require(port.hca.device_access == DeviceAccess::Unknown || port.hca.device_access == DeviceAccess::Open,
            "a device that can be opened");
    require(port.choice.gid_index.has_value() == port.is_roce(), "a GID index on RoCE, and only there");
    if (!port.is_roce()) {
        return;
    }
    const Gid* const gid = port.gid();
    require(gid != nullptr && gid->index <= 255, "an entry that verbs can name");
    if (settings.gid) {
        require(gid->index == *settings.gid, "gid=");
    } else {
        check_usable(*gid, fabric, settings);
    }
}

inline void check_port(const DecidedPort& port, const rdma_nccl::Fabric& fabric, const rdma_nccl::Settings& settings) {
    require(port.choice.hca == port.hca.name && port.choice.port == port.fact.number &&
                port.choice.link_layer == port.fact.link_layer,
            "decisions in the order of the ports");
    require(!port.choice.reason.empty() && !rdma_nccl::rule_name(port.choice.rule).empty(), "a reason for each port");
    require_plain(port.choice.reason);
    check_gids(port, settings);
    if (names_ports(settings)) {
        require((port.choice.rule == rdma_nccl::PortRule::NotNamed) == !is_named(settings, port), "hca=");
        require(!is_preference(port.choice.rule), "a named port that could work is used", port.name());
    } else if (settings.hca.exclude) {
        require((port.choice.rule == rdma_nccl::PortRule::Excluded) == is_named(settings, port), "hca=^");
    }
    if (port.choice.used()) {
        check_used(port, fabric, settings);
    } else {
        require(!port.choice.gid_index && !port.choice.nccl_effective && !port.choice.nccl_default,
                "no index of a port that is left out");
    }
}

/// One index for all, or what makes NCCL find each.
inline void check_index(const std::vector<DecidedPort>& roce, const rdma_nccl::FabricChoice& choice,
                        const rdma_nccl::Settings& settings) {
    using namespace rdma_nccl;
    const auto index_is = [](unsigned index) {
        return [index](const DecidedPort& port) { return port.choice.gid_index == index; };
    };
    const bool same = !roce.empty() && std::all_of(roce.begin(), roce.end(), index_is(*roce.front().choice.gid_index));
    require(choice.common_gid_index.has_value() == same, "a common index where there is one");
    require(!same || choice.common_gid_index == roce.front().choice.gid_index, "the common index is the ports'");
    const bool ipv6 = !roce.empty() && std::none_of(roce.begin(), roce.end(), [](const DecidedPort& port) {
        return port.gid()->value.is_ipv4();
    });
    require(choice.gid_family_is_ipv6 == ipv6, "the family of the chosen GIDs");
    for (const auto& port : roce) {
        const auto told =
            same ? *choice.common_gid_index : nccl_gid_pick(port.fact, {ipv6, settings.roce, choice.gid_range}).index;
        require(port.choice.nccl_effective == told, "what NCCL takes when it is told");
        require(port.choice.nccl_default == nccl_gid_pick(port.fact, {}).index, "what NCCL takes alone");
        const bool warned =
            std::any_of(choice.warnings.begin(), choice.warnings.end(), [&](const std::string& warning) {
                return warning.starts_with(port.name() + ": NCCL will take GID index ");
            });
        require((told != port.choice.gid_index) == warned, "a warning where NCCL takes another entry", port.name());
    }
}

inline void check_choice(const rdma_nccl::Fabric& fabric, const rdma_nccl::FabricChoice& choice,
                         const rdma_nccl::Settings& settings) {
    using namespace rdma_nccl;
    const auto ports = decided_ports(fabric, choice);
    std::vector<DecidedPort> roce;
    std::string list;
    std::size_t used = 0;
    for (const auto& port : ports) {
        check_port(port, fabric, settings);
        if (port.choice.used()) {
            ++used;
            list += (list.empty() ? "=" : ",") + port.hca.name + ":" + std::to_string(port.fact.number);
        }
        if (port.choice.used() && port.is_roce()) {
            roce.push_back(port);
        }
    }
    require(used == choice.used().size() && used <= 32, "at most 32 ports");
    require(choice.nccl_ib_hca() == list, "NCCL_IB_HCA names the used ports", list);
    require(names_ports(settings) || roce.empty() || roce.size() == used, "one link layer");
    check_index(roce, choice, settings);
    if (settings.prefix && !settings.gid && !names_ports(settings)) {
        const auto inside = [&](const DecidedPort& port) { return class_of(*port.gid(), settings) == 0; };
        require(std::all_of(roce.begin(), roce.end(), inside) || std::none_of(roce.begin(), roce.end(), inside),
                "all used ports are in the prefix, or none is");
    }
    require_all_plain(choice.warnings);
    require(used > 0 || fabric.hcas.empty() || choice.is_efa() || !choice.warnings.empty(),
            "a warning when no port is used");
}

/// All of a choice that a user sees.
inline std::string text_of(const rdma_nccl::FabricChoice& choice) {
    std::string text = rdma_nccl::joined(choice.warnings);
    for (const auto& port : choice.ports) {
        text += "\n" + port.hca + ":" + std::to_string(port.port) + " " + port.reason;
        for (const auto& gid : port.gids) {
            text += "\n" + std::to_string(gid.index) + " " + gid.reason;
        }
    }
    return text;
}

/// What was decided, without the words.
inline std::vector<std::pair<rdma_nccl::PortRule, std::optional<unsigned>>>
decisions_of(const rdma_nccl::FabricChoice& choice) {
    std::vector<std::pair<rdma_nccl::PortRule, std::optional<unsigned>>> decisions;
    for (const auto& port : choice.ports) {
        decisions.emplace_back(port.rule, port.gid_index);
    }
    return decisions;
}

/// The same question asked in other ways has the same answer.
inline void check_same_answer(const rdma_nccl::Fabric& fabric, const rdma_nccl::FabricChoice& choice,
                              const rdma_nccl::Settings& settings) {
    using namespace rdma_nccl;
    require(text_of(choose_fabric(fabric, settings)) == text_of(choice), "the same answer twice");
    Fabric reversed = fabric;
    std::reverse(reversed.netdevs.begin(), reversed.netdevs.end());
    std::reverse(reversed.gpus.begin(), reversed.gpus.end());
    require(decisions_of(choose_fabric(reversed, settings)) == decisions_of(choice),
            "the order of interfaces and GPUs does not matter");
    if (choice.used().empty()) {
        return;
    }
    Settings named = settings; // the used ports by name, as a user may copy them
    named.hca = {};
    for (const PortChoice* const port : choice.used()) {
        named.hca.items.push_back({port->hca, port->port});
    }
    const auto again = choose_fabric(fabric, named);
    require(again.nccl_ib_hca() == choice.nccl_ib_hca() && again.common_gid_index == choice.common_gid_index,
            "the used ports, named by hca=, are the used ports", again.nccl_ib_hca());
}

} // namespace fuzz
