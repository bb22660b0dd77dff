// SPDX-License-Identifier: Apache-2.0
// The JSON and the CSV of a report.
#include "lib/base/json.h"
#include "lib/base/lists.h"
#include "lib/base/report_fields.h"
#include "lib/base/text.h"
#include "tools/measure/rails.h"
#include "tools/pairs/output.h"
#include "tools/verbs/rail.h"

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

static void fields(auto& f, Row<PairRail> /*row*/) {
    f("port", "HCA and port: mlx5_1:1", [](const PairRail& r) { return measure::rail_name(r); });
    f("link_layer", "Ethernet (RoCE) or InfiniBand",
      [](const PairRail& r) { return r.ethernet ? "Ethernet" : "InfiniBand"; });
    f("gid_index", "of the entry used; 0 on InfiniBand", &PairRail::gid_index);
    f("gid", "as text, ::ffff:10.77.1.1; empty: not known", &PairRail::gid);
    f("rate_gbps", "of the link, Gb/s; null: not known",
      [](const PairRail& r) { return r.rate_gbps > 0 ? std::optional(r.rate_gbps) : std::nullopt; });
    f("netdev", "of the port; empty: none", &PairRail::netdev);
    f("netdev_mtu", "bytes; 0: no netdev", &PairRail::netdev_mtu);
    f("network", "of the GID's address; empty: none", &PairRail::network);
    f("address", "an IP address of the netdev, for TCP; empty: none", &PairRail::address);
    f("numa_node", "null: not known", &PairRail::numa_node);
    f("software", "Soft-RoCE or siw: what is measured is the CPU", &PairRail::software);
}

static void fields(auto& f, Row<PairLatency> /*row*/) {
    f("min_us", "half a round trip, microseconds", &PairLatency::min_us);
    f("median_us", "", &PairLatency::median_us);
    f("p99_us", "of 100, 99 are not longer", &PairLatency::p99_us);
    f("p999_us", "of 1000, 999 are not longer", &PairLatency::p999_us);
    f("max_us", "", &PairLatency::max_us);
    f("round_trips", "that were measured", &PairLatency::round_trips);
}

