// SPDX-License-Identifier: Apache-2.0
#include "lib/exchange/agreement.h"

#include "lib/base/format.h"
#include "lib/base/hostlist.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "lib/plan/report.h"
#include "lib/slurm/layout.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <map>
#include <set>

namespace rdma_nccl {

namespace {

constexpr std::size_t most_candidates = 4;
constexpr std::size_t most_fabric_candidates = 2;

using Reports = std::span<const NodeReport>;

std::optional<IpPrefix> network_of(const InterfaceAddress& entry) {
    const auto network = IpPrefix::of(entry.address, entry.prefix_length);
    return network && network->length() > 0 ? network : std::nullopt;
}

/// True for a link to a router, which does not tell which other nodes are reachable.
bool is_point_to_point(const IpPrefix& network) {
    return network.length() >= (network.address().is_ipv4() ? 31U : 127U);
}

bool has_address_in(const NodeReport& report, const IpPrefix& network) {
    return std::ranges::any_of(report.addresses,
                               [&](const auto& entry) { return network.contains(entry.address.address); });
}

bool is_common_network(Reports reports, const InterfaceAddress& entry) {
    const auto network = network_of(entry);
    return network &&
           std::ranges::all_of(reports, [&](const auto& report) { return has_address_in(report, *network); });
}

class Candidates {
public:
    void add(const IpAddress& address, std::string why) {
        const bool known =
            std::ranges::any_of(list_, [&](const auto& candidate) { return candidate.address == address; });
        if (!known && list_.size() < most_candidates) {
            list_.push_back({address, std::move(why)});
        }
    }
    std::vector<HeadCandidate> take() { return std::move(list_); }

private:
    std::vector<HeadCandidate> list_;
};

void add_net_setting(Candidates& candidates, const NodeReport& head, const NetChoice& net) {
    for (const auto& entry : head.addresses) {
        if (!net.interface.empty() && entry.netdev == net.interface) {
            candidates.add(entry.address.address, format_text("net={}", net.interface));
        } else if (net.prefix && net.prefix->contains(entry.address.address)) {
            candidates.add(entry.address.address, format_text("net={}", net.prefix->text()));
        }
    }
}

/// Adds up to two of the head's fabric addresses: first those in a network where every node has an address, then those
/// that can only be reached by routing.
void add_fabric(Candidates& candidates, Reports reports) {
    // A node without the fabric cannot reach it by routing either; it would try until the timeout.
    const bool all_have_it = std::ranges::all_of(reports, [](const NodeReport& report) {
        return std::ranges::any_of(report.addresses, [](const auto& own) { return own.fabric; });
    });
    std::size_t left = most_fabric_candidates;
    for (const bool common : {true, false}) {
        for (const auto& entry : reports.front().addresses) {
            if (left > 0 && (common || all_have_it) && entry.fabric &&
                is_common_network(reports, entry.address) == common) {
                --left;
                candidates.add(entry.address.address, format_text("on the fabric ({})", entry.netdev));
            }
        }
    }
}

std::string error_text(int code) {
    return code == EPROTO ? "another program listens there" : std::strerror(code);
}

std::vector<std::string> names_of(Reports reports, const std::function<bool(std::size_t)>& wanted) {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < reports.size(); ++i) {
        if (wanted(i)) {
            names.push_back(reports[i].node);
        }
    }
    return names;
}

/// Returns the errno of node i with a candidate. The head reaches itself.
int result_of(std::span<const ReachResult> results, std::size_t i, std::size_t candidate) {
    return i == 0 || candidate >= results[i].size() ? 0 : results[i][candidate];
}

void tell_unreached(HeadVerdict& verdict, Reports reports, std::span<const ReachResult> results,
                    const HeadCandidate& candidate, std::size_t index, std::string_view instead) {
    std::map<int, std::vector<std::string>> by_error;
    for (std::size_t i = 0; i < reports.size(); ++i) {
        if (const int code = result_of(results, i, index); code != 0) {
            by_error[code].push_back(reports[i].node);
        }
    }
    for (auto& [code, nodes] : by_error) {
        const auto& head = reports.front();
        const std::string what = head.plan_head_is_given
                                     ? format_text("{} ({})", candidate.address.text(), candidate.why)
                                     : format_text("{} of {}, {}", candidate.address.text(), head.node, candidate.why);
        verdict.findings.push_back(
            {std::move(nodes), format_text("cannot connect to {}: {}{}", what, error_text(code), instead), true});
    }
}

// --- Differences ---

std::set<std::string> port_names(const NodeReport& report) {
    std::set<std::string> names;
    for (const auto& port : report.ports) {
        names.insert(port_name(port.hca, port.port));
    }
    return names;
}

/// Returns the distinct values of a node's ports: "RoCE", "100, 200 Gb/s"; "" for a node without ports.
std::string port_values(const NodeReport& report, const std::function<std::string(const ReportedPort&)>& value) {
    std::set<std::string> values;
    for (const auto& port : report.ports) {
        if (auto text = value(port); !text.empty()) {
            values.insert(std::move(text));
        }
    }
    return joined(values);
}

std::string link_layer_of(const ReportedPort& port) {
    return port.link_layer == LinkLayer::InfiniBand ? "InfiniBand" : "RoCE";
}

std::string rate_of(const ReportedPort& port) {
    return port.rate_gbps > 0 ? format_text("{:g} Gb/s", port.rate_gbps) : "";
}

std::string mtu_of(const ReportedPort& port) {
    return port.mtu > 0 ? format_text("MTU {}", port.mtu) : "";
}

std::string gid_kind_of(const ReportedPort& port) {
    if (!port.roce || !port.address) {
        return "";
    }
    return format_text("RoCE v{} over {}", static_cast<int>(*port.roce),
                       port.address->address.is_ipv4() ? "IPv4" : "IPv6");
}

std::string memlock_of(const NodeReport& report) {
    return report.memlock_kib ? format_text("locked memory limited to {} KiB", *report.memlock_kib)
                              : "locked memory unlimited";
}

/// A property in which nodes may differ. A node with an empty `value` is left out of the comparison.
struct Attribute {
    std::function<std::string(const NodeReport&)> value;
    bool fault = true;
};

std::vector<Attribute> attributes() {
    const auto of_ports = [](std::string (*value)(const ReportedPort&)) {
        return [value](const NodeReport& report) { return port_values(report, value); };
    };
    return {{[](const NodeReport& report) { return count_text(report.ports.size(), "HCA port") + " in use"; }},
            {of_ports(link_layer_of)},
            {of_ports(rate_of)},
            {of_ports(mtu_of)},
            {of_ports(gid_kind_of)},
            {[](const NodeReport& report) { return count_text(report.gpus, "GPU"); }, false},
            {memlock_of}};
}

/// Returns the ports of `usual` that a node lacks, "without mlx5_3:1". Returns "" if it lacks more than four, or has
/// ports that `usual` does not have.
std::string missing_ports(const NodeReport& report, const NodeReport& usual) {
    constexpr std::size_t most_named = 4;
    const auto own = port_names(report);
    const auto all = port_names(usual);
    std::vector<std::string> missing;
    std::set_difference(all.begin(), all.end(), own.begin(), own.end(), std::back_inserter(missing));
    if (missing.empty() || missing.size() > most_named || missing.size() + own.size() != all.size()) {
        return "";
    }
    return "without " + joined(missing);
}

/// Returns a node's value; for ports, followed by the missing ones.
std::string value_with_detail(const Attribute& attribute, const NodeReport& report, const NodeReport& usual,
                              bool of_ports) {
    const std::string value = attribute.value(report);
    const std::string detail = of_ports ? missing_ports(report, usual) : "";
    return detail.empty() ? value : format_text("{} ({})", value, detail);
}

void compare(std::vector<Finding>& findings, Reports reports, const Attribute& attribute, bool of_ports) {
    std::map<std::string, std::vector<std::size_t>> nodes_by_value;
    for (std::size_t i = 0; i < reports.size(); ++i) {
        if (auto value = attribute.value(reports[i]); !value.empty()) {
            nodes_by_value[std::move(value)].push_back(i);
        }
    }
    if (nodes_by_value.size() < 2) {
        return;
    }
    // The usual value is the most common one; in a tie, the one of the first node.
    const auto usual = std::ranges::max_element(nodes_by_value, [](const auto& a, const auto& b) {
        return a.second.size() != b.second.size() ? a.second.size() < b.second.size()
                                                  : a.second.front() > b.second.front();
    });
    const std::size_t usual_count = usual->second.size();
    const NodeReport& usual_node = reports[usual->second.front()];
    std::map<std::string, std::vector<std::string>> told; // the text, and the nodes that it is about
    for (const auto& [value, nodes] : nodes_by_value) {
        if (value == usual->first) {
            continue;
        }
        for (const auto i : nodes) {
            told[value_with_detail(attribute, reports[i], usual_node, of_ports)].push_back(reports[i].node);
        }
    }
    for (auto& [value, nodes] : told) {
        findings.push_back(
            {std::move(nodes),
             format_text("{}; {} has {}", value, usual_count == 1 ? usual_node.node : count_text(usual_count, "node"),
                         usual->first),
             attribute.fault});
        if (usual_count > 1) {
            auto& text = findings.back().text;
            text.replace(text.rfind(" has "), 5, " have ");
        }
    }
}

// --- Answers ---

/// Returns the node's address for a hosts file: the one in the head's network, else its first.
std::optional<IpAddress> address_for_hosts(const NodeReport& report, const std::optional<IpAddress>& head) {
    for (const auto& entry : report.addresses) {
        const auto network = network_of(entry.address);
        if (head && network && network->contains(*head)) {
            return entry.address.address;
        }
    }
    return report.addresses.empty() ? std::nullopt : std::optional(report.addresses.front().address.address);
}

HostsTable hosts_table(Reports reports, const std::optional<IpAddress>& head, const std::vector<RankShare>& shares) {
    HostsTable hosts;
    std::map<std::string, std::size_t> by_name; // a node in two components of a heterogeneous step appears twice
    for (std::size_t i = 0; i < reports.size(); ++i) {
        const auto address = i == 0 && head ? head : address_for_hosts(reports[i], head);
        const unsigned slots = shares.empty() ? reports[i].tasks : shares[i].count;
        const auto [known, is_new] = by_name.emplace(reports[i].node, hosts.size());
        if (!is_new && known->second < hosts.size()) {
            hosts[known->second].slots += slots;
        } else if (address) {
            hosts.push_back({reports[i].node, *address, slots});
        }
    }
    return hosts;
}

unsigned total_tasks(Reports reports) {
    unsigned total = 0;
    for (const auto& report : reports) {
        total += report.tasks;
    }
    return total;
}

std::string summary(Reports reports, const Agreement& first) {
    std::string text = format_text("{} layout, {} on {}", layout_name(first.layout),
                                   count_text(total_tasks(reports), "task"), count_text(reports.size(), "node"));
    if (first.ranks) {
        text += format_text(", {}", count_text(first.ranks->total, "rank"));
    }
    const auto head = first.head ? first.head : reports.front().plan_head;
    const std::string port = first.block ? format_text("{}", first.block->first) : "none";
    const std::string address = head                                 ? head->bracketed()
                                : reports.front().plan_head_is_given ? "MASTER_ADDR as set"
                                                                     : "none";
    return text + format_text(", head {} ({}:{}), {}", first.head_node, address, port, reports.front().fabric);
}

std::optional<std::string> first_fault(const std::vector<Finding>& findings) {
    const auto fault = std::ranges::find_if(findings, [](const auto& found) { return found.fault; });
    return fault == findings.end() ? std::nullopt : std::optional(fault->line());
}

} // namespace

