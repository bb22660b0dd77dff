// SPDX-License-Identifier: Apache-2.0
#include "tools/bench.h"

#include "lib/child.h"
#include "lib/environment.h"
#include "lib/format.h"
#include "tools/bench_head.h"
#include "tools/bench_html.h"
#include "tools/bench_member.h"
#include "tools/bench_output.h"
#include "tools/exit_codes.h"
#include "tools/measure_control.h"
#include "tools/measure_dismiss.h"
#include "tools/measure_world.h"
#include "tools/node_plan.h"
#include "tools/pairs_files.h"
#include "tools/print.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace rdma_nccl {

namespace {

using std::chrono::milliseconds;

/// Returns the exit code.
int tell(const BenchReport& report, const BenchOptions& options) {
    const auto summary = summarize(report);
    if (report.runs.empty()) {
        print_error(report.ended_early.empty() ? "nothing was measured" : report.ended_early);
        if (!options.json) {
            return exit_cannot_tell;
        }
    }
    if (options.json) {
        print_out(bench_json(report, summary).dump(2) + "\n");
    } else if (options.csv == "-") {
        print_out(bench_csv(report));
    } else {
        print_out(bench_text(report, summary));
    }
    bool written = true;
    const auto write = [&written](const std::string& path, const std::string& text) {
        if (const auto done = write_result(path, text); !done) {
            print_error(done.error().message);
            written = false;
        }
    };
    if (!options.csv.empty() && options.csv != "-") {
        write(options.csv, bench_csv(report));
    }
    if (!options.html.empty()) {
        write(options.html, bench_html(report));
    }
    return written ? summary.exit_code : exit_cannot_tell;
}

int lead(MeasureWorld world, const BenchOptions& options) {
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
    auto member = Child::start([&] { (void)take_part_in_bench(world, options); });
    if (!member) {
        print_error("no process for the ranks of this node is to be had; is the limit of processes reached?");
        dismiss_members(**head, world.members, std::min<milliseconds>(to_join, options.join_time), true);
        return exit_cannot_tell;
    }
    const auto report = lead_bench(**head, world, options, progress);
    constexpr std::chrono::seconds to_end(2);
    (void)member->finish(to_end);
    head->reset(); // from now on a signal ends this process at once
    return tell(report, options);
}

} // namespace

int run_bench(const BenchOptions& options) {
    const auto settings = settings_from(options.settings);
    if (!settings) {
        print_error(settings.error().message);
        return exit_bad_line;
    }
    const auto environment = Environment::from(environ);
    const auto world = measure_world(environment, node_name_of(environment, *settings), "bench", KeyPurpose::Bench);
    if (!world) {
        print_error(world.error().message);
        return exit_cannot_tell;
    }
    if (const auto problem = conflict_of_outputs(options.json, options.csv, options.html); !problem.empty()) {
        if (world->member == 0) {
            print_error(problem);
        }
        return exit_bad_line;
    }
    return world->member == 0 ? lead(*world, options) : take_part_in_bench(*world, options);
}

} // namespace rdma_nccl
