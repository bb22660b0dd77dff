// SPDX-License-Identifier: Apache-2.0
#include "tools/measure/options.h"

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

void add_limit_options(const Subcommand& command, MeasureLimits& limits) {
    command.option("--time-limit", limits.time_limit_s, "stop after this long, and report what is known")
        .type_name("SECONDS")
        .range(1.0, most_measure_seconds);
    command.number("--join", limits.join_s, "how long to wait for the nodes", 1.0, most_measure_seconds, "SECONDS");
}

void add_form_options(const Subcommand& command, MeasureOptions& options, const char* csv, const char* html) {
    command.flag("--json", options.json, "print JSON");
    command.option("--csv", options.csv, csv).type_name("FILE").not_empty();
    command.option("--html", options.html, html).type_name("FILE").not_empty();
    command.flag("--quiet", options.quiet, "no progress on stderr");
}

} // namespace rdma_nccl
