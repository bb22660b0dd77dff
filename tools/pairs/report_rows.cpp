// SPDX-License-Identifier: Apache-2.0
// The JSON and the CSV of a report.
#include "lib/base/json.h"
#include "lib/base/report_fields.h"
#include "lib/base/text.h"
#include "tools/measure/rails.h"
#include "tools/pairs/fault_messages.h"
#include "tools/pairs/output.h"
#include "tools/verbs/latency.h"
#include "tools/verbs/rail.h"

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
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

/// Returns, for a member of this part of a row, the function that reads it.
template<typename R, typename Part>
auto fields_of(Part R::*part) {
    return
        [part](auto member) { return [=](const R& row) -> decltype(auto) { return std::invoke(member, row.*part); }; };
}

template<typename T>
T item_or_default(const std::vector<T>& items, std::size_t index) {
    return index < items.size() ? items[index] : T();
}

struct NodeRow {
    const PairNode* node;
    NodeScore score;
};

void fields(auto& f, Row<NodeRow> /*row*/) {
    const auto node = fields_of(&NodeRow::node);
    const auto score = fields_of(&NodeRow::score);
    f("name", "", node(&PairNode::name));
    f("problem", "why it takes no part; empty: it does", node(&PairNode::problem));
    f("state", "unknown, good, slow or failed", [](const NodeRow& r) { return name_of(r.score.state); });
    f("sends_gbps", "median over its pairs, Gb/s; null: not measured", score(&NodeScore::sends_gbps));
    f("receives_gbps", "median over its pairs, Gb/s; null: not measured", score(&NodeScore::receives_gbps));
    f("latency_us", "median over its pairs, microseconds; null: not measured", score(&NodeScore::latency_us));
    f("pairs", "that it was in", score(&NodeScore::pairs));
    f("slow", "of its pairs", score(&NodeScore::slow));
    f("failed", "of its pairs", score(&NodeScore::failed));
    f("rails", "its ports in use", node(&PairNode::rails));
}

struct EndRow {
    const PairsReport* report;
    unsigned node, rail;
};

void fields(auto& f, Row<EndRow> /*row*/) {
    f("node", "its name", [](const EndRow& r) { return r.report->nodes.at(r.node).name; });
    f("port", "HCA and port: mlx5_1:1",
      [](const EndRow& r) { return rail_name(r.report->nodes.at(r.node).rails.at(r.rail)); });
    f("rail", "index of the port in the node's rails", &EndRow::rail);
}

struct ResultRow {
    const PairsReport* report;
    const PairResult* result;
    PairState state;
};

void fields(auto& f, Row<ResultRow> /*row*/) {
    const auto result = fields_of(&ResultRow::result);
    f("a", "one end", [](const ResultRow& r) {
        return EndRow{r.report, r.result->pairing.a, r.result->pairing.rail_a};
    });
    f("b", "the other; of a loopback the same", [](const ResultRow& r) {
        return EndRow{r.report, r.result->pairing.b, r.result->pairing.rail_b};
    });
    f("round", "from 0; those of a round ran at the same time", result(&PairResult::round));
    f("retest", "measured again with a good partner", result(&PairResult::retest));
    f("state", "unknown (measured again later, too), good, slow or failed",
      [](const ResultRow& r) { return name_of(r.state); });
    f("problem", "why nothing, or not all, was measured; empty: all was", result(&PairResult::problem));
    f("fault_of", "the node at which the problem lies; null: none, or not known", [](const ResultRow& r) {
        return r.result->fault_of ? std::optional(r.report->nodes.at(*r.result->fault_of).name) : std::nullopt;
    });
    f("data_correct", "what arrived is what was sent; null: not looked at", result(&PairResult::data_correct));
    f("path_mtu", "bytes, as both ports agreed; null: not agreed",
      [](const ResultRow& r) { return r.result->path_mtu > 0 ? std::optional(r.result->path_mtu) : std::nullopt; });
    f("latency", "null: not measured", result(&PairResult::latency));
    f("forward", "from a to b; null: not measured", result(&PairResult::forward));
    f("backward", "from b to a; null: not measured", result(&PairResult::backward));
    f("both", "both ways at once, the sum; null: not measured", result(&PairResult::both));
    f("notes", "what explains a slow result", result(&PairResult::notes));
}

