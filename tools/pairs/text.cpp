// SPDX-License-Identifier: Apache-2.0
#include "lib/base/text.h"
#include "lib/base/format.h"
#include "tools/measure/command.h"
#include "tools/pairs/fault_messages.h"
#include "tools/pairs/output.h"
#include "tools/pairs/samples.h"

#include <algorithm>
#include <cmath>

namespace rdma_nccl::pairs {

namespace {

/// Up to this many pairings are listed one by one.
constexpr std::size_t most_listed = 12;

std::string size_text(std::uint64_t bytes) {
    constexpr std::uint64_t kib = 1024;
    constexpr std::uint64_t mib = kib * kib;
    return bytes % mib == 0   ? format_text("{} MiB", bytes / mib)
           : bytes % kib == 0 ? format_text("{} KiB", bytes / kib)
                              : format_text("{} B", bytes);
}

std::string title(const Report& report) {
    const auto& measure = report.measure;
    const bool alone = report.nodes.size() == 1;
    auto text = format_text(
        "{} node{}, {}: {} of {} pairings in {}; {:g} s each way, writes of {} on {} queue pair{}{}\n",
        report.nodes.size(), alone ? "" : "s", report.schedule == "all" ? "all pairs" : report.schedule,
        report.results.size(), report.planned,
        measure::format_duration(std::chrono::milliseconds(static_cast<std::int64_t>(report.seconds * 1000))),
        static_cast<double>(measure.time.count()) / 1000, size_text(measure.message_size), measure.queue_pairs,
        measure.queue_pairs == 1 ? "" : "s", report.on_gpu ? ", memory of GPUs" : "");
    if (!report.ended_early.empty()) {
        text += format_text("Ended early: {}. The results below are incomplete.\n", report.ended_early);
    }
    return text;
}

std::string pairing_text(const Report& report, const Pairing& pairing) {
    const auto& [a, b, rail_a, rail_b] = pairing;
    const auto first = end_text(report, a, rail_a);
    return a == b ? first : format_text("{} - {}", first, end_text(report, b, rail_b));
}

std::string gbps_cell(const std::optional<Bandwidth>& bandwidth) {
    return bandwidth ? short_gbps(bandwidth->gbps) : "-";
}

std::string latency_cell(const PairingResult& result) {
    return result.latency ? format_text("{:.2f}", result.latency->median_us) : "-";
}

std::string counted_cell(const PairingResult& result) {
    const auto share = result.forward ? result.forward->counted_share : std::nullopt;
    return share ? format_text("{:.0f} %", 100 * *share) : "-";
}

std::string tcp_cell(const PairingResult& result) {
    const auto of = [](const std::optional<Bandwidth>& bandwidth) {
        return bandwidth && bandwidth->tcp_gbps ? short_gbps(*bandwidth->tcp_gbps) : "-";
    };
    return of(result.forward) + " / " + of(result.backward);
}

/// Lists each pairing with all its measurements.
std::string list(const Report& report) {
    const bool loopback = report.schedule == "loopback";
    std::vector<TableRow> rows{loopback ? TableRow{"NODE", "Gb/s"} : TableRow{"FROM", "TO", "->", "<-", "<->"}};
    auto& titles = rows.front();
    titles.insert(titles.end(), {"us", "MTU", "DATA", "COUNTED"});
    if (report.with_tcp && !loopback) {
        titles.emplace_back("TCP -> / <-");
    }
    std::vector<const PairingResult*> results;
    for (const auto& result : report.results) {
        results.push_back(&result);
    }
    std::ranges::stable_sort(results, {}, [](const PairingResult* result) { return result->pairing; });
    for (const PairingResult* const each : results) {
        const auto& result = *each;
        const auto& [a, b, rail_a, rail_b] = result.pairing;
        TableRow row{end_text(report, a, rail_a)};
        if (!loopback) {
            row.push_back(end_text(report, b, rail_b));
        }
        row.push_back(gbps_cell(result.forward));
        if (!loopback) {
            row.insert(row.end(), {gbps_cell(result.backward), gbps_cell(result.both)});
        }
        row.insert(row.end(), {latency_cell(result), result.path_mtu > 0 ? format_text("{}", result.path_mtu) : "-",
                               !result.data_correct   ? "-"
                               : *result.data_correct ? "correct"
                                                      : "WRONG",
                               counted_cell(result)});
        if (report.with_tcp && !loopback) {
            row.push_back(tcp_cell(result));
        }
        rows.push_back(std::move(row));
    }
    auto text = aligned_table(rows);
    for (const PairingResult* const result : results) {
        if (!result->problem.empty()) {
            text += format_text("  {}: {}\n", pairing_text(report, result->pairing), printable(result->problem, 400));
        }
        for (const auto& note : result->notes) {
            text += format_text("  {}: {}\n", pairing_text(report, result->pairing), printable(note, 200));
        }
    }
    return text;
}

/// `shares` has at least one.
std::string percent_range(const std::vector<double>& shares) {
    const auto [least, greatest] = std::ranges::minmax(shares);
    const auto low = std::lround(100 * least);
    const auto high = std::lround(100 * greatest);
    return low == high ? format_text("{} %", low) : format_text("{} to {} %", low, high);
}

void for_each_direction(const Report& report, const auto& call) {
    for (const auto& result : report.results) {
        for (const auto* bandwidth : {&result.forward, &result.backward}) {
            if (*bandwidth) {
                call(**bandwidth);
            }
        }
    }
}

std::string tcp_line(const Report& report, const Verdict& verdict) {
    std::vector<double> values;
    for_each_direction(report, [&](const Bandwidth& bandwidth) {
        if (bandwidth.tcp_gbps) {
            values.push_back(*bandwidth.tcp_gbps);
        }
    });
    const auto middle = quantile(std::move(values), 0.5);
    if (!middle) {
        return "";
    }
    auto text = format_text("TCP between the same ports: median {} Gb/s", short_gbps(*middle));
    if (verdict.median_gbps && *middle > 0) {
        text += format_text("; RDMA is {:.1f} times as fast", *verdict.median_gbps / *middle);
    }
    return text + "\n";
}

std::string sums(const Report& report, const Verdict& verdict) {
    std::string text;
    if (verdict.median_gbps) {
        text += format_text("Bandwidth: median {} Gb/s one way", short_gbps(*verdict.median_gbps));
        text += verdict.mad_gbps && report.results.size() > 1
                    ? format_text(", median deviation {}\n", short_gbps(*verdict.mad_gbps))
                    : "\n";
    }
    std::size_t checked = 0;
    std::size_t correct = 0;
    std::vector<double> counted;
    std::vector<double> latencies;
    for (const auto& result : report.results) {
        checked += result.data_correct ? 1U : 0U;
        correct += result.data_correct.value_or(false) ? 1U : 0U;
        if (result.latency) {
            latencies.push_back(result.latency->median_us);
        }
    }
    for_each_direction(report, [&](const Bandwidth& bandwidth) {
        if (bandwidth.counted_share) {
            counted.push_back(*bandwidth.counted_share);
        }
    });
    if (verdict.median_latency_us) {
        const auto [low, high] = std::ranges::minmax(latencies.empty() ? std::vector{0.0} : latencies);
        text += format_text("Latency: median {:.2f} us, {:.2f} to {:.2f} (half a round trip of 8 bytes)\n",
                            *verdict.median_latency_us, low, high);
    }
    if (checked > 0) {
        text += format_text("Data: correct in {} of {} pairings\n", correct, checked);
    }
    if (!counted.empty()) {
        text += format_text("Counters of the ports saw {} of the bytes sent\n", percent_range(counted));
    }
    return text + tcp_line(report, verdict);
}

/// One direction of one result.
struct Slowest {
    double gbps = 0;
    std::string from, to;
    const PairingResult* result = nullptr;
};

/// Lists results well below the median, the slowest first.
std::string worst(const Report& report, const Verdict& verdict, const TextOptions& options) {
    constexpr double worth_telling = 0.95;
    std::vector<Slowest> all;
    const auto add = [&](unsigned from, unsigned from_rail, unsigned to, unsigned to_rail,
                         const std::optional<Bandwidth>& bandwidth, const PairingResult& result) {
        if (bandwidth && verdict.median_gbps && bandwidth->gbps < worth_telling * *verdict.median_gbps) {
            all.push_back({bandwidth->gbps, end_text(report, from, from_rail), end_text(report, to, to_rail), &result});
        }
    };
    for (const auto& result : report.results) {
        const auto& [a, b, rail_a, rail_b] = result.pairing;
        add(a, rail_a, b, rail_b, result.forward, result);
        add(b, rail_b, a, rail_a, result.backward, result);
    }
    if (all.empty()) {
        return "";
    }
    const auto shown = std::min<std::size_t>(all.size(), options.most_worst);
    std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(shown), all.end(),
                      [](const Slowest& a, const Slowest& b) { return a.gbps < b.gbps; });
    std::vector<TableRow> rows{{"FROM", "TO", "Gb/s", "OF MEDIAN", "NOTES"}};
    for (std::size_t i = 0; i < shown; ++i) {
        const auto& each = all[i];
        rows.push_back({each.from, each.to, short_gbps(each.gbps),
                        format_text("{:.0f} %", 100 * each.gbps / *verdict.median_gbps),
                        each.result->notes.empty() ? "" : printable(each.result->notes.front(), 120)});
    }
    return format_text("Slowest ways{}\n", all.size() > shown ? format_text(", {} of {}", shown, all.size()) : "") +
           aligned_table(rows);
}

std::string judgement(const Report& report, const Verdict& verdict, bool colours) {
    std::string text;
    for (const auto& fault : verdict.faults) {
        text += format_text("{}\n", printable(fault.text, 400));
    }
    for (const auto& note : verdict.notes) {
        text += format_text("Note: {}\n", note);
    }
    const auto word = std::string(verdict_word(verdict));
    const std::string_view colour = verdict.exit_code == 0 ? "32" : verdict.exit_code == 1 ? "33" : "31";
    text += format_text("Verdict: {}", colours ? format_text("\x1b[1;{}m{}\x1b[0m", colour, word) : word);
    const auto suspects = suspects_hostlist(report, verdict);
    return text + (suspects.empty() ? "\n" : format_text("; suspects: {}\n", suspects));
}

} // namespace

std::string format_plain(const Report& report, const Verdict& verdict, const TextOptions& options) {
    std::vector<std::string> parts{title(report)};
    if (!report.results.empty()) {
        if (report.schedule != "loopback" && report.nodes.size() > 2) {
            parts.push_back(heat_table(report, verdict, options));
        }
        const bool listed = report.results.size() <= most_listed || report.schedule == "loopback";
        parts.push_back(listed ? list(report) : "");
        parts.push_back(sums(report, verdict));
        parts.push_back(listed ? "" : worst(report, verdict, options));
    }
    parts.push_back(judgement(report, verdict, options.colours));
    std::string text;
    for (const auto& part : parts) {
        text += (text.empty() || part.empty() ? "" : "\n") + part;
    }
    return text;
}

} // namespace rdma_nccl::pairs
