// SPDX-License-Identifier: Apache-2.0
#include "tools/pairs/fault_messages.h"

#include "lib/base/format.h"
#include "lib/base/hostlist.h"
#include "lib/base/text.h"
#include "lib/fabric/fabric.h"
#include "tools/measure/rails.h"
#include "tools/verbs/rail.h"

#include <algorithm>
#include <array>

namespace rdma_nccl::pairs {

namespace {

/// Returns "mlx5_1:1".
std::string name_of_rail(const Report& report, unsigned node, unsigned rail) {
    if (node >= report.nodes.size() || rail >= report.nodes[node].rails.size()) {
        return format_text("rail {}", rail);
    }
    const PairRail& port = report.nodes[node].rails[rail];
    return port_name(printable(port.hca), port.port);
}

std::string speed(const SlowFacts& facts) {
    return format_text("{} Gb/s, normal is {} ({})", short_gbps(facts.gbps), short_gbps(facts.normal_gbps),
                       percent_text(facts.share));
}

std::string on_pairs(const SlowFacts& facts) {
    return format_text(", on {} of {} {}", facts.slow_pairs, facts.pairs, facts.pairs == 1 ? "pair" : "pairs");
}

/// Returns reasons that explain more than any advice: a port that came up slower than elsewhere, and the results'
/// notes.
std::string reasons(const SlowFacts& facts) {
    std::string text;
    if (facts.rate_gbps && facts.usual_rate_gbps) {
        text += format_text("; its link has {} Gb/s, elsewhere {}: cable, or settings of the switch port",
                            short_gbps(*facts.rate_gbps), short_gbps(*facts.usual_rate_gbps));
    }
    constexpr std::size_t most = 3;
    for (std::size_t i = 0; i < facts.notes.size() && i < most; ++i) {
        text += "; " + printable(facts.notes[i], 200);
    }
    return text;
}

std::string_view advice_of(SlowWay way, bool rail) {
    switch (way) {
    case SlowWay::Sends:
        return "sends slowly: PCIe reads of the HCA (width, payload size, IOMMU), or pause frames and congestion "
               "control hold it back";
    case SlowWay::Receives:
        return "receives slowly: PCIe of the receiver (width, speed, ACS, relaxed ordering), or its pause frames hold "
               "the senders back";
    case SlowWay::Both:
        break;
    }
    return rail ? "the HCA, its cable or its PCIe slot: run `rdma-nccl check` there for width and speed"
                : "run `rdma-nccl check` there for PCIe width and speed, limits and settings; then CPU frequency and "
                  "other processes";
}

} // namespace

std::string short_gbps(double gbps) {
    return format_text("{:.{}f}", gbps, gbps < 9.995 ? 2 : gbps < 99.95 ? 1 : 0);
}

std::string percent_text(double share) {
    return format_text("{:.0f} %", 100 * share);
}

std::string name_of_node(const Report& report, unsigned node) {
    return node < report.nodes.size() ? printable(report.nodes[node].name, 255) : format_text("node {}", node);
}

std::string name_of_end(const Report& report, unsigned node, std::optional<unsigned> rail) {
    return name_of_node(report, node) + (rail ? " " + name_of_rail(report, node, *rail) : "");
}

std::string name_of_link(const Report& report, const Pairing& pairing, bool with_rails, std::string_view between) {
    const auto end = [&](unsigned node, unsigned rail) {
        return name_of_end(report, node, with_rails ? std::optional(rail) : std::nullopt);
    };
    return end(pairing.a, pairing.rail_a) + std::string(between) + end(pairing.b, pairing.rail_b);
}

std::string slow_end_text(const Report& report, unsigned node, std::optional<unsigned> rail, SlowWay way,
                          const SlowFacts& facts) {
    const auto where = name_of_end(report, node, rail);
    if (way == SlowWay::Both) {
        return format_text("{} is slow: {}{}{}; {}", where, speed(facts), on_pairs(facts), reasons(facts),
                           advice_of(way, rail.has_value()));
    }
    const std::string_view advice = advice_of(way, rail.has_value());
    const auto [verb, causes] = split_once(advice, ':');
    return format_text("{} {}: {}{}{}; the other way is good; look at {}", where, verb, speed(facts), on_pairs(facts),
                       reasons(facts), trim(causes.value_or("")));
}

std::string slow_link_text(const Report& report, const Pairing& pairing, bool with_rails, SlowWay way, bool others_good,
                           const SlowFacts& facts) {
    const auto& [a, b, rail_a, rail_b] = pairing;
    const Pairing turned = {.a = b, .b = a, .rail_a = rail_b, .rail_b = rail_a};
    const std::string what =
        way == SlowWay::Both
            ? format_text("the pair {} is slow", name_of_link(report, pairing, with_rails))
            : format_text("the way from {} is slow",
                          name_of_link(report, way == SlowWay::Sends ? pairing : turned, with_rails, " to "));
    const std::string_view advice =
        others_good            ? "other pairs of both are good: the network between them (uplink, cable, "
                                 "routing, congestion)"
        : way == SlowWay::Both ? "which side or what lies between cannot be told: compare with other nodes"
                               : "PCIe of the receiver, pause frames, or the network that way";
    return format_text("{}: {}{}; {}", what, speed(facts), reasons(facts), advice);
}

std::string duplex_text(std::string_view where, const SlowFacts& facts) {
    return format_text("{} is slow when both ways are used at once: {}{}{}; each way alone is good: look at PCIe "
                       "(width, payload size, relaxed ordering, IOMMU), memory of the NUMA node and pause frames",
                       where, speed(facts), facts.pairs > 0 ? on_pairs(facts) : "", reasons(facts));
}

std::string all_slow_text(double gbps, double rate_gbps, double floor_share) {
    return format_text("everything is slow: the median is {} Gb/s on links of {} Gb/s ({}; at least {} are expected); "
                       "look at what all nodes share: MTU, PCIe settings, IOMMU, flow control, the switches",
                       short_gbps(gbps), short_gbps(rate_gbps), percent_text(gbps / rate_gbps),
                       percent_text(floor_share));
}

std::string_view name_of(ResultState state) {
    constexpr std::array<std::string_view, 4> names{"unknown", "good", "slow", "failed"};
    return names.at(static_cast<std::size_t>(state));
}

std::string_view name_of(FaultKind kind) {
    constexpr std::array<std::string_view, 9> names{"node",   "rail",       "link",    "direction", "all slow",
                                                    "failed", "wrong data", "latency", "both ways"};
    return names.at(static_cast<std::size_t>(kind));
}

std::string_view verdict_word(const Verdict& verdict) {
    constexpr std::array<std::string_view, 4> words{"good", "slow", "failed", "nothing measured"};
    return words.at(static_cast<std::size_t>(std::clamp(verdict.exit_code, 0, 3)));
}

std::string suspects_hostlist(const Report& report, const Verdict& verdict) {
    std::vector<std::string> names;
    for (const unsigned node : verdict.suspects) {
        names.push_back(report.nodes.at(node).host_name());
    }
    return names.empty() ? "" : fold_hostlist(std::move(names));
}

std::string end_text(const Report& report, unsigned node, unsigned rail) {
    const auto& of = report.nodes.at(node);
    return rail < of.rails.size() ? format_text("{} {}", of.name, measure::rail_name(of.rails[rail])) : of.name;
}

} // namespace rdma_nccl::pairs
