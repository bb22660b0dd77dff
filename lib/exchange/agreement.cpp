// SPDX-License-Identifier: Apache-2.0
#include "lib/exchange/agreement.h"

#include "lib/base/format.h"
#include "lib/base/hostlist.h"
#include "lib/base/lists.h"
#include "lib/plan/report.h"
#include "lib/slurm/layout.h"

#include <algorithm>
#include <map>

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

std::string summary(Reports reports, const Agreement& first) {
    unsigned tasks = 0;
    for (const auto& report : reports) {
        tasks += report.tasks;
    }
    std::string text = format_text("{} layout, {} on {}", layout_name(first.layout), format_count(tasks, "task"),
                                   format_count(reports.size(), "node"));
    if (first.ranks) {
        text += format_text(", {}", format_count(first.ranks->total, "rank"));
    }
    const auto head = first.head ? first.head : reports.front().plan_head;
    const std::string port = first.block ? format_text("{}", first.block->first) : "none";
    const std::string address = head                                 ? head->bracketed()
                                : reports.front().plan_head_is_given ? "MASTER_ADDR as set"
                                                                     : "none";
    return text + format_text(", head {} ({}:{}), {}", first.head_node, address, port, reports.front().fabric);
}

} // namespace

std::string Finding::line() const {
    return format_text("{}: {}", fold_hostlist(nodes), text);
}

Layout common_layout(std::span<const NodeReport> reports) {
    const auto other = std::ranges::find_if(reports, [](const auto& report) { return report.layout != Layout::Rank; });
    return other == reports.end() ? Layout::Rank : other->layout;
}

std::vector<RankShare> share_ranks(std::span<const NodeReport> reports, Layout layout) {
    if (layout == Layout::Rank || std::ranges::count(reports, 0U, &NodeReport::gpus) > 0) {
        return {};
    }
    std::vector<RankShare> shares;
    unsigned total = 0;
    for (const auto& report : reports) {
        shares.push_back({total, report.gpus, 0});
        total += report.gpus;
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

    Agreement common{.head_node = reports.front().node,
                     .head = std::nullopt,
                     .head_why = "",
                     .block = reports.front().block,
                     .layout = common_layout(reports)};
    if (verdict.chosen) {
        common.head = verdict.chosen->address;
        common.head_why = verdict.chosen->why;
    }
    const auto fault = std::ranges::find_if(outcome.findings, &Finding::fault);
    if (settings.strict && fault != outcome.findings.end()) {
        common.strict_fault = fault->line();
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
