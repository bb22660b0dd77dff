// SPDX-License-Identifier: Apache-2.0
#include "lib/base/format.h"
#include "lib/net/tcp.h"
#include "lib/plan/plan.h"

#include <cstring>
#include <memory>
#include <netdb.h>

namespace rdma_nccl {

namespace {

/// Returns the first address that other nodes can reach, preferably in the `net` setting's network.
std::optional<IpAddress> best_address(const std::vector<IpAddress>& addresses, const NetChoice& net) {
    std::optional<IpAddress> best;
    for (const auto& address : addresses) {
        if (!address.is_routable()) {
            continue;
        }
        if (net.prefix && net.prefix->contains(address)) {
            return address;
        }
        best = best ? best : address;
    }
    return best;
}

std::string why_unusable(const Resolution& resolution) {
    if (resolution.addresses.empty()) {
        return resolution.problem;
    }
    const std::string address = resolution.addresses.front().text();
    if (address == resolution.name) {
        return "an address that other nodes cannot reach";
    }
    return format_text("resolves to {} only, which other nodes cannot reach", address);
}

/// Returns the name that a head setting stands for; empty for head=auto.
std::string setting_name(const HeadChoice& head, const HeadNode& node) {
    if (!head.suffix.empty()) {
        return node.name.empty() ? "" : node.name + head.suffix;
    }
    return head.name_or_address;
}

/// Returns the head's address in srun's note; "::" without one.
IpAddress noted_address(const Step& step) {
    return step.note ? IpAddress::parse(step.note->head_address).value_or(IpAddress()) : IpAddress();
}

std::string setting_text(const HeadChoice& head) {
    return head.suffix.empty() ? head.name_or_address : "suffix:" + head.suffix;
}

} // namespace

Resolution resolve_host(const std::string& name) {
    Resolution result{name, {}, ""};
    if (const auto numeric = IpAddress::parse(name)) {
        result.addresses.push_back(*numeric);
        return result;
    }
    addrinfo hints{};
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* list = nullptr;
    const int code = ::getaddrinfo(name.c_str(), nullptr, &hints, &list);
    if (code != 0) {
        result.problem = code == EAI_SYSTEM ? std::strerror(errno) : ::gai_strerror(code);
        return result;
    }
    const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, ::freeaddrinfo);
    for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
        if (const auto address = address_of(entry->ai_addr)) {
            result.addresses.push_back(*address);
        }
    }
    if (result.addresses.empty()) {
        result.problem = "no address";
    }
    return result;
}

std::optional<std::string> name_to_resolve(const Settings& settings, const Step& step, const HeadNode& node) {
    if (auto name = setting_name(settings.head, node); !name.empty()) {
        return name;
    }
    return noted_address(step).is_routable() || node.name.empty() ? std::nullopt : std::optional(node.name);
}

HeadAddress choose_head(const Settings& settings, const Step& step, const HeadNode& node,
                        const std::optional<Resolution>& resolution, const std::optional<IpAddress>& own_address) {
    std::vector<std::string> warnings;
    if (const auto name = setting_name(settings.head, node); !name.empty() && resolution) {
        if (const auto address = best_address(resolution->addresses, settings.net)) {
            return {address, "setting", format_text("head={}", setting_text(settings.head)), {}};
        }
        warnings.push_back(format_text("head={}: {}: {}; give a name that resolves on every node, or an address",
                                       setting_text(settings.head), name, why_unusable(*resolution)));
    }
    const auto noted = noted_address(step);
    if (noted.is_routable()) {
        return {noted, "slurm", format_text("address of {} in Slurm ({})", node.name, node.why), std::move(warnings)};
    }
    const bool resolved_node = resolution && resolution->name == node.name;
    if (const auto address = resolved_node ? best_address(resolution->addresses, settings.net) : std::nullopt) {
        return {address, "resolver", format_text("{} resolved ({})", node.name, node.why), std::move(warnings)};
    }
    if (step.node_count == 1 && own_address) {
        return {own_address, "interface", "this node's own, the step has one node", std::move(warnings)};
    }
    warnings.push_back(format_text("no address of rank 0's node {}{}: MASTER_ADDR is not set; give head=ADDRESS",
                                   node.name.empty() ? "(unknown)" : node.name,
                                   resolved_node ? format_text(" ({})", why_unusable(*resolution)) : ""));
    return {{}, {}, {}, std::move(warnings)};
}

std::optional<std::string> verify_head(const IpAddress& address, const std::string& node_name,
                                       const std::vector<Netdev>& netdevs) {
    if (address.is_loopback()) {
        return format_text("MASTER_ADDR {} is a loopback address: other nodes cannot reach it", address.text());
    }
    bool any_known = false;
    for (const auto& netdev : netdevs) {
        for (const auto& own : netdev.addresses) {
            any_known = any_known || !own.address.is_loopback();
            if (own.address == address) {
                return std::nullopt;
            }
        }
    }
    if (!any_known) {
        return std::nullopt; // the interfaces could not be read, so nothing proves a fault
    }
    return format_text(
        "rank 0 runs on {}, but MASTER_ADDR {} is no address of this node: unset MASTER_ADDR, or give head=NAME",
        node_name, address.text());
}

} // namespace rdma_nccl
