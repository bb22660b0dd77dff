// SPDX-License-Identifier: Apache-2.0
#include "lib/base/json.h"
#include "lib/base/report_fields.h"
#include "tools/measure/rails.h"
#include "tools/pairs/fault_messages.h"
#include "tools/pairs/output.h"
#include "tools/verbs/latency.h"
#include "tools/verbs/rail.h"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl {

static void fields(auto& f, Row<PairRail> /*row*/) {
    f("port", "HCA and port: mlx5_1:1", [](const PairRail& r) { return rail_name(r); });
    f("link_layer", "Ethernet (RoCE) or InfiniBand",
      [](const PairRail& r) { return r.ethernet ? "Ethernet" : "InfiniBand"; });
    f("gid_index", "of the entry used; 0 on InfiniBand", &PairRail::gid_index);
    f("gid", "as text, ::ffff:10.77.1.1; empty: not known", &PairRail::gid);
    f("rate_gbps", "of the link, Gb/s; null: not known",
      [](const PairRail& r) { return r.rate_gbps > 0 ? std::optional(r.rate_gbps) : std::nullopt; });
    f("netdev", "of the port; empty: none", &PairRail::netdev);
    f("netdev_mtu", "bytes; 0: no netdev", &PairRail::netdev_mtu);
    f("address", "an IP address of the netdev, for TCP; empty: none", &PairRail::address);
    f("numa_node", "null: not known", &PairRail::numa_node);
    f("software", "Soft-RoCE or siw: what is measured is the CPU", &PairRail::software);
}

static void fields(auto& f, Row<PairBandwidth> /*row*/) {
    f("gbps", "payload, Gb/s, over the steady part", &PairBandwidth::gbps);
    f("bytes", "sent in all", &PairBandwidth::bytes);
    f("counted_share", "of bytes, what the port's counters saw sent; null: it has none", &PairBandwidth::counted_share);
    f("tcp_gbps", "TCP between the same ports, Gb/s; null: not measured", &PairBandwidth::tcp_gbps);
}

static void fields(auto& f, Row<PairLatency> /*row*/) {
    f("min_us", "half a round trip, microseconds", &PairLatency::min_us);
    f("median_us", "", &PairLatency::median_us);
    f("p99_us", "of 100, 99 are not longer", &PairLatency::p99_us);
    f("p999_us", "of 1000, 999 are not longer", &PairLatency::p999_us);
    f("max_us", "", &PairLatency::max_us);
    f("round_trips", "that were measured", &PairLatency::round_trips);
}

static void fields(auto& f, Row<PairsMeasure> /*row*/) {
    f("seconds", "for each direction",
      [](const PairsMeasure& m) { return static_cast<double>(m.time.count()) / 1000; });
    f("message_size", "bytes of one write", &PairsMeasure::message_size);
    f("queue_pairs", "", &PairsMeasure::queue_pairs);
    f("depth", "writes in flight, on each queue pair", &PairsMeasure::depth);
    f("traffic_class", "of RoCE packets: four times the DSCP", &PairsMeasure::traffic_class);
    f("service_level", "of InfiniBand", &PairsMeasure::service_level);
}

