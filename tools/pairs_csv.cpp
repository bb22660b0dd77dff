// SPDX-License-Identifier: Apache-2.0
#include "lib/format.h"
#include "lib/text.h"
#include "tools/pairs_node.h"
#include "tools/pairs_output.h"
#include "tools/pairs_words.h"

#include <string_view>

namespace rdma_nccl {

namespace {

/// RFC 4180: what has commas, quotes or line ends stands in quotes. A spreadsheet takes a text that begins with one of
/// "=+-@" for a formula: of what nodes say of themselves none may.
std::string field(std::string_view text) {
    std::string safe = text.find_first_of("=+-@") == 0 ? "'" : "";
    safe += text;
    if (safe.find_first_of(",\"\r\n") == std::string::npos) {
        return safe;
    }
    std::string quoted = "\"";
    for (const char c : safe) {
        quoted += c == '"' ? "\"\"" : std::string(1, c);
    }
    return quoted + "\"";
}

template<typename T>
std::string number(const std::optional<T>& value) {
    return value ? format_text("{:.6g}", static_cast<double>(*value)) : "";
}

struct Line {
    unsigned from, to, from_rail, to_rail;
    std::string_view direction;
    const std::optional<PairBandwidth>& bandwidth;
};

std::string port_of(const PairsReport& report, unsigned node, unsigned rail) {
    return rail_name(report.nodes.at(node).rails.at(rail));
}

std::string line_text(const PairsReport& report, const PairResult& result, PairState state, const Line& line) {
    const auto& bandwidth = line.bandwidth;
    const auto& latency = result.latency;
    std::string text;
    const auto add = [&text](const std::string& value) { text += (text.empty() ? "" : ",") + value; };
    add(format_text("{}", result.round));
    add(result.retest ? "yes" : "no");
    add(field(report.nodes.at(line.from).name));
    add(field(port_of(report, line.from, line.from_rail)));
    add(field(report.nodes.at(line.to).name));
    add(field(port_of(report, line.to, line.to_rail)));
    add(std::string(line.direction));
    add(std::string(name_of(state)));
    add(bandwidth ? number(std::optional(bandwidth->gbps)) : "");
    add(bandwidth ? format_text("{}", bandwidth->bytes) : "");
    add(bandwidth ? number(bandwidth->counted_share) : "");
    add(bandwidth ? number(bandwidth->tcp_gbps) : "");
    add(latency ? number(std::optional(latency->min_us)) : "");
    add(latency ? number(std::optional(latency->median_us)) : "");
    add(latency ? number(std::optional(latency->p99_us)) : "");
    add(result.path_mtu > 0 ? format_text("{}", result.path_mtu) : "");
    add(!result.data_correct ? "" : *result.data_correct ? "yes" : "no");
    add(field(result.problem));
    add(field(joined(result.notes, "; ")));
    return text + "\r\n";
}

} // namespace

std::string pairs_csv(const PairsReport& report, const PairsVerdict& verdict) {
    std::string text = "round,retest,from,from_port,to,to_port,direction,state,gbps,bytes,counted_share,tcp_gbps,"
                       "latency_min_us,latency_median_us,latency_p99_us,path_mtu,data_correct,problem,notes\r\n";
    for (std::size_t i = 0; i < report.results.size(); ++i) {
        const auto& result = report.results[i];
        const auto state = i < verdict.results.size() ? verdict.results[i] : PairState::Unknown;
        const auto& [a, b, rail_a, rail_b] = result.pairing;
        text +=
            line_text(report, result, state, {a, b, rail_a, rail_b, a == b ? "loopback" : "one way", result.forward});
        if (a != b) {
            text += line_text(report, result, state, {b, a, rail_b, rail_a, "one way", result.backward});
        }
        if (result.both) {
            text += line_text(report, result, state, {a, b, rail_a, rail_b, "both ways", result.both});
        }
    }
    return text;
}

} // namespace rdma_nccl