std::optional<std::size_t> find_expected(std::span<const ExpectedNode> expected, const std::vector<bool>& taken,
                                         const NodeReport& report) {
    std::optional<std::size_t> by_name;
    std::vector<std::size_t> by_tasks;
    for (std::size_t i = 0; i < expected.size(); ++i) {
        const auto& node = expected[i];
        if (taken[i]) {
            continue;
        }
        const bool same_tasks = node.tasks == report.tasks && node.first_task == report.first_task;
        const bool same_name = node.name == report.node;
        if (same_tasks && same_name) {
            return i;
        }
        if (same_tasks) {
            by_tasks.push_back(i);
        }
        if (same_name && !by_name) {
            by_name = i;
        }
    }
    return by_tasks.size() == 1 ? std::optional(by_tasks.front()) : by_name;
}

std::vector<HeadCandidate> find_candidates(std::span<const NodeReport> reports, const Settings& settings,
                                           const std::optional<IpAddress>& node_address) {
    const NodeReport& head = reports.front();
    Candidates candidates;
    if (head.plan_head_is_given) {
        if (head.plan_head) { // otherwise a name, which the user's program resolves
            candidates.add(*head.plan_head, head.plan_head_why);
        }
        return candidates.take();
    }
    if (settings.net.is_auto()) {
        add_fabric(candidates, reports);
    } else {
        add_net_setting(candidates, head, settings.net);
    }
    if (node_address && node_address->is_routable()) {
        candidates.add(*node_address, "its address in Slurm");
    }
    if (head.plan_head && head.plan_head->is_routable()) {
        candidates.add(*head.plan_head, head.plan_head_why);
    }
    for (const auto& entry : head.addresses) {
        if (!entry.fabric && settings.net.is_auto()) {
            candidates.add(entry.address.address, format_text("its address on {}", entry.netdev));
        }
    }
    return candidates.take();
}

