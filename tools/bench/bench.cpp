// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/bench.h"

#include "lib/base/json.h"
#include "tools/bench/output.h"
#include "tools/common/exit_codes.h"
#include "tools/common/print.h"
#include "tools/measure/command.h"

namespace rdma_nccl {

namespace {

/// Returns the exit code.
int tell(const BenchReport& report, const BenchOptions& options) {
    const auto summary = summarize(report);
    if (report.runs.empty()) {
        print_error(report.ended_early.empty() ? "nothing was measured" : report.ended_early);
        if (!options.json) {
            return exit_cannot_tell;
        }
    }
    const MeasureForms forms{.text = [&] { return bench_text(report, summary); },
                             .json = [&] { return bench_json(report, summary).dump(2) + "\n"; },
                             .csv = [&] { return bench_csv(report); },
                             .html = [&] { return bench_html(report); }};
    return tell_in_forms(forms, options) ? summary.exit_code : exit_cannot_tell;
}

} // namespace

int run_bench(const BenchOptions& options) {
    return run_measure_command(
        {.name = "bench",
         .purpose = KeyPurpose::Bench,
         .own_part = "the ranks",
         .suits = {},
         .take_part = [&](const auto& world, const auto& /*settings*/) { return take_part_in_bench(world, options); },
         .lead = [&](auto& head, const auto& world, auto& progress) -> MeasureTell {
             return [&options, report = lead_bench(head, world, options, progress)] { return tell(report, options); };
         }},
        options);
}

} // namespace rdma_nccl
