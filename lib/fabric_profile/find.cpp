// SPDX-License-Identifier: Apache-2.0
#include "lib/base/format.h"
#include "lib/base/text.h"
#include "lib/fabric/kernel_text.h"
#include "lib/fabric_profile/profile.h"

#include <algorithm>
#include <set>

namespace rdma_nccl {

namespace {

using Machine = std::map<std::string, std::string, std::less<>>;

/// Returns what the machine is, by the keys of profiles. Leaves out a key in which the ports in use differ, as those
/// that the setting `hca` names may; an unknown rate does not count.
Machine describe(const FabricProfiles& profiles, const Fabric& fabric, const FabricChoice& choice) {
    Machine machine = profiles.firmware;
    const auto cards = fabric.cards();
    machine["gpus"] = format_text("{}", cards.size());
    if (!cards.empty()) {
        machine["gpu"] = cards.front().vendor;
    }
    std::map<std::string, std::set<std::string>> of_ports;
    for (const auto* const used : choice.used()) {
        const Hca* const hca = fabric.find_hca(used->hca);
        const Port* const port = fabric.find_port(used->hca, used->port);
        if (hca != nullptr && port != nullptr) {
            of_ports["driver"].insert(hca->driver);
            of_ports["link"].insert(lower_case(link_layer_text(port->link_layer)));
        }
        if (port != nullptr && port->believable_rate_gbps() > 0) {
            of_ports["rate"].insert(format_text("{:g}", port->believable_rate_gbps()));
        }
    }
    for (const auto& [key, values] : of_ports) {
        if (values.size() == 1) {
            machine[key] = *values.begin();
        }
    }
    return machine;
}

/// Returns whether `text` is `pattern`, in which each '*' stands for any text.
bool fits(std::string_view pattern, std::string_view text) {
    const auto parts = split(pattern, '*');
    if (parts.size() == 1) {
        return text == pattern;
    }
    if (!text.starts_with(parts.front())) {
        return false;
    }
    text.remove_prefix(parts.front().size());
    for (std::size_t i = 1; i + 1 < parts.size(); ++i) {
        const auto found = text.find(parts[i]);
        if (found == std::string_view::npos) {
            return false;
        }
        text.remove_prefix(found + parts[i].size());
    }
    return text.ends_with(parts.back());
}

/// Returns what has fitted, or nullopt if the profile is for other machines.
std::optional<std::string> match(const FabricProfile& profile, const Machine& machine) {
    std::vector<std::string> fitted;
    for (const auto& [key, patterns] : profile.machine) {
        const auto own = machine.find(key);
        if (own == machine.end() ||
            std::ranges::none_of(patterns, [&](const std::string& pattern) { return fits(pattern, own->second); })) {
            return std::nullopt;
        }
        fitted.push_back(format_text("{} {}", key, printable(own->second)));
    }
    return joined(fitted);
}

} // namespace

std::optional<FoundFabricProfile> find_fabric_profile(const FabricProfiles& profiles, const Fabric& fabric,
                                                      const FabricChoice& choice) {
    const Machine machine = describe(profiles, fabric, choice);
    for (const auto& profile : profiles.list) {
        if (auto fitted = match(profile, machine)) {
            return FoundFabricProfile{profile, std::move(*fitted)};
        }
    }
    return std::nullopt;
}

} // namespace rdma_nccl