std::string Finding::line() const {
    return format_text("{}: {}", fold_hostlist(nodes), text);
}

HeadVerdict judge_reach(std::span<const HeadCandidate> candidates, std::span<const NodeReport> reports,
                        std::span<const ReachResult> results) {
    HeadVerdict verdict;
    std::size_t best = 0;
    std::size_t best_reached = 0;
    for (std::size_t c = 0; c < candidates.size() && best_reached < reports.size(); ++c) {
        std::size_t reached = 0;
        for (std::size_t i = 0; i < reports.size(); ++i) {
            reached += result_of(results, i, c) == 0 ? 1U : 0U;
        }
        if (reached > best_reached) {
            best = c;
            best_reached = reached;
        }
    }
    if (candidates.empty()) {
        return verdict;
    }
    verdict.chosen = candidates[best];
    const std::string instead = format_text("; MASTER_ADDR is {}", candidates[best].address.text());
    const std::string helpless =
        format_text("; MASTER_ADDR stays {}, because {}: check routes and firewalls, or set net= or head=",
                    candidates[best].address.text(),
                    candidates.size() == 1 ? "there is no other" : "no address is reached by all nodes");
    for (std::size_t c = 0; c <= best; ++c) {
        // A candidate that no node reached is in a network without routes between its parts; that is not any node's
        // fault.
        const auto reached = names_of(reports, [&](std::size_t i) { return i > 0 && result_of(results, i, c) == 0; });
        if (c == best || !reached.empty()) {
            tell_unreached(verdict, reports, results, candidates[c], c, c == best ? helpless : instead);
        }
    }
    return verdict;
}

