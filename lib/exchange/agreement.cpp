// SPDX-License-Identifier: Apache-2.0
#include "lib/exchange/agreement.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "lib/order/order.h"
#include "lib/plan/nccl_variables.h"
#include "lib/slurm/step.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

namespace rdma_nccl {

namespace {

using Reports = std::span<const NodeReport>;

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

/// Returns the position of the node with rank `at` among nodes. `order`: as OrderChosen's.
std::size_t position(std::span<const std::size_t> order, std::size_t at) {
    return order.empty() ? at : order[at];
}

/// In the order of the ranks: DeepSpeed counts them by the lines of its hostfile.
HostsTable hosts_table(Reports reports, const std::optional<IpAddress>& head, const std::vector<RankShare>& shares,
                       std::span<const std::size_t> order) {
    HostsTable hosts;
    std::map<std::string, std::size_t> by_name; // a node in two components of a heterogeneous step appears twice
    for (std::size_t at = 0; at < reports.size(); ++at) {
        const auto i = position(order, at);
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

std::string summary(Reports reports, const Agreement& first) {
    unsigned tasks = 0;
    for (const auto& report : reports) {
        tasks += report.tasks;
    }
    const auto& head = reports.front();
    const auto address = first.head ? first.head : head.plan_head;
    return format_summary({.layout = first.layout,
                           .alone = first.alone,
                           .tasks = tasks,
                           .nodes = reports.size(),
                           .ranks = first.ranks ? first.ranks->total : 0,
                           .head_node = first.head_node,
                           .address = address ? address->text() : "",
                           .users_head = head.users_head,
                           .port = first.block ? format_text("{}", first.block->first) : "none",
                           .fabric = head.fabric});
}

std::string memlock_of(const NodeReport& report) {
    return report.memlock_kib ? format_text("locked memory limited to {} KiB", *report.memlock_kib)
                              : "locked memory unlimited";
}

std::string gid_kind_of(const ReportedPort& port) {
    if (!port.roce || !port.address) {
        return "";
    }
    return format_text("RoCE v{} over {}", static_cast<int>(*port.roce),
                       port.address->address.is_ipv4() ? "IPv4" : "IPv6");
}

/// A property in which nodes may differ: of a node, or the distinct values of its ports, "100, 200 Gb/s". A node with
/// an empty value is left out of the comparison.
struct Attribute {
    std::string (*of_node)(const NodeReport&) = nullptr;
    std::string (*of_port)(const ReportedPort&) = nullptr;
    bool fault = true;
    bool of_ports = false;      ///< the value is followed by the names of missing ports
    std::string_view then = {}; ///< what follows from a difference

    [[nodiscard]] std::string value(const NodeReport& report) const {
        if (of_node != nullptr) {
            return of_node(report);
        }
        std::set<std::string> values;
        for (const auto& port : report.ports) {
            values.insert(of_port(port));
        }
        values.erase("");
        return joined(values);
    }
};

constexpr std::array attributes = {
    Attribute{.of_node = [](const auto& report) { return format_count(report.ports.size(), "HCA port") + " in use"; },
              .of_ports = true},
    Attribute{.of_port = [](const auto& port) -> std::string {
        return port.link_layer == LinkLayer::InfiniBand ? "InfiniBand" : "RoCE";
    }},
    Attribute{
        .of_port = [](const auto& port) { return port.rate_gbps > 0 ? format_text("{:g} Gb/s", port.rate_gbps) : ""; }},
    Attribute{.of_port = [](const auto& port) { return port.mtu > 0 ? format_text("MTU {}", port.mtu) : ""; }},
    Attribute{.of_port = gid_kind_of},
    Attribute{.of_node = [](const auto& report) { return format_text("{}={}", failover_variable, report.failover); },
              .then = ": give all nodes the same failover and NCCL's files"},
    Attribute{.of_node = [](const auto& report) { return format_count(report.gpus, "GPU"); }, .fault = false},
    Attribute{.of_node = memlock_of},
    Attribute{.of_node = [](const auto& report) { return report.fabric_profile; },
              .fault = false,
              .then = ": none is set; rdma-nccl explain --set fabric_profile shows them"},
};

std::set<std::string> port_names(const NodeReport& report) {
    std::set<std::string> names;
    for (const auto& port : report.ports) {
        names.insert(port_name(port.hca, port.port));
    }
    return names;
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

void compare(std::vector<Finding>& findings, Reports reports, const Attribute& attribute) {
    std::map<std::string, std::vector<std::size_t>> nodes_by_value;
    for (std::size_t i = 0; i < reports.size(); ++i) {
        if (auto value = attribute.value(reports[i]); !value.empty()) {
            nodes_by_value[std::move(value)].push_back(i);
        }
    }
    if (nodes_by_value.size() < 2) {
        return;
    }
    const auto usual = most_common(nodes_by_value);
    const NodeReport& usual_node = reports[usual->second.front()];
    std::map<std::string, std::vector<std::string>> nodes_by_text;
    for (const auto& [value, nodes] : nodes_by_value) {
        for (const auto i : value == usual->first ? std::vector<std::size_t>() : nodes) {
            const std::string missing = attribute.of_ports ? missing_ports(reports[i], usual_node) : "";
            nodes_by_text[missing.empty() ? value : format_text("{} ({})", value, missing)].push_back(reports[i].node);
        }
    }
    const bool one = usual->second.size() == 1;
    const std::string others =
        format_text("{} {} {}", one ? usual_node.node : format_count(usual->second.size(), "node"),
                    one ? "has" : "have", usual->first);
    for (auto& [text, nodes] : nodes_by_text) {
        findings.push_back({std::move(nodes), format_text("{}; {}{}", text, others, attribute.then), attribute.fault});
    }
}

/// True if each node's tasks follow those of the node before it, so that numbers by node order keep them together.
bool tasks_are_in_rows(Reports reports) {
    unsigned next = 0;
    return std::ranges::all_of(reports, [&](const NodeReport& report) {
        return std::exchange(next, next + report.tasks) == report.first_task;
    });
}

/// Returns the place of each report in an order of ours; none for Slurm's.
std::vector<NodeOrder> place_nodes(Reports reports, std::span<const std::size_t> order) {
    std::vector<NodeOrder> places(order.size());
    unsigned tasks = 0;
    for (std::size_t at = 0; at < order.size(); ++at) {
        places[order[at]] = {static_cast<unsigned>(at), tasks};
        tasks += reports[order[at]].tasks;
    }
    return places;
}

/// Returns true if srun is to say what becomes of a setting: the user gave it, or asked for details.
bool is_of_interest(const Settings& settings, std::string_view key) {
    return settings.verbose >= (given_by_user(settings, key) ? 1U : 2U);
}

/// Returns true if srun is to say why Slurm's order stays.
bool is_order_of_interest(const Settings& settings) {
    return settings.order == OrderChoice::Auto ? settings.verbose >= 2 : is_of_interest(settings, "order");
}

std::string order_line(const Settings& settings, std::string_view why) {
    return format_text("order={}: {}", settings.order == OrderChoice::Auto ? "auto" : "topology", why);
}

} // namespace

std::vector<Finding> find_differences(std::span<const NodeReport> reports) {
    std::vector<Finding> findings; // warnings in the order of the first node that has them
    std::map<std::string_view, std::size_t> index;
    for (const auto& report : reports) {
        for (const auto& warning : report.warnings) {
            const auto [known, is_new] = index.emplace(warning, findings.size());
            if (is_new) {
                findings.push_back({{}, warning});
            }
            findings[known->second].nodes.push_back(report.node);
        }
    }
    for (const auto& attribute : attributes) {
        compare(findings, reports, attribute);
    }
    return findings;
}

std::string Finding::line() const {
    return format_text("{}: {}", fold_hostlist(nodes), text);
}

Layout common_layout(std::span<const NodeReport> reports) {
    const auto other = std::ranges::find_if(reports, [](const auto& report) { return report.layout != Layout::Rank; });
    return other == reports.end() ? Layout::Rank : other->layout;
}

OrderChosen choose_order(std::span<const NodeReport> reports, const Settings& settings) {
    if (settings.order == OrderChoice::Slurm) {
        return {};
    }
    const auto stays = [](std::string_view why) { return OrderChosen{{}, format_text("Slurm's stays: {}", why)}; };
    if (const auto& alone = reports.front().alone; !alone.empty()) {
        return stays(printable(alone, 55));
    }
    const auto keeps = std::ranges::find_if(reports, [](const auto& report) { return !report.keeps_order.empty(); });
    if (keeps != reports.end()) {
        return stays(printable(format_text("{}: {}", keeps->node, keeps->keeps_order), 55));
    }
    const auto mpi = std::ranges::find_if(reports, [](const auto& report) { return !report.mpi.empty(); });
    if (mpi != reports.end() && common_layout(reports) == Layout::Rank) {
        return stays(format_text("MPI ({}) numbers the ranks: give --mpi=none", printable(mpi->mpi, 14)));
    }
    if (!tasks_are_in_rows(reports)) {
        return stays("a node's tasks are not in a row: give --distribution=block");
    }
    const auto places = mapped(reports, [](const NodeReport& report) {
        return parse_place(report.topology_address, report.topology_pattern, report.node);
    });
    if (std::ranges::none_of(places, [](const auto& place) { return place.has_value(); })) {
        return stays("SLURM_TOPOLOGY_ADDR names no switch or block");
    }
    auto ordered = order_by_place(places);
    if (!ordered.changes()) {
        return stays("the nodes of each switch or block are together");
    }
    auto gain = gain_text(ordered);
    return {std::move(ordered.order), std::move(gain)};
}

std::vector<std::string> not_agreed(const Settings& settings) {
    std::vector<std::string> lines;
    if (settings.order != OrderChoice::Slurm && is_order_of_interest(settings)) {
        lines.push_back(order_line(settings, "Slurm's stays: the nodes have not agreed"));
    }
    if (settings.fabric_profile && is_of_interest(settings, "fabric_profile")) {
        lines.emplace_back(settings.exchange ? "fabric_profile=on sets nothing: the nodes have not agreed"
                                             : "fabric_profile=on sets nothing without exchange=on: values that differ "
                                               "between nodes do harm");
    }
    return lines;
}

std::vector<RankShare> share_ranks(std::span<const NodeReport> reports, Layout layout,
                                   std::span<const std::size_t> order) {
    if (layout == Layout::Rank || std::ranges::count(reports, 0U, &NodeReport::gpus) > 0) {
        return {};
    }
    std::vector<RankShare> shares(reports.size());
    unsigned total = 0;
    for (std::size_t at = 0; at < reports.size(); ++at) {
        const auto i = position(order, at);
        shares[i] = {total, reports[i].gpus, 0};
        total += reports[i].gpus;
    }
    for (auto& share : shares) {
        share.total = total;
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
    append(outcome.findings, find_crossed_rails(networks_of(reports)));

    Agreement common{.head_node = reports.front().node,
                     .head = std::nullopt,
                     .head_why = "",
                     .block = reports.front().block,
                     .layout = common_layout(reports),
                     .alone = reports.front().alone};
    common.fabric_profile = std::ranges::all_of(
        reports, [&](const auto& report) { return report.fabric_profile == reports.front().fabric_profile; });
    if (verdict.chosen) {
        common.head = verdict.chosen->address;
        common.head_why = verdict.chosen->why;
    }
    const auto fault = std::ranges::find_if(outcome.findings, &Finding::fault);
    if (settings.strict && fault != outcome.findings.end()) {
        common.strict_fault = fault->line();
    }
    const auto [order, order_why] = choose_order(reports, settings);
    if (!order.empty() || (!order_why.empty() && is_order_of_interest(settings))) {
        outcome.order_line = order_line(settings, order_why);
    }
    const auto places = place_nodes(reports, order);
    const auto shares = common.alone.empty() ? share_ranks(reports, common.layout, order) : std::vector<RankShare>();
    if (settings.hosts != HostsChoice::Off) {
        outcome.hosts = hosts_table(reports, common.head, shares, order);
    }
    for (std::size_t i = 0; i < reports.size(); ++i) {
        outcome.agreements.push_back(common);
        outcome.agreements.back().left_out = isolated[i];
        if (!places.empty()) {
            outcome.agreements.back().order = places[i];
        }
        if (!shares.empty()) {
            outcome.agreements.back().ranks = shares[i];
        }
    }
    outcome.summary = summary(reports, outcome.agreements.front());
    return outcome;
}

} // namespace rdma_nccl
