// SPDX-License-Identifier: Apache-2.0
#include "tools/pairs.h"

#include "lib/child.h"
#include "lib/environment.h"
#include "lib/format.h"
#include "lib/step.h"
#include "lib/text.h"
#include "tools/exit_codes.h"
#include "tools/measure_control.h"
#include "tools/measure_dismiss.h"
#include "tools/measure_world.h"
#include "tools/node_plan.h"
#include "tools/pairs_files.h"
#include "tools/pairs_head.h"
#include "tools/pairs_member.h"
#include "tools/pairs_output.h"
#include "tools/print.h"

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>
#include <sys/ioctl.h>
#include <unistd.h>

namespace rdma_nccl {

namespace {

using std::chrono::milliseconds;

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

/// Returns the exit code.
int tell(const PairsReport& report, const PairsOptions& options, const Environment& environment) {
    auto verdict = judge_pairs(report, options.rules);
    if (report.results.empty()) { // whatever kept the nodes from it
        verdict.exit_code = exit_cannot_tell;
    }
    if (options.json) {
        print_out(pairs_json(report, verdict).dump(2) + "\n");
    } else if (options.csv == "-") {
        print_out(pairs_csv(report, verdict));
    } else {
        print_out(pairs_text(report, verdict, text_options(environment)));
    }
    bool written = true;
    const auto write = [&written](const std::string& path, const std::string& text) {
        if (const auto done = write_result(path, text); !done) {
            print_error(done.error().message);
            written = false;
        }
    };
    if (!options.csv.empty() && options.csv != "-") {
        write(options.csv, pairs_csv(report, verdict));
    }
    if (!options.html.empty()) {
        write(options.html, pairs_html(report, verdict));
    }
    return written ? verdict.exit_code : exit_cannot_tell;
}

int lead(MeasureWorld world, const PairsOptions& options, const Settings& settings, const Environment& environment) {
    PairsProgress progress(STDERR_FILENO, options.quiet);
    auto head = MeasureHead::listen(world);
    if (!head) {
        print_error(head.error().message);
        return exit_cannot_tell;
    }
    // Members wait for who listens: what is wrong here ends them at once, and is told by this one alone.
    constexpr std::chrono::seconds to_join(15);
    if (!can_write_results(options.csv, options.html)) {
        dismiss_members(**head, world.members, std::min<milliseconds>(to_join, options.join_time), true);
        return exit_bad_line;
    }
    world.port = (*head)->port();
    // Verbs may hang in a driver, and end with the process: the head stays out of it.
    auto member = Child::start([&] { (void)take_part_in_pairs(world, options, settings); });
    if (!member) {
        print_error("no process for the measurement of this node is to be had; is the limit of processes reached?");
        dismiss_members(**head, world.members, std::min<milliseconds>(to_join, options.join_time), true);
        return exit_cannot_tell;
    }
    const auto step = read_step(environment, {});
    const auto report = lead_pairs(**head, world, step, options, progress);
    constexpr std::chrono::seconds to_end(2);
    (void)member->finish(to_end);
    head->reset(); // from now on a signal ends this process at once
    return tell(report, options, environment);
}

} // namespace

int run_pairs(const PairsOptions& options) {
    const auto settings = settings_from(options.settings);
    if (!settings) {
        print_error(settings.error().message);
        return exit_bad_line;
    }
    const auto environment = Environment::from(environ);
    const auto world = measure_world(environment, node_name_of(environment, *settings), "pairs", KeyPurpose::Pairs);
    if (!world) {
        print_error(world.error().message);
        return exit_cannot_tell;
    }
    if (world->members == 1 && !options.schedule.empty() && options.schedule != "loopback") {
        print_error(format_text("this process is alone, and {} needs several nodes; start it with: srun --rdma-nccl "
                                "-N NODES --ntasks-per-node=1 rdma-nccl pairs ...",
                                options.schedule));
        return exit_bad_line;
    }
    if (world->members == 1 && options.schedule.empty() && !options.quiet) {
        print_error("alone: this node with itself; over nodes: srun --rdma-nccl -N NODES --ntasks-per-node=1 "
                    "rdma-nccl pairs");
    }
    if (const auto problem = conflict_of_outputs(options.json, options.csv, options.html); !problem.empty()) {
        if (world->member == 0) {
            print_error(problem);
        }
        return exit_bad_line;
    }
    return world->member == 0 ? lead(*world, options, *settings, environment)
                              : take_part_in_pairs(*world, options, *settings);
}

} // namespace rdma_nccl
