// SPDX-License-Identifier: Apache-2.0
#include "tools/run_report.h"
#include "tools/wall_time.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace rdma_nccl {

namespace {

using Json = nlohmann::ordered_json;

Json or_null(const std::optional<int>& number) {
    return number ? Json(*number) : Json();
}

Json failure_json(const RankFailure& failure) {
    return {{"host", failure.host},
            {"node_rank", failure.node_rank},
            {"rank", failure.rank},
            {"local_rank", failure.local_rank},
            {"attempt", failure.attempt},
            {"most_attempts", failure.most_attempts},
            {"pid", failure.pid},
            {"program", failure.program},
            {"code", failure.code},
            {"signal", or_null(failure.signal)},
            {"core_dumped", failure.core_dumped},
            {"exec_error", or_null(failure.exec_error)},
            {"out_of_memory", failure.out_of_memory},
            {"gpu_pci", failure.gpu_pci},
            {"gpu_uuid", failure.gpu_uuid},
            {"hcas", failure.hcas},
            {"error", failure.error},
            {"traceback", failure.traceback},
            {"last_lines", failure.last_lines},
            {"time_us", failure.time_us}};
}

/// For people who read the file, or programs that only pass it on.
Json told_json(const RankFailure& failure) {
    auto json = failure_json(failure);
    json["time"] = utc_time_text(failure.time_us);
    json["what"] = describe_end(failure);
    json["advice"] = advice_for(failure);
    return json;
}

std::string start_of(const std::string& text, std::size_t most) {
    return text.size() <= most ? text : text.substr(0, most) + "...";
}

std::string end_of(const std::string& text, std::size_t most) {
    return text.size() <= most ? text : "..." + text.substr(text.size() - most);
}

} // namespace

std::string report_json(const JobEnd& end) {
    Json others = Json::array();
    for (const auto& other : std::span(end.failures).subspan(end.failures.empty() ? 0 : 1)) {
        others.push_back(told_json(other));
    }
    Json lost = Json::array();
    for (const auto& loss : end.losses) {
        lost.push_back(loss);
    }
    const Json report = {{"schema", 1},
                         {"code", end.code},
                         {"first", end.failures.empty() ? Json() : told_json(end.failures.front())},
                         {"others", std::move(others)},
                         {"lost", std::move(lost)}};
    // In ASCII; bytes that are no UTF-8 become U+FFFD.
    return report.dump(2, ' ', true, Json::error_handler_t::replace) + "\n";
}

RankFailure shortened(RankFailure failure) {
    constexpr std::size_t most = most_failure_text;
    failure.error = start_of(failure.error, most / 2);
    failure.traceback = end_of(failure.traceback, most);
    std::size_t room = most / 2;
    auto& lines = failure.last_lines;
    auto first = lines.end();
    while (first != lines.begin() && room > 0) {
        --first;
        *first = start_of(*first, room);
        room -= std::min(room, first->size() + 4);
    }
    lines.erase(lines.begin(), first);
    return failure;
}

} // namespace rdma_nccl
