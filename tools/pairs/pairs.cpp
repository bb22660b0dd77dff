// SPDX-License-Identifier: Apache-2.0
#include "tools/pairs/pairs.h"

#include "lib/base/format.h"
#include "lib/base/json.h"
#include "lib/base/text.h"
#include "lib/slurm/step.h"
#include "lib/sys/environment.h"
#include "tools/common/exit_codes.h"
#include "tools/common/print.h"
#include "tools/measure/command.h"
#include "tools/pairs/output.h"

#include <string_view>
#include <sys/ioctl.h>
#include <unistd.h>

namespace rdma_nccl {

namespace {

PairsTextOptions text_options(const Environment& environment) {
    PairsTextOptions options;
    winsize size{};
    options.colours = ::isatty(STDOUT_FILENO) == 1 && environment.get("NO_COLOR").value_or("").empty();
    const auto columns = parse_number<unsigned>(environment.get("COLUMNS").value_or(""));
    if (columns && *columns > 0) {
        options.columns = *columns;
    } else if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
        options.columns = size.ws_col;
    }
    for (const auto* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
        if (const auto locale = environment.get(name); locale && !locale->empty()) {
            options.utf8 = locale->find("UTF-8") != std::string::npos || locale->find("utf8") != std::string::npos;
            break;
        }
    }
    return options;
}

/// Prints the report and returns the exit code.
int tell(const PairsReport& report, const PairsOptions& options) {
    auto verdict = judge_pairs(report, options.rules);
    if (report.results.empty()) { // for whatever reason
        verdict.exit_code = exit_cannot_tell;
    }
    const MeasureForms forms{
        .text = [&] { return pairs_text(report, verdict, text_options(Environment::from(environ))); },
        .json = [&] { return pairs_json(report, verdict).dump(2) + "\n"; },
        .csv = [&] { return pairs_csv(report, verdict); },
        .html = [&] { return pairs_html(report, verdict); }};
    return tell_in_forms(forms, options) ? verdict.exit_code : exit_cannot_tell;
}

bool suits(const MeasureWorld& world, const PairsOptions& options) {
    if (world.members == 1 && !options.schedule.empty() && options.schedule != "loopback") {
        print_error(format_text("this process is alone, and {} needs several nodes; start it with: srun --rdma-nccl "
                                "-N NODES --ntasks-per-node=1 rdma-nccl pairs ...",
                                options.schedule));
        return false;
    }
    if (world.members == 1 && options.schedule.empty() && !options.quiet) {
        print_error("alone: this node with itself; over nodes: srun --rdma-nccl -N NODES --ntasks-per-node=1 "
                    "rdma-nccl pairs");
    }
    return true;
}

} // namespace

int run_pairs(const PairsOptions& options) {
    return run_measure_command(
        {.name = "pairs",
         .purpose = KeyPurpose::Pairs,
         .own_part = "the measurement",
         .suits = [&](const auto& world) { return suits(world, options); },
         .take_part = [&](const auto& world,
                          const auto& settings) { return take_part_in_pairs(world, options, settings); },
         .lead = [&](auto& head, const auto& world, auto& progress) -> MeasureTell {
             const auto step = read_step(Environment::from(environ), {});
             return [&options, report = lead_pairs(head, world, step, options, progress)] {
                 return tell(report, options);
             };
         }},
        options);
}

} // namespace rdma_nccl
