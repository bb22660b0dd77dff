// SPDX-License-Identifier: Apache-2.0
// Clusters whose links are as fast as a test says: measured without devices.
#pragma once

#include "tools/measure/rails.h"
#include "tools/pairs/judge.h"
#include "tools/pairs/pairs.h"
#include "tools/verbs/rail.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

namespace rdma_nccl::test {

inline constexpr double line_gbps = 400;

inline pairs::Report idle_cluster(unsigned nodes, unsigned rails) {
    pairs::Report report;
    report.schedule = "all";
    report.started = "2026-03-01T12:00:00+01:00";
    for (unsigned i = 0; i < nodes; ++i) {
        measure::Node node;
        node.name = (i < 10 ? "n00" : i < 100 ? "n0" : "n") + std::to_string(i);
        for (unsigned rail = 0; rail < rails; ++rail) {
            PairRail port;
            port.hca = "mlx5_" + std::to_string(rail);
            port.rate_gbps = line_gbps;
            node.rails.push_back(port);
        }
        report.nodes.push_back(node);
    }
    return report;
}

/// Gb/s from a port to another.
using SpeedOf = std::function<double(unsigned from, unsigned from_rail, unsigned to, unsigned to_rail)>;

inline pairs::Bandwidth gbps_of(double gbps) {
    return {.gbps = gbps, .bytes = static_cast<std::uint64_t>(gbps * 1e9 / 8), .counted_share = {}, .tcp_gbps = {}};
}

inline PairLatency latency_of(double us) {
    return {.min_us = us * 0.9,
            .median_us = us,
            .p99_us = us * 1.3,
            .p999_us = us * 2,
            .max_us = us * 9,
            .round_trips = 10000};
}

/// Of a pairing of which nothing was measured.
inline pairs::PairingResult failed_result(const pairs::Pairing& pairing, const std::string& problem) {
    pairs::PairingResult result;
    result.pairing = pairing;
    result.problem = problem;
    return result;
}

/// Appends the results of these rounds.
inline void measure_rounds(pairs::Report& report, const std::vector<pairs::Round>& rounds, const SpeedOf& speed,
                           bool retest = false) {
    for (const pairs::Round& round : rounds) {
        for (const pairs::Pairing& pairing : round) {
            const auto& [a, b, rail_a, rail_b] = pairing;
            pairs::PairingResult result;
            result.pairing = pairing;
            result.retest = retest;
            result.data_correct = true;
            result.path_mtu = 4096;
            result.forward = gbps_of(speed(a, rail_a, b, rail_b));
            result.backward = gbps_of(speed(b, rail_b, a, rail_a));
            result.both = gbps_of(0.98 * (result.forward->gbps + result.backward->gbps));
            result.latency = latency_of(1.8);
            report.results.push_back(std::move(result));
        }
        ++report.planned;
    }
    report.planned = report.results.size();
}

inline std::vector<pairs::Round> on_all_rails(const pairs::Report& report, const pairs::NodeRounds& rounds) {
    std::vector<unsigned> rails;
    for (const measure::Node& node : report.nodes) {
        rails.push_back(static_cast<unsigned>(node.rails.size()));
    }
    return pairs::with_rails(rounds, rails, pairs::RailPairing::Same);
}

/// All pairs, rail i with rail i.
inline pairs::Report measured_cluster(unsigned nodes, unsigned rails, const SpeedOf& speed) {
    pairs::Report report = idle_cluster(nodes, rails);
    measure_rounds(report, on_all_rails(report, pairs::all_pairs(nodes)), speed);
    return report;
}

/// "rail 3.1" of node 3, "node 3", "sends 3", "receives 3.1", "link 3-7.1", "failed 3", ...: whom a fault accuses.
inline std::string accused(const pairs::Fault& fault) {
    constexpr const char* names[] = {"node",   "rail",  "link",    "direction", "all slow",
                                     "failed", "wrong", "latency", "duplex"};
    std::string text = names[static_cast<int>(fault.kind)];
    for (std::size_t i = 0; i < fault.nodes.size(); ++i) {
        text += (i == 0 ? " " : "-") + std::to_string(fault.nodes[i]);
    }
    return fault.rail ? text + "." + std::to_string(*fault.rail) : text;
}

inline std::vector<std::string> accused(const pairs::Verdict& verdict) {
    std::vector<std::string> all;
    for (const pairs::Fault& fault : verdict.faults) {
        all.push_back(accused(fault));
    }
    std::sort(all.begin(), all.end());
    return all;
}

} // namespace rdma_nccl::test