std::vector<Finding> find_differences(std::span<const NodeReport> reports) {
    std::vector<Finding> findings;
    std::map<std::string, std::vector<std::string>> warnings;
    std::vector<std::string> order; // in the order of the first node that has them
    for (const auto& report : reports) {
        for (const auto& warning : report.warnings) {
            auto& nodes = warnings[warning];
            if (nodes.empty()) {
                order.push_back(warning);
            }
            nodes.push_back(report.node);
        }
    }
    std::ranges::transform(order, std::back_inserter(findings), [&warnings](const std::string& warning) {
        return Finding{warnings[warning], warning, true};
    });
    bool of_ports = true; // only the first attribute
    for (const auto& attribute : attributes()) {
        compare(findings, reports, attribute, of_ports);
        of_ports = false;
    }
    return findings;
}

std::vector<std::vector<std::string>> find_isolated_ports(std::span<const NodeReport> reports,
                                                          std::vector<Finding>& findings) {
    // Maps a network to the nodes with a port in it.
    std::map<std::string, std::set<std::size_t>> nodes_by_network;
    for (std::size_t i = 0; i < reports.size(); ++i) {
        for (const auto& port : reports[i].ports) {
            if (const auto network = port.address ? network_of(*port.address) : std::nullopt) {
                nodes_by_network[network->text()].insert(i);
            }
        }
    }
    std::vector<std::vector<std::string>> isolated(reports.size());
    for (std::size_t i = 0; i < reports.size(); ++i) {
        std::size_t neighbours = 0;
        std::vector<const ReportedPort*> alone;
        for (const auto& port : reports[i].ports) {
            const auto network = port.address ? network_of(*port.address) : std::nullopt;
            if (!network || is_point_to_point(*network)) {
                continue;
            }
            if (nodes_by_network[network->text()].size() > 1) {
                ++neighbours;
            } else {
                alone.push_back(&port);
            }
        }
        if (alone.size() > neighbours) {
            continue; // its rails are routed, beside a network that is not
        }
        for (const auto* port : alone) {
            isolated[i].push_back(port_name(port->hca, port->port));
            findings.push_back({{reports[i].node},
                                format_text("{} ({}): no other node uses a port in that network, so it reaches none: "
                                            "left out",
                                            port_name(port->hca, port->port), network_of(*port->address)->text()),
                                true});
        }
    }
    return isolated;
}

