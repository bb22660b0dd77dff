// SPDX-License-Identifier: Apache-2.0
#include "config.h"
#include "lib/text.h"
#include "tools/check_output.h"
#include "tools/json.h"
#include "tools/wall_time.h"

#include <nlohmann/json.hpp>

namespace rdma_nccl {

namespace {

using Json = nlohmann::ordered_json;

/// Numbers as numbers, what is empty as null.
Json value_json(const std::string& text) {
    if (text.empty()) {
        return {};
    }
    if (const auto number = parse_number<std::uint64_t>(text)) {
        return *number;
    }
    return json_ascii(text);
}

Json text_json(const std::string& text) {
    return text.empty() ? Json() : Json(json_ascii(text));
}

Json result_json(const CheckResult& result) {
    return {{"id", result.id},
            {"item", text_json(result.item)},
            {"status", name_of(result.status)},
            {"message", json_ascii(result.message)},
            {"value", value_json(result.value)},
            {"unit", text_json(result.unit)},
            {"expected", value_json(result.expected)},
            {"hint", text_json(result.hint)},
            {"evidence", text_json(result.evidence)}};
}

} // namespace

nlohmann::ordered_json check_json(const CheckReport& report) {
    auto checks = Json::array();
    for (const auto& result : report.results) {
        checks.push_back(result_json(result));
    }
    return {{"schema", 1},
            {"host", json_ascii(report.host)},
            {"time", utc_time_text(report.time_us)},
            {"version", PACKAGE_VERSION},
            {"status", name_of(overall(report.results))},
            {"seconds", report.seconds},
            {"checks", std::move(checks)}};
}

} // namespace rdma_nccl