struct FaultRow {
    const PairsReport* report;
    const PairsFault* fault;
};

void fields(auto& f, Row<FaultRow> /*row*/) {
    const auto fault = fields_of(&FaultRow::fault);
    f("kind", "node, rail, link, direction, both ways, all slow, failed, ...",
      [](const FaultRow& r) { return name_of(r.fault->kind); });
    f("nodes", "whose fault it is, or between which it lies",
      [](const FaultRow& r) { return names_of(*r.report, r.fault->nodes); });
    f("rail", "index; null: on all rails", fault(&PairsFault::rail));
    f("text", "in words", fault(&PairsFault::text));
}

struct JudgementRow {
    const PairsReport* report;
    const PairsVerdict* verdict;
};

void fields(auto& f, Row<JudgementRow> /*row*/) {
    const auto verdict = fields_of(&JudgementRow::verdict);
    f("verdict", "good, slow, failed or nothing measured",
      [](const JudgementRow& r) { return verdict_word(*r.verdict); });
    f("median_gbps", "of all directions measured, Gb/s; null: none was", verdict(&PairsVerdict::median_gbps));
    f("mad_gbps", "median absolute deviation, Gb/s; null: nothing was measured", verdict(&PairsVerdict::mad_gbps));
    f("median_latency_us", "microseconds; null: not measured", verdict(&PairsVerdict::median_latency_us));
    f("faults", "the worst first", [](const JudgementRow& r) {
        std::vector<FaultRow> rows;
        rows.reserve(r.verdict->faults.size());
        for (const auto& fault : r.verdict->faults) {
            rows.push_back({r.report, &fault});
        }
        return rows;
    });
    f("suspects", "nodes", [](const JudgementRow& r) { return names_of(*r.report, r.verdict->suspects); });
    f("suspects_hostlist", "as Slurm's options take it; empty: no suspects",
      [](const JudgementRow& r) { return suspects_hostlist(*r.report, *r.verdict); });
    f("notes", "what limits the judgement", verdict(&PairsVerdict::notes));
    f("exit_code", "0 good, 1 slow, 2 failed or wrong data, 3 nothing was measured", verdict(&PairsVerdict::exit_code));
}

struct PairsRow {
    const PairsReport* report;
    const PairsVerdict* verdict;
};

void fields(auto& f, Row<PairsRow> /*row*/) {
    const auto report = fields_of(&PairsRow::report);
    f("schema", "1", [](const PairsRow& /*r*/) { return 1U; });
    f("schedule", "all, quick, ring, bisection or loopback", report(&PairsReport::schedule));
    f("started", "ISO 8601", report(&PairsReport::started));
    f("seconds", "it took", report(&PairsReport::seconds));
    f("ended_early", "interrupted, time limit; empty: it was not", report(&PairsReport::ended_early));
    f("planned", "pairings; more than results: it was ended before", report(&PairsReport::planned));
    f("on_gpu", "memory of GPUs", report(&PairsReport::on_gpu));
    f("with_tcp", "TCP was measured, too", report(&PairsReport::with_tcp));
    f("measure", "how each pairing is measured", report(&PairsReport::measure));
    f("judgement", "what is slow", [](const PairsRow& r) { return JudgementRow{r.report, r.verdict}; });
    f("nodes", "", [](const PairsRow& r) {
        std::vector<NodeRow> rows;
        rows.reserve(r.report->nodes.size());
        for (std::size_t i = 0; i < r.report->nodes.size(); ++i) {
            rows.push_back({&r.report->nodes[i], item_or_default(r.verdict->nodes, i)});
        }
        return rows;
    });
    f("results", "of each pairing", [](const PairsRow& r) {
        std::vector<ResultRow> rows;
        rows.reserve(r.report->results.size());
        for (std::size_t i = 0; i < r.report->results.size(); ++i) {
            rows.push_back({r.report, &r.report->results[i], item_or_default(r.verdict->results, i)});
        }
        return rows;
    });
}

// --- CSV ---

