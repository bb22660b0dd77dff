// SPDX-License-Identifier: Apache-2.0
#include "tools/measure_options.h"

namespace rdma_nccl {

std::chrono::milliseconds time_of_seconds(double seconds) {
    constexpr double thousand = 1000;
    return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * thousand));
}

void MeasureLimits::apply(MeasureOptions& options) const {
    options.join_time = time_of_seconds(join_s);
    if (time_limit_s > 0) {
        options.time_limit = time_of_seconds(time_limit_s);
    }
}

void add_limit_options(CLI::App& command, MeasureLimits& limits) {
    command.add_option("--time-limit", limits.time_limit_s, "end after so long, and tell what is known then")
        ->type_name("SECONDS")
        ->check(CLI::Range(1.0, most_measure_seconds));
    add_number(command, "--join", limits.join_s, "how long the nodes are waited for", 1.0, most_measure_seconds,
               "SECONDS");
}

void add_form_options(CLI::App& command, MeasureOptions& options, const char* csv, const char* html) {
    command.add_flag("--json", options.json, "print JSON");
    command.add_option("--csv", options.csv, csv)->type_name("FILE")->check(not_empty());
    command.add_option("--html", options.html, html)->type_name("FILE")->check(not_empty());
    command.add_flag("--quiet", options.quiet, "no progress on stderr");
}

} // namespace rdma_nccl
