// SPDX-License-Identifier: Apache-2.0
#include "lib/format.h"
#include "tools/bench_output.h"
#include "tools/bench_work.h"
#include "tools/json.h"

#include <array>
#include <nlohmann/json.hpp>

namespace rdma_nccl {

namespace {

using Json = nlohmann::ordered_json;

constexpr int schema = 1;

Json bandwidth_json(const std::optional<BenchBandwidth>& bandwidth) {
    return bandwidth ? Json{{"bus_gbps", bandwidth->busbw}, {"alg_gbps", bandwidth->algbw}} : Json(nullptr);
}

std::string_view name_of(BenchState state) {
    constexpr std::array<std::string_view, 4> names{"good", "cannot tell", "warning", "critical"};
    return names.at(static_cast<std::size_t>(state));
}

Json line_json(const BenchLine& line) {
    return {{"operation", line.operation},
            {"ranks", line.ranks},
            {"nodes", line.nodes},
            {"size", line.bytes},
            {"rdma", bandwidth_json(line.with_rdma)},
            {"no_rdma", bandwidth_json(line.without_rdma)},
            {"no_gpu_direct", bandwidth_json(line.no_gpu_direct)},
            {"ratio", line.ratio ? Json(*line.ratio) : Json(nullptr)},
            {"state", name_of(line.state)},
            {"notes", texts_json(line.notes)}};
}

Json run_json(const BenchRun& run) {
    Json variables = Json::object();
    for (const auto& [name, value] : run.variables) {
        variables[name] = value;
    }
    Json rows = Json::array();
    for (const auto& row : run.rows) {
        rows.push_back(Json(row_json(row)));
    }
    return {{"name", run.name},
            {"what", run.what},
            {"rdma_meant", run.rdma_meant},
            {"ranks", run.ranks},
            {"nodes", run.nodes},
            {"variables", variables},
            {"library", json_ascii(run.library)},
            {"problem", json_ascii(run.problem)},
            {"verdict", run.verdict ? Json::parse(verdict_json(*run.verdict, 0, 0)) : Json(nullptr)},
            {"results", rows}};
}

std::string quoted(std::string_view text) {
    std::string out = "\"";
    for (const char c : text) {
        out += c;
        if (c == '"') {
            out += c;
        }
    }
    return out + "\"";
}

std::string times_csv(const BenchTimes& times) {
    return format_text(",{:.3f},{:.3f},{:.3f},{:.4f},{:.4f},{}", times.time_us, times.min_us, times.max_us, times.algbw,
                       times.busbw, times.wrong ? format_text("{}", *times.wrong) : "");
}

} // namespace

Json bench_json(const BenchReport& report, const BenchSummary& summary) {
    Json runs = Json::array();
    for (const auto& run : report.runs) {
        runs.push_back(run_json(run));
    }
    Json lines = Json::array();
    for (const auto& line : summary.lines) {
        lines.push_back(line_json(line));
    }
    return {{"schema", schema},
            {"started", report.started},
            {"seconds", report.seconds},
            {"ended_early", json_ascii(report.ended_early)},
            {"host_memory", report.host},
            {"software_rdma", report.software},
            {"nodes", texts_json(report.nodes)},
            {"gpus", texts_json(report.gpus)},
            {"state", name_of(summary.state)},
            {"summary", lines},
            {"runs", runs}};
}

std::string bench_csv(const BenchReport& report) {
    std::string text = "run,ranks,nodes,rdma_meant,rdma_used,operation,size,count,type,redop,root,"
                       "time_us,time_min_us,time_max_us,algbw,busbw,wrong,"
                       "in_place_time_us,in_place_time_min_us,in_place_time_max_us,in_place_algbw,in_place_busbw,"
                       "in_place_wrong\n";
    for (const auto& run : report.runs) {
        for (const auto& row : run.rows) {
            text += format_text("{},{},{},{},{},{},{},{},{},{},{}", run.name, run.ranks, run.nodes,
                                run.rdma_meant ? "yes" : "no",
                                run.verdict ? quoted(rdma_nccl::name_of(run.verdict->verdict)) : "", row.operation,
                                row.bytes, row.count, row.type, row.redop, row.root);
            text += times_csv(row.out_of_place);
            text += row.in_place ? times_csv(*row.in_place) : ",,,,,,";
            text += '\n';
        }
    }
    return text;
}

} // namespace rdma_nccl
