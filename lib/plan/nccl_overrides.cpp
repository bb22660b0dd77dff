// SPDX-License-Identifier: Apache-2.0
#include "lib/plan/nccl_variables.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "lib/nccl/model.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>

namespace rdma_nccl {

namespace {

constexpr std::string_view hca_variable = "NCCL_IB_HCA";
constexpr std::string_view interface_variable = "NCCL_SOCKET_IFNAME";

std::string title_of(const PortChoice& port) {
    return format_text("{} port {}", port.hca, port.port);
}

NcclGidEnvironment gid_environment(const NodeFacts& facts, const Settings& settings, const FabricChoice& choice) {
    NcclGidEnvironment environment{choice.gid_family_is_ipv6, settings.roce, choice.gid_range};
    if (const auto family = nccl_override(facts, "NCCL_IB_ADDR_FAMILY")) {
        environment.ipv6 = *family == "AF_INET6";
    }
    if (const auto version = nccl_number(nccl_override(facts, "NCCL_IB_ROCE_VERSION_NUM"))) {
        environment.roce_version = *version == 1 ? RoceVersion::V1 : RoceVersion::V2;
    }
    if (const auto range = nccl_override(facts, "NCCL_IB_ADDR_RANGE")) {
        environment.range = IpPrefix::parse(*range);
    }
    return environment;
}

/// Returns "NCCL_IB_HCA=mlx5", or "NCCL_IB_HCA=mlx5 (/etc/nccl.conf)".
std::string as_set(const NodeFacts& facts, std::string_view name) {
    const auto found = facts.nccl_conf.find(name);
    const bool by_file = !facts.environment.get_users(name) && found != facts.nccl_conf.end();
    return format_text("{}={}{}", name, printable(nccl_override(facts, name).value_or("")),
                       by_file ? " (" + found->second.file + ")" : "");
}

std::string entry_text(const Fabric& fabric, const PortChoice& choice, unsigned index) {
    const Port* const port = fabric.find_port(choice.hca, choice.port);
    const auto* const found = port == nullptr ? nullptr : find_by(port->gids, &Gid::index, index);
    return found == nullptr ? "an empty entry" : found->value.text();
}

void judge_gids(const NodeFacts& facts, const FabricChoice& fabric, MessageGroups& sentences) {
    const auto variable = gid_override(facts);
    if (!variable) {
        return;
    }
    for (const auto& port : fabric.ports) {
        if (port.gid_index && port.nccl_effective && *port.nccl_effective != *port.gid_index) {
            sentences.add("gid", title_of(port),
                          format_text("{} is set, and gives {} the GID at index {} ({}) instead of {} ({}): unset it",
                                      as_set(facts, *variable), title_of(port), *port.nccl_effective,
                                      entry_text(facts.fabric, port, *port.nccl_effective), *port.gid_index,
                                      entry_text(facts.fabric, port, *port.gid_index)));
        }
    }
}

void judge_hcas(const NodeFacts& facts, const FabricChoice& fabric, MessageGroups& sentences) {
    const auto text = nccl_override(facts, hca_variable);
    if (!text || text->empty() || fabric.ports.empty() || fabric.is_efa()) {
        return;
    }
    bool any = false;
    for (const auto& choice : fabric.ports) {
        const Port* const port = facts.fabric.find_port(choice.hca, choice.port);
        if (port == nullptr || !nccl_opens(*port) || !nccl_list_matches(*text, choice.hca, choice.port)) {
            continue;
        }
        any = true;
        if (!choice.used()) {
            const std::string_view reason = choice.reason; // "is the management port (...): left out; ..."
            sentences.add(rule_name(choice.rule), title_of(choice),
                          format_text("{} is set, and takes {}, which {}: unset it", as_set(facts, hca_variable),
                                      title_of(choice), reason.substr(0, reason.find(": left out"))));
        }
    }
    if (!any) {
        sentences.add("none", "",
                      format_text("{} is set, and names no ACTIVE port of this node: NCCL uses sockets; unset it",
                                  as_set(facts, hca_variable)));
    }
}

void judge_interface(const NodeFacts& facts, MessageGroups& sentences) {
    const auto text = nccl_override(facts, interface_variable);
    if (!text || text->size() < 2 || facts.fabric.netdevs.empty()) { // NCCL treats one letter as unset
        return;
    }
    if (std::ranges::none_of(facts.fabric.netdevs, [&](const Netdev& netdev) {
            return netdev.up && !netdev.addresses.empty() && nccl_list_matches(*text, netdev.name);
        })) {
        sentences.add("interface", "",
                      format_text("{} is set, and names no interface of this node that is up with an address: NCCL "
                                  "fails; unset it",
                                  as_set(facts, interface_variable)));
    }
}

/// Returns which of the user's variables keep NCCL from RDMA, with their values. EFA's way is a plugin, which does not
/// read NCCL_IB_DISABLE.
std::vector<std::string> socket_overrides(const NodeFacts& facts, const FabricChoice& fabric) {
    std::vector<std::string> found;
    if (fabric.is_efa() ? nccl_override(facts, "NCCL_NET_PLUGIN") == "none"
                        : nccl_number(nccl_override(facts, "NCCL_IB_DISABLE")).value_or(0) != 0) {
        found.push_back(as_set(facts, fabric.is_efa() ? "NCCL_NET_PLUGIN" : "NCCL_IB_DISABLE"));
    }
    if (lower_case(nccl_override(facts, "NCCL_NET").value_or("")) == "socket") {
        found.push_back(as_set(facts, "NCCL_NET"));
    }
    return found;
}

/// Parses like atoi(3): returns the number at the front, or 0.
unsigned leading_number(std::string_view text) {
    return parse_number<unsigned>(text.substr(0, text.find_first_not_of("0123456789"))).value_or(0);
}

} // namespace

std::optional<long> nccl_number(const std::optional<std::string>& text) {
    if (!text || text->empty()) {
        return std::nullopt;
    }
    errno = 0;
    const long number = std::strtol(text->c_str(), nullptr, 0);
    return errno == 0 ? std::optional(number) : std::nullopt;
}

std::optional<std::string> nccl_override(const NodeFacts& facts, std::string_view name) {
    if (auto value = facts.environment.get_users(name)) {
        return value;
    }
    const auto found = facts.nccl_conf.find(name);
    return found == facts.nccl_conf.end() ? std::nullopt : std::optional(found->second.value);
}

std::optional<std::string_view> gid_override(const NodeFacts& facts) {
    for (const std::string_view name :
         {"NCCL_IB_GID_INDEX", "NCCL_IB_ROCE_VERSION_NUM", "NCCL_IB_ADDR_FAMILY", "NCCL_IB_ADDR_RANGE"}) {
        if (nccl_override(facts, name)) {
            return name;
        }
    }
    return std::nullopt;
}

void model_effective(const NodeFacts& facts, const Settings& settings, FabricChoice& choice) {
    const auto users_index = nccl_number(nccl_override(facts, "NCCL_IB_GID_INDEX"));
    std::optional<unsigned> index;
    if (users_index.value_or(-1) >= 0) { // a negative one means automatic
        index = static_cast<unsigned>(*users_index);
    } else if (!nccl_override(facts, hca_variable)) { // if the user names HCAs, we set no index (nccl_variables.cpp)
        index = choice.common_gid_index;
    }
    const auto environment = gid_environment(facts, settings, choice);
    std::size_t position = 0;
    for (const auto& hca : facts.fabric.hcas) {
        for (const auto& port : hca.ports) {
            if (auto& effective = choice.ports.at(position++).nccl_effective) {
                effective = index ? *index : nccl_gid_pick(port, environment).index;
            }
        }
    }
}

std::string fabric_summary(const NodeFacts& facts, const FabricChoice& fabric) {
    const auto ports = ports_in_use(facts, fabric);
    const auto sockets = socket_overrides(facts, fabric);
    if (fabric.is_efa() && sockets.empty()) {
        return format_text("{} for aws-ofi-nccl", format_count(fabric.ports.size(), "EFA port"));
    }
    const std::string by = nccl_override(facts, hca_variable) ? " by " + as_set(facts, hca_variable) : "";
    if (ports.empty() || !sockets.empty()) {
        return sockets.empty() ? "no HCA" + by : "sockets by " + sockets.front();
    }
    std::string gids = ", GID index per port";
    if (ports.front().port->link_layer == LinkLayer::InfiniBand) {
        gids = ", InfiniBand";
    } else if (const auto variable = gid_override(facts)) {
        gids = ", GID by " + as_set(facts, *variable);
    } else if (fabric.common_gid_index && by.empty()) {
        gids = format_text(", GID index {}", *fabric.common_gid_index);
    }
    return format_text("{} ({}{}){}{}", format_count(ports.size(), "HCA port"), ports.front().name(),
                       ports.size() == 1 ? "" : (ports.size() == 2 ? "," : "..") + ports.back().name(), by, gids);
}

std::vector<std::string> judge_nccl_overrides(const NodeFacts& facts, const FabricChoice& choice) {
    MessageGroups sentences;
    judge_hcas(facts, choice, sentences);
    judge_gids(facts, choice, sentences);
    judge_interface(facts, sentences);
    if (!choice.used().empty() || choice.is_efa()) {
        for (const auto& variable : socket_overrides(facts, choice)) {
            sentences.add(variable, "", format_text("{} is set: NCCL uses sockets", variable));
        }
    }
    return sentences.texts();
}

bool nccl_list_matches(std::string_view list, std::string_view name, std::optional<unsigned> port) {
    const bool exclude = list.starts_with('^');
    list.remove_prefix(exclude ? 1 : 0);
    const bool exact = list.starts_with('=');
    list.remove_prefix(exact ? 1 : 0);
    bool is_empty = true;
    bool is_listed = false;
    for (const auto entry : split(list, ',')) {
        const auto [entry_name, fields] = split_once(entry, ':');
        const auto entry_port = split_once(fields.value_or(""), ':').key;
        const bool same_name = exact ? name == entry_name : name.starts_with(entry_name);
        const bool same_port = !port || entry_port.empty() || *port == leading_number(entry_port);
        is_empty = is_empty && entry_name.empty();
        is_listed = is_listed || (!entry_name.empty() && same_name && same_port);
    }
    return (is_empty || is_listed) != exclude;
}

bool nccl_opens(const Port& port) {
    return port.state == "ACTIVE" && port.link_layer != LinkLayer::Unknown;
}

std::vector<PortInUse> ports_in_use(const NodeFacts& facts, const FabricChoice& choice) {
    const auto list = nccl_override(facts, hca_variable);
    const auto chosen = choice.used_names();
    std::vector<PortInUse> ports;
    for (const auto& hca : facts.fabric.hcas) {
        for (const auto& port : hca.ports) {
            const PortInUse candidate{&hca, &port};
            if (list ? nccl_opens(port) && nccl_list_matches(*list, hca.name, port.number)
                     : contains(chosen, candidate.name())) {
                ports.push_back(candidate);
            }
        }
    }
    return ports;
}

} // namespace rdma_nccl
