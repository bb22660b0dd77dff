// SPDX-License-Identifier: Apache-2.0
#include "lib/base/report_fields.h"
#include "lib/base/text.h"
#include "tools/measure/rails.h"
#include "tools/pairs/fault_messages.h"
#include "tools/pairs/output.h"
#include "tools/verbs/latency.h"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace rdma_nccl {

namespace {

struct Line {
    const PairsReport& report;
    const PairResult& result;
    PairState state;
    unsigned from, to, from_rail, to_rail;
    std::string_view direction;
    const std::optional<PairBandwidth>& bandwidth;
};

std::string port_of(const PairsReport& report, unsigned node, unsigned rail) {
    return rail_name(report.nodes.at(node).rails.at(rail));
}

/// Returns a figure, or nullopt if it was not measured.
template<typename T, typename Figure>
std::optional<Figure> figure_of(const std::optional<T>& measured, Figure T::*figure) {
    return measured ? std::optional<Figure>((*measured).*figure) : std::nullopt;
}

void fields(auto& f, Row<Line> /*row*/) {
    f("round", "from 0", [](const Line& l) { return l.result.round; });
    f("retest", "measured again with a good partner", [](const Line& l) { return l.result.retest; });
    f("from", "node", [](const Line& l) { return l.report.nodes.at(l.from).name; });
    f("from_port", "mlx5_1:1", [](const Line& l) { return port_of(l.report, l.from, l.from_rail); });
    f("to", "node", [](const Line& l) { return l.report.nodes.at(l.to).name; });
    f("to_port", "mlx5_1:1", [](const Line& l) { return port_of(l.report, l.to, l.to_rail); });
    f("direction", "one way, both ways (at once, the sum) or loopback", &Line::direction);
    f("state", "of the pair: unknown, good, slow or failed", [](const Line& l) { return name_of(l.state); });
    f("gbps", "payload, Gb/s; empty: not measured",
      [](const Line& l) { return figure_of(l.bandwidth, &PairBandwidth::gbps); });
    f("bytes", "sent in all", [](const Line& l) { return figure_of(l.bandwidth, &PairBandwidth::bytes); });
    f("counted_share", "of bytes, what the port's counters saw sent; empty: it has none",
      [](const Line& l) { return l.bandwidth ? l.bandwidth->counted_share : std::nullopt; });
    f("tcp_gbps", "TCP between the same ports, Gb/s; empty: not measured",
      [](const Line& l) { return l.bandwidth ? l.bandwidth->tcp_gbps : std::nullopt; });
    f("latency_min_us", "half a round trip, microseconds; empty: not measured",
      [](const Line& l) { return figure_of(l.result.latency, &PairLatency::min_us); });
    f("latency_median_us", "", [](const Line& l) { return figure_of(l.result.latency, &PairLatency::median_us); });
    f("latency_p99_us", "", [](const Line& l) { return figure_of(l.result.latency, &PairLatency::p99_us); });
    f("path_mtu", "bytes; empty: not agreed",
      [](const Line& l) { return l.result.path_mtu > 0 ? std::optional(l.result.path_mtu) : std::nullopt; });
    f("data_correct", "empty: not looked at", [](const Line& l) { return l.result.data_correct; });
    f("problem", "why nothing, or not all, was measured", [](const Line& l) { return l.result.problem; });
    f("notes", "what explains a slow result", [](const Line& l) { return joined(l.result.notes, "; "); });
}

} // namespace

std::string pairs_csv(const PairsReport& report, const PairsVerdict& verdict) {
    std::string text = report_csv_names<Line>() + "\r\n";
    const auto add = [&text](const Line& line) { text += report_csv(line) + "\r\n"; };
    for (std::size_t i = 0; i < report.results.size(); ++i) {
        const auto& result = report.results[i];
        const auto state = i < verdict.results.size() ? verdict.results[i] : PairState::Unknown;
        const auto& [a, b, rail_a, rail_b] = result.pairing;
        add({report, result, state, a, b, rail_a, rail_b, a == b ? "loopback" : "one way", result.forward});
        if (a != b) {
            add({report, result, state, b, a, rail_b, rail_a, "one way", result.backward});
        }
        if (result.both) {
            add({report, result, state, a, b, rail_a, rail_b, "both ways", result.both});
        }
    }
    return text;
}

} // namespace rdma_nccl
