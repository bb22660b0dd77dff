// SPDX-License-Identifier: Apache-2.0
#include "tools/gids/gids.h"

#include "lib/base/format.h"
#include "lib/base/text.h"

#include <algorithm>

namespace rdma_nccl {

namespace {

bool shows(const GidsFilter& filter, const Hca& hca) {
    return filter.device.empty() || filter.device == hca.name;
}

bool shows(const GidsFilter& filter, const Hca& hca, unsigned port) {
    return shows(filter, hca) && filter.port.value_or(port) == port;
}

bool shows(const GidsFilter& filter, const Port& port, const Gid& gid) {
    const auto wanted_type = filter.version == RoceVersion::V1 ? GidType::RoceV1 : GidType::RoceV2;
    const bool has_version = !filter.version || (port.link_layer != LinkLayer::InfiniBand && gid.type == wanted_type);
    const bool has_family =
        filter.family == FamilyChoice::Auto || gid.value.is_ipv4() == (filter.family == FamilyChoice::Ipv4);
    return has_version && has_family;
}

PortView view_port(const Hca& hca, const Port& port, const PortChoice& choice, const GidsFilter& filter) {
    PortView view{hca, port, choice, {}};
    for (std::size_t i = 0; i < port.gids.size(); ++i) {
        if (shows(filter, port, port.gids[i])) {
            view.gids.push_back({port, port.gids[i], choice.gids.at(i)});
        }
    }
    return view;
}

/// Returns the position of "mlx5_1 port 1" in `text`, but not within "mlx5_1 port 12".
std::size_t find_port(std::string_view text, const Hca& hca, unsigned port) {
    const std::string name = format_text("{} port {}", hca.name, port);
    std::size_t found = text.find(name);
    for (; found != std::string_view::npos; found = text.find(name, found + 1)) {
        const std::size_t end = found + name.size();
        const bool starts = found == 0 || !is_name_character(text[found - 1]);
        if (starts && (end == text.size() || text[end] < '0' || text[end] > '9')) {
            return found;
        }
    }
    return found;
}

/// A warning about ports starts with one, "mlx5_1 port 1 is DOWN ...", and may name others: "... (likewise mlx5_2 port
/// 1, mlx5_3 port 1 and 2 more)". It is shown if it names, or may include, a port that is shown.
bool is_shown(std::string_view warning, const Fabric& fabric, const GidsFilter& filter) {
    bool starts_with_port = false;
    for (const auto& hca : fabric.hcas) {
        for (const auto& port : hca.ports) {
            const std::size_t found = find_port(warning, hca, port.number);
            if (found != std::string_view::npos && shows(filter, hca, port.number)) {
                return true;
            }
            starts_with_port = starts_with_port || found == 0;
        }
    }
    return !starts_with_port || warning.ends_with(" more)");
}

std::string port_fault(const Fabric& fabric, const GidsFilter& filter) {
    const bool there = std::ranges::any_of(fabric.hcas, [&](const Hca& hca) {
        return std::ranges::any_of(hca.ports, [&](const Port& port) { return shows(filter, hca, port.number); });
    });
    if (there) {
        return {};
    }
    const Hca* const hca = fabric.find_hca(filter.device);
    if (hca == nullptr) {
        return format_text("no RDMA device on this node has a port {}", *filter.port);
    }
    return hca->ports.empty() ? format_text("{} has no port", hca->name)
                              : format_text("{} has no port {}; it has {}", hca->name, *filter.port,
                                            format_count(hca->ports.size(), "port"));
}

} // namespace

GidsView view_gids(const Fabric& fabric, const FabricChoice& choice, const GidsFilter& filter) {
    GidsView view{fabric, choice, {}, {}};
    std::size_t position = 0; // choice.ports has one entry per port, in the order of the fabric
    for (const auto& hca : fabric.hcas) {
        HcaView hca_view{hca, choice, {}};
        for (const auto& port : hca.ports) {
            const auto& port_choice = choice.ports.at(position++);
            if (shows(filter, hca, port.number)) {
                hca_view.ports.push_back(view_port(hca, port, port_choice, filter));
            }
        }
        if (shows(filter, hca) && (!filter.port || !hca_view.ports.empty())) {
            view.hcas.push_back(std::move(hca_view));
        }
    }
    std::ranges::copy_if(choice.warnings, std::back_inserter(view.warnings),
                         [&](const std::string& warning) { return is_shown(warning, fabric, filter); });
    return view;
}

std::string filter_fault(const Fabric& fabric, const GidsFilter& filter) {
    if (!filter.device.empty() && fabric.find_hca(filter.device) == nullptr) {
        std::vector<std::string> names;
        std::ranges::transform(fabric.hcas, std::back_inserter(names), &Hca::name);
        return format_text("no RDMA device {} on this node; there are {}", printable(filter.device), joined(names));
    }
    return filter.port ? port_fault(fabric, filter) : "";
}

std::string gid_type_text(const GidView& view) {
    return view.port.link_layer == LinkLayer::InfiniBand ? "IB"
           : !view.gid.type                              ? "unknown"
           : *view.gid.type == GidType::RoceV2           ? "RoCE v2"
                                                         : "RoCE v1";
}

std::vector<std::string> problems_of(const GidsView& view) {
    std::vector<std::string> problems;
    for (const auto& hca : view.hcas) {
        for (const auto& problem : hca.hca.problems) {
            problems.push_back(format_text("{}: {}", hca.hca.name, problem));
        }
        for (const auto& port : hca.ports) {
            for (const auto& problem : port.port.problems) {
                problems.push_back(format_text("{} port {}: {}", hca.hca.name, port.port.number, problem));
            }
        }
    }
    return problems;
}

std::string interface_of(const Fabric& fabric, const PortView& view) {
    const Gid* first = nullptr;
    for (std::size_t i = 0; i < view.port.gids.size(); ++i) {
        const auto& gid = view.port.gids[i];
        const GidRule rule = view.choice.gids.at(i).rule;
        if (gid.netdev.empty()) {
            continue;
        }
        if (rule == GidRule::Used || rule == GidRule::PortLeftOut) {
            return gid.netdev;
        }
        first = first == nullptr ? &gid : first;
    }
    if (first != nullptr) {
        return first->netdev;
    }
    const auto& names = view.hca.netdevs;
    const auto found = std::ranges::find_if(names, [&](const std::string& name) {
        const Netdev* const netdev = fabric.find_netdev(name);
        return view.hca.ports.size() == 1 || (netdev != nullptr && netdev->port == view.port.number);
    });
    return found == names.end() ? "" : *found;
}

} // namespace rdma_nccl
