// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/base/format.h"
#include "tools/measure/rails.h"
#include "tools/pairs/judge.h"
#include "tools/pairs/model.h"
#include "tools/verbs/rail.h"

#include <functional>
#include <string>

namespace rdma_nccl::test {

inline PairRail rail(unsigned number = 0, double rate_gbps = 400) {
    PairRail rail;
    rail.hca = format_text("mlx5_{}", number);
    rail.gid_index = 3;
    rail.gid = "::ffff:10.0.0.1";
    rail.rate_gbps = rate_gbps;
    rail.netdev = format_text("eth{}", number);
    rail.address = "10.0.0.1";
    return rail;
}

inline measure::Node node_with_rails(unsigned number, unsigned rails = 1) {
    measure::Node node;
    node.name = format_text("n{:02}", number + 1);
    for (unsigned i = 0; i < rails; ++i) {
        node.rails.push_back(rail(i + 1));
    }
    return node;
}

/// Each node with each other, from a to b and back with what `gbps` says.
inline pairs::Report all_pairs_report(unsigned nodes, const std::function<double(unsigned from, unsigned to)>& gbps) {
    pairs::Report report;
    report.schedule = "all";
    report.started = "2026-11-22T10:00:00.000+00:00";
    report.seconds = 42;
    for (unsigned i = 0; i < nodes; ++i) {
        report.nodes.push_back(node_with_rails(i));
    }
    for (unsigned a = 0; a < nodes; ++a) {
        for (unsigned b = a + 1; b < nodes; ++b) {
            pairs::PairingResult result;
            result.pairing = {a, b, 0, 0};
            result.data_correct = true;
            result.path_mtu = 4096;
            result.latency = PairLatency{1.9, 2.1, 2.6, 3.4, 12, 20000};
            const auto bytes = std::uint64_t{100} << 30;
            result.forward = pairs::Bandwidth{gbps(a, b), bytes, 1.01, {}};
            result.backward = pairs::Bandwidth{gbps(b, a), bytes, 1.02, {}};
            result.both = pairs::Bandwidth{gbps(a, b) + gbps(b, a), 2 * bytes, 1.01, {}};
            report.results.push_back(result);
        }
    }
    report.planned = report.results.size();
    return report;
}

/// As a judge would find it that only looks at medians.
inline pairs::Verdict plain_verdict(const pairs::Report& report, double median, int exit_code = 0) {
    pairs::Verdict verdict;
    verdict.median_gbps = median;
    verdict.mad_gbps = 0.5;
    verdict.median_latency_us = 2.1;
    verdict.nodes.resize(report.nodes.size());
    verdict.results.resize(report.results.size(), pairs::ResultState::Good);
    verdict.exit_code = exit_code;
    return verdict;
}

} // namespace rdma_nccl::test