namespace pairs {

static void fields(auto& f, Row<Bandwidth> /*row*/) {
    f("gbps", "payload, Gb/s, over the steady part", &Bandwidth::gbps);
    f("bytes", "sent in all", &Bandwidth::bytes);
    f("counted_share", "of bytes, what the port's counters saw sent; null: it has none", &Bandwidth::counted_share);
    f("tcp_gbps", "TCP between the same ports, Gb/s; null: not measured", &Bandwidth::tcp_gbps);
}

static void fields(auto& f, Row<Measurement> /*row*/) {
    f("seconds", "for each direction", [](const Measurement& m) { return static_cast<double>(m.time.count()) / 1000; });
    f("message_size", "bytes of one write", &Measurement::message_size);
    f("queue_pairs", "", &Measurement::queue_pairs);
    f("depth", "writes in flight, on each queue pair", &Measurement::depth);
    f("traffic_class", "of RoCE packets: four times the DSCP", &Measurement::traffic_class);
    f("service_level", "of InfiniBand", &Measurement::service_level);
}

namespace {

std::vector<std::string> names_of(const Report& report, const std::vector<unsigned>& nodes) {
    return mapped(nodes, [&](unsigned node) { return report.nodes.at(node).name; });
}

/// Returns, for a worker of this part of a row, the function that reads it.
template<typename R, typename Part>
auto fields_of(Part R::*part) {
    return
        [part](auto worker) { return [=](const R& row) -> decltype(auto) { return std::invoke(worker, row.*part); }; };
}

struct NodeRow {
    const measure::Node* node;
    const NodeScore* score;
};

void fields(auto& f, Row<NodeRow> /*row*/) {
    const auto node = fields_of(&NodeRow::node);
    const auto score = fields_of(&NodeRow::score);
    f("name", "", node(&measure::Node::name));
    f("problem", "why it takes no part; empty: it does", node(&measure::Node::problem));
    f("clique", "within which NVLink reaches other nodes; null: none is known", node(&measure::Node::clique));
    f("state", "unknown, good, slow or failed", [](const NodeRow& r) { return name_of(r.score->state); });
    f("sends_gbps", "median over its pairs, Gb/s; null: not measured", score(&NodeScore::sends_gbps));
    f("receives_gbps", "median over its pairs, Gb/s; null: not measured", score(&NodeScore::receives_gbps));
    f("latency_us", "median over its pairs, microseconds; null: not measured", score(&NodeScore::latency_us));
    f("pairs", "that it was in", score(&NodeScore::pairs));
    f("slow", "of its pairs", score(&NodeScore::slow));
    f("failed", "of its pairs", score(&NodeScore::failed));
    f("rails", "its ports in use", node(&measure::Node::rails));
}

std::string port_of(const Report& report, unsigned node, unsigned rail) {
    return measure::rail_name(report.nodes.at(node).rails.at(rail));
}

struct EndRow {
    const Report* report;
    unsigned node, rail;
};

void fields(auto& f, Row<EndRow> /*row*/) {
    f("node", "its name", [](const EndRow& r) { return r.report->nodes.at(r.node).name; });
    f("port", "HCA and port: mlx5_1:1", [](const EndRow& r) { return port_of(*r.report, r.node, r.rail); });
    f("rail", "index of the port in the node's rails, which are in the order of the HCAs' PCI addresses",
      &EndRow::rail);
}

struct ResultRow {
    const Report* report;
    const PairingResult* result;
    ResultState state;
};

void fields(auto& f, Row<ResultRow> /*row*/) {
    const auto result = fields_of(&ResultRow::result);
    f("a", "one end", [](const ResultRow& r) {
        return EndRow{r.report, r.result->pairing.a, r.result->pairing.rail_a};
    });
    f("b", "the other; of a loopback the same", [](const ResultRow& r) {
        return EndRow{r.report, r.result->pairing.b, r.result->pairing.rail_b};
    });
    f("round", "from 0; those of a round ran at the same time", result(&PairingResult::round));
    f("retest", "measured again with a good partner", result(&PairingResult::retest));
    f("state", "unknown (measured again later, too), good, slow or failed",
      [](const ResultRow& r) { return name_of(r.state); });
    f("problem", "why nothing, or not all, was measured; empty: all was", result(&PairingResult::problem));
    f("fault_of", "the node at which the problem lies; null: none, or not known", [](const ResultRow& r) {
        return r.result->fault_of ? std::optional(r.report->nodes.at(*r.result->fault_of).name) : std::nullopt;
    });
    f("data_correct", "what arrived is what was sent; null: not looked at", result(&PairingResult::data_correct));
    f("path_mtu", "bytes, as both ports agreed; null: not agreed",
      [](const ResultRow& r) { return r.result->path_mtu > 0 ? std::optional(r.result->path_mtu) : std::nullopt; });
    f("latency", "null: not measured", result(&PairingResult::latency));
    f("forward", "from a to b; null: not measured", result(&PairingResult::forward));
    f("backward", "from b to a; null: not measured", result(&PairingResult::backward));
    f("both", "both ways at once, the sum; null: not measured", result(&PairingResult::both));
    f("notes", "what explains a slow result", result(&PairingResult::notes));
}

struct FaultRow {
    const Report* report;
    const Fault* fault;
};

void fields(auto& f, Row<FaultRow> /*row*/) {
    const auto fault = fields_of(&FaultRow::fault);
    f("kind", "node, rail, link, direction, both ways, all slow, failed, ...",
      [](const FaultRow& r) { return name_of(r.fault->kind); });
    f("nodes", "whose fault it is, or between which it lies",
      [](const FaultRow& r) { return names_of(*r.report, r.fault->nodes); });
    f("rail", "index; null: on all rails", fault(&Fault::rail));
    f("text", "in words", fault(&Fault::text));
}

struct ReportRow {
    const Report* report;
    const Verdict* verdict;
};
struct JudgementRow : ReportRow {};

void fields(auto& f, Row<JudgementRow> /*row*/) {
    const auto verdict = fields_of(&JudgementRow::verdict);
    f("verdict", "good, slow, failed or nothing measured",
      [](const JudgementRow& r) { return verdict_word(*r.verdict); });
    f("median_gbps", "of all directions measured, Gb/s; null: none was", verdict(&Verdict::median_gbps));
    f("mad_gbps", "median absolute deviation, Gb/s; null: nothing was measured", verdict(&Verdict::mad_gbps));
    f("median_latency_us", "microseconds; null: not measured", verdict(&Verdict::median_latency_us));
    f("faults", "the worst first", [](const JudgementRow& r) {
        return mapped(r.verdict->faults, [&](const Fault& fault) { return FaultRow{r.report, &fault}; });
    });
    f("suspects", "nodes", [](const JudgementRow& r) { return names_of(*r.report, r.verdict->suspects); });
    f("suspects_hostlist", "as Slurm's options take it; empty: no suspects",
      [](const JudgementRow& r) { return suspects_hostlist(*r.report, *r.verdict); });
    f("notes", "what limits the judgement", verdict(&Verdict::notes));
    f("exit_code", "0 good, 1 slow, 2 failed or wrong data, 3 nothing was measured", verdict(&Verdict::exit_code));
}

void fields(auto& f, Row<ReportRow> /*row*/) {
    const auto report = fields_of(&ReportRow::report);
    f("schema", "1", [](const ReportRow& /*r*/) { return 1U; });
    f("schedule", "all, quick, ring, bisection or loopback", report(&Report::schedule));
    f("started", "ISO 8601", report(&Report::started));
    f("seconds", "it took", report(&Report::seconds));
    f("ended_early", "interrupted, time limit; empty: it was not", report(&Report::ended_early));
    f("planned", "pairings; more than results: it was ended before", report(&Report::planned));
    f("on_gpu", "memory of GPUs", report(&Report::on_gpu));
    f("with_tcp", "TCP was measured, too", report(&Report::with_tcp));
    f("measure", "how each pairing is measured", report(&Report::measure));
    f("judgement", "what is slow", [](const ReportRow& r) { return JudgementRow{r}; });
    f("nodes", "", [](const ReportRow& r) {
        return mapped(r.report->nodes, r.verdict->nodes, [](const measure::Node& node, const NodeScore& score) {
            return NodeRow{&node, &score};
        });
    });
    f("results", "of each pairing", [](const ReportRow& r) {
        return mapped(r.report->results, r.verdict->results, [&](const PairingResult& result, ResultState state) {
            return ResultRow{r.report, &result, state};
        });
    });
}

// --- CSV ---

struct Line {
    const Report* report;
    const PairingResult* result;
    ResultState state;
    Direction way;
    std::string_view direction;
};

void fields(auto& f, Row<Line> /*row*/) {
    const auto result = fields_of(&Line::result);
    const auto bandwidth = [](auto figure) {
        return [=](const Line& l) { return figure_of(*l.way.bandwidth, figure); };
    };
    const auto latency = [](auto figure) {
        return [=](const Line& l) { return figure_of(l.result->latency, figure); };
    };
    f("round", "from 0", result(&PairingResult::round));
    f("retest", "measured again with a good partner", result(&PairingResult::retest));
    f("from", "node", [](const Line& l) { return l.report->nodes.at(l.way.from).name; });
    f("from_port", "mlx5_1:1", [](const Line& l) { return port_of(*l.report, l.way.from, l.way.from_rail); });
    f("to", "node", [](const Line& l) { return l.report->nodes.at(l.way.to).name; });
    f("to_port", "mlx5_1:1", [](const Line& l) { return port_of(*l.report, l.way.to, l.way.to_rail); });
    f("direction", "one way, both ways (at once, the sum) or loopback", &Line::direction);
    f("state", "of the pair: unknown, good, slow or failed", [](const Line& l) { return name_of(l.state); });
    f("gbps", "payload, Gb/s; empty: not measured", bandwidth(&Bandwidth::gbps));
    f("bytes", "sent in all", bandwidth(&Bandwidth::bytes));
    f("counted_share", "of bytes, what the port's counters saw sent; empty: it has none",
      bandwidth(&Bandwidth::counted_share));
    f("tcp_gbps", "TCP between the same ports, Gb/s; empty: not measured", bandwidth(&Bandwidth::tcp_gbps));
    f("latency_min_us", "half a round trip, microseconds; empty: not measured", latency(&PairLatency::min_us));
    f("latency_median_us", "", latency(&PairLatency::median_us));
    f("latency_p99_us", "", latency(&PairLatency::p99_us));
    f("path_mtu", "bytes; empty: not agreed",
      [](const Line& l) { return l.result->path_mtu > 0 ? std::optional(l.result->path_mtu) : std::nullopt; });
    f("data_correct", "empty: not looked at", result(&PairingResult::data_correct));
    f("problem", "why nothing, or not all, was measured", result(&PairingResult::problem));
    f("notes", "what explains a slow result", [](const Line& l) { return joined(l.result->notes, "; "); });
}

} // namespace

Json format_json(const Report& report, const Verdict& verdict) {
    return report_json(ReportRow{&report, &verdict});
}

Json json_schema() {
    return report_schema<ReportRow>();
}

std::string format_csv(const Report& report, const Verdict& verdict) {
    std::string text = report_csv_names<Line>() + "\r\n";
    for (std::size_t i = 0; i < report.results.size(); ++i) {
        const auto& result = report.results[i];
        const auto& [a, b, rail_a, rail_b] = result.pairing;
        const auto add = [&](const Direction& way, std::string_view direction) {
            text += report_csv(Line{&report, &result, verdict.results.at(i), way, direction}) + "\r\n";
        };
        const auto [forward, backward] = directions_of(result);
        add(forward, a == b ? "loopback" : "one way");
        if (a != b) {
            add(backward, "one way");
        }
        if (result.both) {
            add({a, rail_a, b, rail_b, &result.both}, "both ways");
        }
    }
    return text;
}

} // namespace pairs

} // namespace rdma_nccl
