// SPDX-License-Identifier: Apache-2.0
#include "lib/nccl_ras/report.h"

#include "lib/base/format.h"
#include "lib/base/json.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "lib/nccl_ras/text_report.h"

#include <algorithm>

namespace rdma_nccl::ras {

namespace {

constexpr unsigned deepest = 16; // a report has 6 levels

std::string name_at(const Json& object, std::string_view name) {
    return printable(object.at(name).text());
}

Member member_of(const Json& entry) {
    return {.rank = entry.at("rank").get<std::uint32_t>(),
            .host = name_at(entry, "host"),
            .pid = entry.at("pid").get<std::int32_t>(),
            .cuda_dev = entry.value("cuda_dev", std::int32_t{0})};
}

bool is_settled(const Json& entry) {
    const auto& status = entry.at("status");
    const auto is_set = [&](std::string_view flag) { return status.value(flag, false); };
    return status.at("init_state").get<std::int32_t>() == 0 && !is_set("finalize_called") && !is_set("destroy_flag") &&
           !is_set("abort_flag");
}

Rank rank_of(const Json& entry) {
    Rank rank{.member = member_of(entry), .counts = {}};
    const auto& counts = entry.at("collective_counts");
    for (std::size_t i = 0; i < function_names.size(); ++i) {
        rank.counts.at(i) = counts.value(function_names.at(i), std::uint64_t{0});
    }
    return rank;
}

MissingRank missing_of(const Json& entry) {
    const auto& status = entry.at("status");
    return {member_of(entry), status.value("unresponsive", false), status.value("considered_dead", false), false};
}

Communicator communicator_of(const Json& entry) {
    return {.hash = name_at(entry, "hash"),
            .secondary = name_at(entry, "secondary_hash"),
            .size = entry.at("size").get<std::uint32_t>(),
            .settled = std::ranges::all_of(entry.at("ranks").items(), is_settled),
            .ranks = mapped(entry.at("ranks").items(), rank_of),
            .unnamed = {},
            .missing = mapped(entry.at("missing_ranks").items(), missing_of)};
}

/// NCCL 2.28.7 to 2.28.9 write no comma after the "nvml_dev" of a missing rank (jsonWriteMissingRank()). Puts one
/// between a digit at the end of a line and a quotation mark at the beginning of the next.
std::string with_missing_commas(std::string_view text) {
    std::string repaired;
    for (const auto line : split(text, '\n')) {
        const bool follows_number = !repaired.empty() && repaired.back() >= '0' && repaired.back() <= '9';
        repaired += follows_number && trim(line).starts_with('"') ? ",\n" : "\n";
        repaired += line;
    }
    return repaired;
}

} // namespace

Result<Report> parse_report(std::string_view text) {
    if (text.size() > most_report_bytes) {
        return fail(format_text("the report of NCCL's RAS is longer than {}", format_bytes(most_report_bytes)));
    }
    if (is_text_report(text)) {
        return parse_text_report(text);
    }
    auto json = Json::parse(text, deepest);
    if (!json) {
        json = Json::parse(with_missing_commas(text), deepest);
    }
    if (!json) {
        return fail("the report of NCCL's RAS is no JSON");
    }
    try {
        return Report{.version = name_at(*json, "nccl_version"),
                      .communicators = mapped(json->at("communicators").items(), communicator_of),
                      .partial = false,
                      .alike = 0,
                      .timeouts = json->at("ras").value("timeouts_count", std::uint32_t{0})};
    } catch (const JsonError& error) {
        return fail(format_text("the report of NCCL's RAS has an unknown form: {}", printable(error.what())));
    }
}

} // namespace rdma_nccl::ras
