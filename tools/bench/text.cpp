// SPDX-License-Identifier: Apache-2.0
#include "lib/base/text.h"
#include "lib/base/format.h"
#include "tools/bench/output.h"

#include <algorithm>

namespace rdma_nccl::bench {

namespace {

/// Formats a number for a narrow column as nccl-tests do: two decimals, as long as there is room.
std::string narrow(double value, std::size_t width) {
    for (const int digits : {2, 1, 0}) {
        auto text = format_text("{:.{}f}", value, digits);
        if (text.size() <= width) {
            return text;
        }
    }
    return format_text("{:.1e}", value);
}

std::string times_text(const Times& times) {
    return format_text("  {:>7}  {:>6}  {:>6}  {:>6}", narrow(times.time_us, 7), narrow(times.algbw, 6),
                       narrow(times.busbw, 6), times.wrong ? format_text("{}", *times.wrong) : "N/A");
}

/// Returns half the difference between the slowest and the fastest repeat, in percent of the median.
std::string spread_text(const Times& times) {
    constexpr double percent = 100;
    return times.time_us > 0 ? narrow((times.max_us - times.min_us) / 2 / times.time_us * percent, 5) : "-";
}

/// The spread comes last, so that the columns before it stay where programs that read nccl-tests' output expect them.
std::string row_text(const ResultRow& row) {
    constexpr std::size_t width_of_times = 33;
    return format_text("{:>12}  {:>12}  {:>8}  {:>6}  {:>6}{}{}  {:>5}\n", row.bytes, row.count, row.type, row.redop,
                       row.root, times_text(row.out_of_place),
                       row.in_place ? times_text(*row.in_place) : std::string(width_of_times, ' '),
                       spread_text(row.out_of_place));
}

/// Returns nccl-tests' last lines for one operation.
std::string footer_text(const Run& run, const std::string& operation) {
    std::uint64_t wrong = 0;
    bool checked = false;
    double sum = 0;
    unsigned count = 0;
    for (const auto& row : run.rows) {
        if (row.operation == operation) {
            wrong += row.wrong();
            checked = checked || row.out_of_place.wrong || (row.in_place && row.in_place->wrong);
            sum = sum + row.out_of_place.busbw + (row.in_place ? row.in_place->busbw : 0);
            count += row.in_place ? 2U : 1U;
        }
    }
    return format_text("# Out of bounds values : {}\n# Avg bus bandwidth    : {:g}\n",
                       !checked ? "N/A" : format_text("{} {}", wrong, wrong == 0 ? "OK" : "FAILED"),
                       count > 0 ? sum / count : 0);
}

constexpr std::string_view columns =
    "#                                                              out-of-place                       in-place\n"
    "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  "
    "#wrong     +-\n"
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)    "
    "        (%)\n";

std::string run_text(const Report& report, const Run& run) {
    std::string text =
        format_text("# {}: {} on {}, {}", run.name, format_count(run.ranks, report.host ? "rank" : "GPU"),
                    format_count(run.nodes, "node"), run.what);
    for (const auto& [name, value] : run.variables) {
        text += format_text(" {}={}", name, value);
    }
    text += run.library.empty() ? "\n" : format_text(", {}\n", run.library);
    std::string operation;
    for (const auto& row : run.rows) {
        if (row.operation != operation) {
            text += operation.empty() ? "" : footer_text(run, operation);
            operation = row.operation;
            text += format_text("# {}\n", operation);
            text += columns;
        }
        text += row_text(row);
    }
    text += operation.empty() ? "" : footer_text(run, operation);
    if (!run.problem.empty()) {
        text += format_text("# failed: {}\n", run.problem);
    }
    if (run.verdict && run.nodes > 1) {
        text += format_text("# {}\n", verdict_line(*run.verdict));
    }
    return text + "\n";
}

std::string figure(const std::optional<Bandwidth>& bandwidth, double Bandwidth::*which) {
    return bandwidth ? format_text("{:.1f}", (*bandwidth).*which) : "-";
}

std::string summary_text(const Report& report, const std::vector<SummaryLine>& lines) {
    const bool with_c = std::ranges::any_of(lines, [](const auto& line) { return line.no_gpu_direct.has_value(); });
    std::vector<TableRow> rows = {
        {report.host ? "RANKS" : "GPUS", "NODES", "SIZE", "RDMA", "ALGBW", "NO RDMA", "ALGBW"}};
    if (with_c) {
        rows.front().emplace_back("NO GPUDIRECT");
    }
    rows.front().insert(rows.front().end(), {"RATIO", "VERDICT"});
    for (const auto& line : lines) {
        TableRow row = {format_text("{}", line.ranks),
                        format_text("{}", line.nodes),
                        format_bytes(line.bytes),
                        figure(line.with_rdma, &Bandwidth::busbw),
                        figure(line.with_rdma, &Bandwidth::algbw),
                        figure(line.without_rdma, &Bandwidth::busbw),
                        figure(line.without_rdma, &Bandwidth::algbw)};
        if (with_c) {
            row.push_back(figure(line.no_gpu_direct, &Bandwidth::busbw));
        }
        row.push_back(line.ratio ? format_text("{:.2f}", *line.ratio) : "-");
        row.push_back(joined(line.notes, "; "));
        rows.push_back(std::move(row));
    }
    return format_text("{}, Gb/s: bus bandwidth, and algorithm's beside it\n{}", lines.front().operation,
                       aligned_table(rows));
}

} // namespace

std::string write_text(const Report& report, const Summary& summary) {
    std::string text;
    for (const auto& run : report.runs) {
        text += run_text(report, run);
    }
    for (auto first = summary.lines.begin(); first != summary.lines.end();) {
        const auto last = std::find_if(first, summary.lines.end(),
                                       [&](const auto& line) { return line.operation != first->operation; });
        text += summary_text(report, {first, last}) + (last == summary.lines.end() ? "" : "\n");
        first = last;
    }
    if (!report.ended_early.empty() && !report.runs.empty()) {
        text += format_text("ended early: {}\n", report.ended_early);
    }
    return text;
}

} // namespace rdma_nccl::bench
