// SPDX-License-Identifier: Apache-2.0
// Which addresses of the head node the others try, and which one all use.
#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/exchange/agreement.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>

namespace rdma_nccl {

namespace {

constexpr std::size_t most_candidates = 4;
constexpr std::size_t most_fabric_candidates = 2;

using Reports = std::span<const NodeReport>;

void add(std::vector<HeadCandidate>& candidates, const IpAddress& address, std::string why) {
    if (find_by(candidates, &HeadCandidate::address, address) == nullptr && candidates.size() < most_candidates) {
        candidates.push_back({address, std::move(why)});
    }
}

bool is_common_network(Reports reports, const InterfaceAddress& entry) {
    const auto network = network_of(entry);
    return network && std::ranges::all_of(reports, [&](const NodeReport& report) {
               return std::ranges::any_of(report.addresses,
                                          [&](const auto& own) { return network->contains(own.address.address); });
           });
}

void add_net_setting(std::vector<HeadCandidate>& candidates, const NodeReport& head, const NetChoice& net) {
    for (const auto& entry : head.addresses) {
        if (!net.interface.empty() && entry.netdev == net.interface) {
            add(candidates, entry.address.address, format_text("net={}", net.interface));
        } else if (net.prefix && net.prefix->contains(entry.address.address)) {
            add(candidates, entry.address.address, format_text("net={}", net.prefix->text()));
        }
    }
}

/// Adds up to two of the head's fabric addresses: first those in a network where every node has an address, then those
/// that can only be reached by routing.
void add_fabric(std::vector<HeadCandidate>& candidates, Reports reports) {
    // A node without the fabric cannot reach it by routing either; it would try until the timeout.
    const bool all_have_it = std::ranges::all_of(reports, [](const NodeReport& report) {
        return std::ranges::any_of(report.addresses, &ReportedAddress::fabric);
    });
    std::size_t left = most_fabric_candidates;
    for (const bool common : {true, false}) {
        for (const auto& entry : reports.front().addresses) {
            if (left > 0 && (common || all_have_it) && entry.fabric &&
                is_common_network(reports, entry.address) == common) {
                --left;
                add(candidates, entry.address.address, format_text("on the fabric ({})", entry.netdev));
            }
        }
    }
}

/// Returns the errno of node i with a candidate. The head reaches itself.
int result_of(std::span<const ReachResult> results, std::size_t i, std::size_t candidate) {
    return i == 0 || candidate >= results[i].size() ? 0 : results[i][candidate];
}

std::string error_text(int code) {
    return code == EPROTO ? "another program listens there" : std::strerror(code);
}

/// Adds a finding for each error with a candidate.
void add_unreached(HeadVerdict& verdict, Reports reports, std::span<const ReachResult> results,
                   const HeadCandidate& candidate, std::size_t index, std::string_view instead) {
    std::map<int, std::vector<std::string>> by_error;
    for (std::size_t i = 0; i < reports.size(); ++i) {
        if (const int code = result_of(results, i, index); code != 0) {
            by_error[code].push_back(reports[i].node);
        }
    }
    const auto& head = reports.front();
    const std::string of_head = head.plan_head_is_given ? format_text(" ({})", candidate.why)
                                                        : format_text(" of {}, {}", head.node, candidate.why);
    for (auto& [code, nodes] : by_error) {
        verdict.findings.push_back(
            {std::move(nodes), format_text("cannot connect to {}{}: {}{}", candidate.address.text(), of_head,
                                           error_text(code), instead)});
    }
}

} // namespace

std::optional<IpPrefix> network_of(const InterfaceAddress& entry) {
    const auto network = IpPrefix::of(entry.address, entry.prefix_length);
    return network && network->length() > 0 ? network : std::nullopt;
}

std::vector<HeadCandidate> find_candidates(std::span<const NodeReport> reports, const Settings& settings,
                                           const std::optional<IpAddress>& node_address) {
    const NodeReport& head = reports.front();
    std::vector<HeadCandidate> candidates;
    if (head.plan_head_is_given) {
        if (head.plan_head) { // otherwise a name, which the user's program resolves
            add(candidates, *head.plan_head, head.plan_head_why);
        }
        return candidates;
    }
    if (settings.net.is_auto()) {
        add_fabric(candidates, reports);
    } else {
        add_net_setting(candidates, head, settings.net);
    }
    if (node_address && node_address->is_routable()) {
        add(candidates, *node_address, "its address in Slurm");
    }
    if (head.plan_head && head.plan_head->is_routable()) {
        add(candidates, *head.plan_head, head.plan_head_why);
    }
    for (const auto& entry : head.addresses) {
        if (!entry.fabric && settings.net.is_auto()) {
            add(candidates, entry.address.address, format_text("its address on {}", entry.netdev));
        }
    }
    return candidates;
}

HeadVerdict judge_reach(std::span<const HeadCandidate> candidates, std::span<const NodeReport> reports,
                        std::span<const ReachResult> results) {
    HeadVerdict verdict;
    if (candidates.empty()) {
        return verdict;
    }
    std::vector<std::size_t> reached(candidates.size()); // the number of nodes, with the head
    for (std::size_t c = 0; c < candidates.size(); ++c) {
        for (std::size_t i = 0; i < reports.size(); ++i) {
            reached[c] += result_of(results, i, c) == 0 ? 1U : 0U;
        }
    }
    const auto best = static_cast<std::size_t>(std::ranges::max_element(reached) - reached.begin());
    verdict.chosen = candidates[best];
    const std::string address = verdict.chosen->address.text();
    const std::string instead = format_text("; MASTER_ADDR is {}", address);
    const std::string helpless =
        format_text("; MASTER_ADDR stays {}, because {}: check routes and firewalls, or set net= or head=", address,
                    candidates.size() == 1 ? "there is no other" : "no address is reached by all nodes");
    for (std::size_t c = 0; c <= best; ++c) {
        // A candidate that no node reached is in a network without routes between its parts; that is no node's fault.
        if (c == best || reached[c] > 1) {
            add_unreached(verdict, reports, results, candidates[c], c, c == best ? helpless : instead);
        }
    }
    return verdict;
}

} // namespace rdma_nccl