struct Line {
    const PairsReport* report;
    const PairResult* result;
    PairState state;
    unsigned from, to, from_rail, to_rail;
    std::string_view direction;
    const std::optional<PairBandwidth>* bandwidth;
};

std::string port_of(const PairsReport& report, unsigned node, unsigned rail) {
    return rail_name(report.nodes.at(node).rails.at(rail));
}

/// Returns the function that reads a figure; nullopt if it was not measured.
auto figure(auto part, auto member) {
    return [=](const Line& line) {
        const auto measured = part(line);
        return measured ? std::optional(std::invoke(member, *measured)) : std::nullopt;
    };
}

void fields(auto& f, Row<Line> /*row*/) {
    const auto result = fields_of(&Line::result);
    const auto bandwidth = [](auto member) { return figure([](const Line& l) { return *l.bandwidth; }, member); };
    const auto latency = [](auto member) { return figure([](const Line& l) { return l.result->latency; }, member); };
    f("round", "from 0", result(&PairResult::round));
    f("retest", "measured again with a good partner", result(&PairResult::retest));
    f("from", "node", [](const Line& l) { return l.report->nodes.at(l.from).name; });
    f("from_port", "mlx5_1:1", [](const Line& l) { return port_of(*l.report, l.from, l.from_rail); });
    f("to", "node", [](const Line& l) { return l.report->nodes.at(l.to).name; });
    f("to_port", "mlx5_1:1", [](const Line& l) { return port_of(*l.report, l.to, l.to_rail); });
    f("direction", "one way, both ways (at once, the sum) or loopback", &Line::direction);
    f("state", "of the pair: unknown, good, slow or failed", [](const Line& l) { return name_of(l.state); });
    f("gbps", "payload, Gb/s; empty: not measured", bandwidth(&PairBandwidth::gbps));
    f("bytes", "sent in all", bandwidth(&PairBandwidth::bytes));
    f("counted_share", "of bytes, what the port's counters saw sent; empty: it has none",
      [](const Line& l) { return *l.bandwidth ? (*l.bandwidth)->counted_share : std::nullopt; });
    f("tcp_gbps", "TCP between the same ports, Gb/s; empty: not measured",
      [](const Line& l) { return *l.bandwidth ? (*l.bandwidth)->tcp_gbps : std::nullopt; });
    f("latency_min_us", "half a round trip, microseconds; empty: not measured", latency(&PairLatency::min_us));
    f("latency_median_us", "", latency(&PairLatency::median_us));
    f("latency_p99_us", "", latency(&PairLatency::p99_us));
    f("path_mtu", "bytes; empty: not agreed",
      [](const Line& l) { return l.result->path_mtu > 0 ? std::optional(l.result->path_mtu) : std::nullopt; });
    f("data_correct", "empty: not looked at", result(&PairResult::data_correct));
    f("problem", "why nothing, or not all, was measured", result(&PairResult::problem));
    f("notes", "what explains a slow result", [](const Line& l) { return joined(l.result->notes, "; "); });
}

} // namespace

Json pairs_json(const PairsReport& report, const PairsVerdict& verdict) {
    return report_json(PairsRow{&report, &verdict});
}

Json pairs_schema() {
    return report_schema<PairsRow>();
}

std::string pairs_csv(const PairsReport& report, const PairsVerdict& verdict) {
    std::string text = report_csv_names<Line>() + "\r\n";
    const auto add = [&text](const Line& line) { text += report_csv(line) + "\r\n"; };
    for (std::size_t i = 0; i < report.results.size(); ++i) {
        const auto& result = report.results[i];
        const auto state = item_or_default(verdict.results, i);
        const auto& [a, b, rail_a, rail_b] = result.pairing;
        add({&report, &result, state, a, b, rail_a, rail_b, a == b ? "loopback" : "one way", &result.forward});
        if (a != b) {
            add({&report, &result, state, b, a, rail_b, rail_a, "one way", &result.backward});
        }
        if (result.both) {
            add({&report, &result, state, a, b, rail_a, rail_b, "both ways", &result.both});
        }
    }
    return text;
}

} // namespace rdma_nccl