namespace {

std::vector<std::string> names_of(const PairsReport& report, const std::vector<unsigned>& nodes) {
    std::vector<std::string> names;
    names.reserve(nodes.size());
    for (const unsigned node : nodes) {
        names.push_back(report.nodes.at(node).name);
    }
    return names;
}

template<typename T>
T item_or_default(const std::vector<T>& items, std::size_t index) {
    return index < items.size() ? items[index] : T();
}

struct NodeRow {
    const PairNode& node;
    NodeScore score;
};

void fields(auto& f, Row<NodeRow> /*row*/) {
    f("name", "", [](const NodeRow& r) { return r.node.name; });
    f("problem", "why it takes no part; empty: it does", [](const NodeRow& r) { return r.node.problem; });
    f("state", "unknown, good, slow or failed", [](const NodeRow& r) { return name_of(r.score.state); });
    f("sends_gbps", "median over its pairs, Gb/s; null: not measured",
      [](const NodeRow& r) { return r.score.sends_gbps; });
    f("receives_gbps", "median over its pairs, Gb/s; null: not measured",
      [](const NodeRow& r) { return r.score.receives_gbps; });
    f("latency_us", "median over its pairs, microseconds; null: not measured",
      [](const NodeRow& r) { return r.score.latency_us; });
    f("pairs", "that it was in", [](const NodeRow& r) { return r.score.pairs; });
    f("slow", "of its pairs", [](const NodeRow& r) { return r.score.slow; });
    f("failed", "of its pairs", [](const NodeRow& r) { return r.score.failed; });
    f("rails", "its ports in use", [](const NodeRow& r) -> const std::vector<PairRail>& { return r.node.rails; });
}

struct EndRow {
    const PairsReport& report;
    unsigned node, rail;
};

void fields(auto& f, Row<EndRow> /*row*/) {
    f("node", "its name", [](const EndRow& r) { return r.report.nodes.at(r.node).name; });
    f("port", "HCA and port: mlx5_1:1",
      [](const EndRow& r) { return rail_name(r.report.nodes.at(r.node).rails.at(r.rail)); });
    f("rail", "index of the port in the node's rails", &EndRow::rail);
}

struct ResultRow {
    const PairsReport& report;
    const PairResult& result;
    PairState state;
};

void fields(auto& f, Row<ResultRow> /*row*/) {
    f("a", "one end", [](const ResultRow& r) { return EndRow{r.report, r.result.pairing.a, r.result.pairing.rail_a}; });
    f("b", "the other; of a loopback the same", [](const ResultRow& r) {
        return EndRow{r.report, r.result.pairing.b, r.result.pairing.rail_b};
    });
    f("round", "from 0; those of a round ran at the same time", [](const ResultRow& r) { return r.result.round; });
    f("retest", "measured again with a good partner", [](const ResultRow& r) { return r.result.retest; });
    f("state", "unknown (measured again later, too), good, slow or failed",
      [](const ResultRow& r) { return name_of(r.state); });
    f("problem", "why nothing, or not all, was measured; empty: all was",
      [](const ResultRow& r) { return r.result.problem; });
    f("fault_of", "the node at which the problem lies; null: none, or not known", [](const ResultRow& r) {
        return r.result.fault_of ? std::optional(r.report.nodes.at(*r.result.fault_of).name) : std::nullopt;
    });
    f("data_correct", "what arrived is what was sent; null: not looked at",
      [](const ResultRow& r) { return r.result.data_correct; });
    f("path_mtu", "bytes, as both ports agreed; null: not agreed",
      [](const ResultRow& r) { return r.result.path_mtu > 0 ? std::optional(r.result.path_mtu) : std::nullopt; });
    f("latency", "null: not measured", [](const ResultRow& r) { return r.result.latency; });
    f("forward", "from a to b; null: not measured", [](const ResultRow& r) { return r.result.forward; });
    f("backward", "from b to a; null: not measured", [](const ResultRow& r) { return r.result.backward; });
    f("both", "both ways at once, the sum; null: not measured", [](const ResultRow& r) { return r.result.both; });
    f("notes", "what explains a slow result", [](const ResultRow& r) { return r.result.notes; });
}

struct FaultRow {
    const PairsReport& report;
    const PairsFault& fault;
};

void fields(auto& f, Row<FaultRow> /*row*/) {
    f("kind", "node, rail, link, direction, both ways, all slow, failed, ...",
      [](const FaultRow& r) { return name_of(r.fault.kind); });
    f("nodes", "whose fault it is, or between which it lies",
      [](const FaultRow& r) { return names_of(r.report, r.fault.nodes); });
    f("rail", "index; null: on all rails", [](const FaultRow& r) { return r.fault.rail; });
    f("text", "in words", [](const FaultRow& r) { return r.fault.text; });
}

struct JudgementRow {
    const PairsReport& report;
    const PairsVerdict& verdict;
};

void fields(auto& f, Row<JudgementRow> /*row*/) {
    f("verdict", "good, slow, failed or nothing measured",
      [](const JudgementRow& r) { return verdict_word(r.verdict); });
    f("median_gbps", "of all directions measured, Gb/s; null: none was",
      [](const JudgementRow& r) { return r.verdict.median_gbps; });
    f("mad_gbps", "median absolute deviation, Gb/s; null: nothing was measured",
      [](const JudgementRow& r) { return r.verdict.mad_gbps; });
    f("median_latency_us", "microseconds; null: not measured",
      [](const JudgementRow& r) { return r.verdict.median_latency_us; });
    f("faults", "the worst first", [](const JudgementRow& r) {
        std::vector<FaultRow> rows;
        rows.reserve(r.verdict.faults.size());
        for (const auto& fault : r.verdict.faults) {
            rows.push_back({r.report, fault});
        }
        return rows;
    });
    f("suspects", "nodes", [](const JudgementRow& r) { return names_of(r.report, r.verdict.suspects); });
    f("suspects_hostlist", "as Slurm's options take it; empty: no suspects",
      [](const JudgementRow& r) { return suspects_hostlist(r.report, r.verdict); });
    f("notes", "what limits the judgement", [](const JudgementRow& r) { return r.verdict.notes; });
    f("exit_code", "0 good, 1 slow, 2 failed or wrong data, 3 nothing was measured",
      [](const JudgementRow& r) { return r.verdict.exit_code; });
}

struct PairsRow {
    const PairsReport& report;
    const PairsVerdict& verdict;
};

void fields(auto& f, Row<PairsRow> /*row*/) {
    f("schema", "1", [](const PairsRow& /*r*/) { return 1U; });
    f("schedule", "all, quick, ring, bisection or loopback", [](const PairsRow& r) { return r.report.schedule; });
    f("started", "ISO 8601", [](const PairsRow& r) { return r.report.started; });
    f("seconds", "it took", [](const PairsRow& r) { return r.report.seconds; });
    f("ended_early", "interrupted, time limit; empty: it was not",
      [](const PairsRow& r) { return r.report.ended_early; });
    f("planned", "pairings; more than results: it was ended before",
      [](const PairsRow& r) { return r.report.planned; });
    f("on_gpu", "memory of GPUs", [](const PairsRow& r) { return r.report.on_gpu; });
    f("with_tcp", "TCP was measured, too", [](const PairsRow& r) { return r.report.with_tcp; });
    f("measure", "how each pairing is measured", [](const PairsRow& r) { return r.report.measure; });
    f("judgement", "what is slow", [](const PairsRow& r) { return JudgementRow{r.report, r.verdict}; });
    f("nodes", "", [](const PairsRow& r) {
        std::vector<NodeRow> rows;
        rows.reserve(r.report.nodes.size());
        for (std::size_t i = 0; i < r.report.nodes.size(); ++i) {
            rows.push_back({r.report.nodes[i], item_or_default(r.verdict.nodes, i)});
        }
        return rows;
    });
    f("results", "of each pairing", [](const PairsRow& r) {
        std::vector<ResultRow> rows;
        rows.reserve(r.report.results.size());
        for (std::size_t i = 0; i < r.report.results.size(); ++i) {
            rows.push_back({r.report, r.report.results[i], item_or_default(r.verdict.results, i)});
        }
        return rows;
    });
}

} // namespace

Json pairs_json(const PairsReport& report, const PairsVerdict& verdict) {
    return report_json(PairsRow{report, verdict});
}

Json pairs_schema() {
    return report_schema<PairsRow>();
}

} // namespace rdma_nccl