Layout common_layout(std::span<const NodeReport> reports) {
    const auto other = std::ranges::find_if(reports, [](const auto& report) { return report.layout != Layout::Rank; });
    return other == reports.end() ? Layout::Rank : other->layout;
}

std::vector<RankShare> share_ranks(std::span<const NodeReport> reports, Layout layout) {
    const bool countable = std::ranges::all_of(reports, [](const auto& report) { return report.gpus > 0; });
    if (layout == Layout::Rank || !countable) {
        return {};
    }
    std::vector<RankShare> shares;
    unsigned next = 0;
    for (const auto& report : reports) {
        shares.push_back({next, report.gpus, 0});
        next += report.gpus;
    }
    for (auto& share : shares) {
        share.total = next;
    }
    return shares;
}

bool gpus_differ(std::span<const NodeReport> reports) {
    return std::ranges::any_of(reports, [&](const auto& report) { return report.gpus != reports.front().gpus; });
}

ExchangeOutcome agree(std::span<const NodeReport> reports, std::span<const HeadCandidate> candidates,
                      std::span<const ReachResult> results, const Settings& settings) {
    ExchangeOutcome outcome;
    auto verdict = judge_reach(candidates, reports, results);
    outcome.findings = std::move(verdict.findings);
    append(outcome.findings, find_differences(reports));
    const auto isolated = find_isolated_ports(reports, outcome.findings);

    Agreement common;
    common.head_node = reports.front().node;
    common.layout = common_layout(reports);
    common.block = reports.front().block;
    if (verdict.chosen) {
        common.head = verdict.chosen->address;
        common.head_why = verdict.chosen->why;
    }
    if (settings.strict) {
        common.strict_fault = first_fault(outcome.findings);
    }
    const auto shares = share_ranks(reports, common.layout);
    if (settings.hosts != HostsChoice::Off) {
        outcome.hosts = hosts_table(reports, common.head, shares);
    }
    for (std::size_t i = 0; i < reports.size(); ++i) {
        outcome.agreements.push_back(common);
        outcome.agreements.back().left_out = isolated[i];
        if (!shares.empty()) {
            outcome.agreements.back().ranks = shares[i];
        }
    }
    outcome.summary = summary(reports, outcome.agreements.front());
    return outcome;
}

} // namespace rdma_nccl
