// SPDX-License-Identifier: Apache-2.0
#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "lib/nccl/model.h"
#include "lib/select/candidates.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>

namespace rdma_nccl {

namespace {

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
