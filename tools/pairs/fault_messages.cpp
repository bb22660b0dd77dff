// SPDX-License-Identifier: Apache-2.0
#include "tools/pairs/output.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "lib/fabric/fabric.h"
#include "tools/measure/rails.h"
#include "tools/verbs/rail.h"

#include <algorithm>
#include <array>
#include <span>

namespace rdma_nccl::pairs {

namespace {

/// Returns the speed, and what explains more than any advice: a port slower than elsewhere, and the results' notes.
std::string speed_text(const SlowFacts& facts, bool with_pairs) {
    auto text = format_text("{} Gb/s, normal is {} ({})", short_gbps(facts.gbps), short_gbps(facts.normal_gbps),
                            percent_text(facts.share));
    if (with_pairs) {
        text += format_text(", on {} of {} {}", facts.slow_pairs, facts.pairs, facts.pairs == 1 ? "pair" : "pairs");
    }
    if (facts.rate_gbps && facts.usual_rate_gbps) {
        text += format_text("; its link has {} Gb/s, elsewhere {}: cable, or settings of the switch port",
                            short_gbps(*facts.rate_gbps), short_gbps(*facts.usual_rate_gbps));
    }
    for (const auto& note : std::span(facts.notes).first(std::min<std::size_t>(facts.notes.size(), 3))) {
        text += "; " + printable(note, 200);
    }
    return text;
}

} // namespace

std::string short_gbps(double gbps) {
    return format_text("{:.{}f}", gbps, gbps < 9.995 ? 2 : gbps < 99.95 ? 1 : 0);
}

std::string percent_text(double share) {
    return format_text("{:.0f} %", 100 * share);
}

std::string name_of_end(const Report& report, unsigned node, std::optional<unsigned> rail) {
    const auto& of = report.nodes.at(node);
    auto name = printable(of.name, 255);
    if (!rail) {
        return name;
    }
    const auto& port = of.rails.at(*rail);
    return format_text("{} {}", name, port_name(printable(port.hca), port.port));
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
    const auto speed = speed_text(facts, true);
    if (way == SlowWay::Both) {
        return format_text("{} is slow: {}; {}", where, speed,
                           rail ? "the HCA, its cable or its PCIe slot: run `rdma-nccl check` there for width and speed"
                                : "run `rdma-nccl check` there for PCIe width and speed, limits and settings; then CPU "
                                  "frequency and other processes");
    }
    const bool sends = way == SlowWay::Sends;
    return format_text("{} {} slowly: {}; the other way is good; look at {}", where, sends ? "sends" : "receives",
                       speed,
                       sends ? "PCIe reads of the HCA (width, payload size, IOMMU), or pause frames and congestion "
                               "control hold it back"
                             : "PCIe of the receiver (width, speed, ACS, relaxed ordering), or its pause frames hold "
                               "the senders back");
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
    return format_text("{}: {}; {}", what, speed_text(facts, false), advice);
}

std::string duplex_text(std::string_view where, const SlowFacts& facts) {
    return format_text("{} is slow when both ways are used at once: {}; each way alone is good: look at PCIe "
                       "(width, payload size, relaxed ordering, IOMMU), memory of the NUMA node and pause frames",
                       where, speed_text(facts, facts.pairs > 0));
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
    auto names = mapped(verdict.suspects, [&](unsigned node) { return report.nodes.at(node).host_name(); });
    return names.empty() ? "" : fold_hostlist(std::move(names));
}

} // namespace rdma_nccl::pairs
