// SPDX-License-Identifier: Apache-2.0
#include "lib/base/text.h"
#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "tools/measure/command.h"
#include "tools/pairs/judging.h"
#include "tools/pairs/output.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>

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
    auto text = format_text("{}, {}: {} of {} pairings in {}; {:g} s each way, writes of {} on {}{}\n",
                            format_count(report.nodes.size(), "node"),
                            report.schedule == "all" ? "all pairs" : report.schedule, report.results.size(),
                            report.planned, measure::format_duration(measure::to_milliseconds(report.seconds)),
                            static_cast<double>(measure.time.count()) / 1000, size_text(measure.message_size),
                            format_count(measure.queue_pairs, "queue pair"), report.on_gpu ? ", memory of GPUs" : "");
    if (!report.ended_early.empty()) {
        text += format_text("Ended early: {}. The results below are incomplete.\n", report.ended_early);
    }
    return text;
}

std::string gbps_cell(const std::optional<double>& gbps) {
    return gbps ? short_gbps(*gbps) : "-";
}

/// A column of the list of pairings.
struct Column {
    std::string title;
    bool shown;
    std::function<std::string(const PairingResult&)> cell;
};

std::vector<Column> columns_of(const Report& report) {
    using Result = const PairingResult&;
    const bool loopback = report.schedule == "loopback";
    const auto gbps = [](std::optional<Bandwidth> PairingResult::*way) {
        return [way](Result r) { return gbps_cell(figure_of(r.*way, &Bandwidth::gbps)); };
    };
    const auto tcp = [](const std::optional<Bandwidth>& way) {
        return gbps_cell(figure_of(way, &Bandwidth::tcp_gbps));
    };
    const auto counted = [](Result r) { return figure_of(r.forward, &Bandwidth::counted_share); };
    return {
        {loopback ? "NODE" : "FROM", true,
         [&](Result r) { return name_of_end(report, r.pairing.a, r.pairing.rail_a); }},
        {"TO", !loopback, [&](Result r) { return name_of_end(report, r.pairing.b, r.pairing.rail_b); }},
        {loopback ? "Gb/s" : "->", true, gbps(&PairingResult::forward)},
        {"<-", !loopback, gbps(&PairingResult::backward)},
        {"<->", !loopback, gbps(&PairingResult::both)},
        {"us", true, [](Result r) { return r.latency ? format_text("{:.2f}", r.latency->median_us) : "-"; }},
        {"MTU", true, [](Result r) { return r.path_mtu > 0 ? format_text("{}", r.path_mtu) : "-"; }},
        {"DATA", true, [](Result r) { return !r.data_correct   ? "-"
                                             : *r.data_correct ? "correct"
                                                               : "WRONG"; }},
        {"COUNTED", true, [=](Result r) { return counted(r) ? percent_text(*counted(r)) : "-"; }},
        {"TCP -> / <-", report.with_tcp && !loopback,
         [=](Result r) { return format_text("{} / {}", tcp(r.forward), tcp(r.backward)); }},
    };
}

/// Lists each pairing with all its measurements.
std::string list(const Report& report) {
    auto columns = columns_of(report);
    std::erase_if(columns, [](const Column& column) { return !column.shown; });
    auto results = mapped(report.results, [](const PairingResult& result) { return &result; });
    std::ranges::stable_sort(results, {}, [](const PairingResult* result) { return result->pairing; });
    std::vector<TableRow> rows{mapped(columns, &Column::title)};
    std::string remarks;
    for (const auto* const result : results) {
        rows.push_back(mapped(columns, [&](const Column& column) { return column.cell(*result); }));
        const auto& pairing = result->pairing;
        const auto name = pairing.a == pairing.b ? name_of_end(report, pairing.a, pairing.rail_a)
                                                 : name_of_link(report, pairing, true, " - ");
        if (!result->problem.empty()) {
            remarks += format_text("  {}: {}\n", name, printable(result->problem, 400));
        }
        for (const auto& note : result->notes) {
            remarks += format_text("  {}: {}\n", name, printable(note, 200));
        }
    }
    return aligned_table(rows) + remarks;
}

/// `shares` has at least one.
std::string percent_range(const std::vector<double>& shares) {
    const auto [least, greatest] = std::ranges::minmax(shares);
    const auto low = std::lround(100 * least);
    const auto high = std::lround(100 * greatest);
    return low == high ? format_text("{} %", low) : format_text("{} to {} %", low, high);
}

/// Returns what was measured of a figure, of all directions.
std::vector<double> values_of(const Report& report, std::optional<double> Bandwidth::*figure) {
    std::vector<double> values;
    for (const auto& result : report.results) {
        for (const auto* const way : {&result.forward, &result.backward}) {
            if (const auto value = figure_of(*way, figure)) {
                values.push_back(*value);
            }
        }
    }
    return values;
}

std::string tcp_line(const Report& report, const Verdict& verdict) {
    const auto middle = quantile(values_of(report, &Bandwidth::tcp_gbps), 0.5);
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
    std::vector<double> latencies;
    for (const auto& result : report.results) {
        checked += result.data_correct ? 1U : 0U;
        correct += result.data_correct.value_or(false) ? 1U : 0U;
        if (result.latency) {
            latencies.push_back(result.latency->median_us);
        }
    }
    if (verdict.median_latency_us) {
        const auto [low, high] = std::ranges::minmax(latencies.empty() ? std::vector{0.0} : latencies);
        text += format_text("Latency: median {:.2f} us, {:.2f} to {:.2f} (half a round trip of 8 bytes)\n",
                            *verdict.median_latency_us, low, high);
    }
    if (checked > 0) {
        text += format_text("Data: correct in {} of {} pairings\n", correct, checked);
    }
    if (const auto counted = values_of(report, &Bandwidth::counted_share); !counted.empty()) {
        text += format_text("Counters of the ports saw {} of the bytes sent\n", percent_range(counted));
    }
    return text + tcp_line(report, verdict);
}

/// Lists results well below the median, the slowest first.
std::string worst(const Report& report, const Verdict& verdict, const TextOptions& options) {
    constexpr double worth_telling = 0.95;
    struct Slow {
        double gbps;
        Direction way;
        const PairingResult* result;
    };
    std::vector<Slow> all;
    for (const auto& result : report.results) {
        for (const auto& way : directions_of(result)) {
            const auto gbps = figure_of(*way.bandwidth, &Bandwidth::gbps);
            if (gbps && verdict.median_gbps && *gbps < worth_telling * *verdict.median_gbps) {
                all.push_back({*gbps, way, &result});
            }
        }
    }
    if (all.empty()) {
        return "";
    }
    const auto shown = std::min<std::size_t>(all.size(), options.most_worst);
    std::ranges::partial_sort(all, all.begin() + static_cast<std::ptrdiff_t>(shown), {}, &Slow::gbps);
    std::vector<TableRow> rows{{"FROM", "TO", "Gb/s", "OF MEDIAN", "NOTES"}};
    for (const auto& [gbps, way, result] : std::span(all).first(shown)) {
        rows.push_back({name_of_end(report, way.from, way.from_rail), name_of_end(report, way.to, way.to_rail),
                        short_gbps(gbps), percent_text(gbps / *verdict.median_gbps),
                        result->notes.empty() ? "" : printable(result->notes.front(), 120)});
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
