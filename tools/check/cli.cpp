// SPDX-License-Identifier: Apache-2.0
#include "tools/check/check.h"
#include "tools/common/command_line.h"

#include <memory>
#include <unistd.h>

namespace rdma_nccl {

namespace {

using check::Form;

struct CheckLine {
    check::Options options;
    bool json = false;
    bool nagios = false;
    bool prolog = false;
    bool health = false;
};

constexpr const char* health_state = "/var/lib/rdma-nccl/health.json"; // survives the reboot of a drained node

int run_check(CheckLine& line) {
    auto& options = line.options;
    const bool quiet = !options.prometheus.empty() && !options.all;
    options.form = line.json     ? Form::Json
                   : line.nagios ? Form::Nagios
                   : line.prolog ? Form::Prolog
                   : line.health ? Form::Health
                   : quiet       ? Form::Quiet
                                 : Form::Text;
    if (line.health && options.state.empty() && ::geteuid() == 0) {
        options.state = health_state;
    }
    return check::run(options);
}

void add_forms(const Subcommand& command, CheckLine& line) {
    const auto forms = command.alternatives("Forms", "what is printed");
    forms.flag("--json", line.json, "every check as JSON");
    forms.flag("--nagios", line.nagios, "one line with performance data, as a Nagios plugin");
    forms.flag("--prolog", line.prolog, "for Slurm's Prolog: exit 1 when critical, else 0, also when it cannot tell");
    forms.flag("--health", line.health,
               "for Slurm's HealthCheckProgram: drain this node when critical, undo that when it is good again");
    command.flag("--all", line.options.all, "what passed and what was left out, too");
    command
        .option("--prometheus", line.options.prometheus,
                "write metrics for node_exporter's text file collector; alone, nothing is printed")
        .type_name("FILE")
        .not_empty();
}

void add_files(const Subcommand& command, check::Options& options) {
    command.option("--expect", options.expect, "what this node should have")
        .type_name("FILE")
        .shows_default()
        .not_empty()
        .when_given([&options] { options.expect_given = true; });
    command.option("--learn", options.learn, "write that file from this node, if healthy; - prints it")
        .type_name("[FILE]")
        .optional_value(options.expect);
    command.option("--state", options.state, "keep counters there, and judge what changed since the last time")
        .type_name("FILE")
        .not_empty();
}

} // namespace

void add_check_command(const Subcommand& app, int& exit_code) {
    auto line = std::make_shared<CheckLine>();
    auto& options = line->options;
    const auto command =
        app.subcommand("check", "is this node ready for RDMA: devices, ports, GIDs, limits, PCIe, libraries");
    add_forms(command, *line);
    add_files(command, options);
    command.number("--after", options.after, "with --health: drain after N critical checks in a row", 1U, 1000U);
    command.option("--node", options.node, "with --health: Slurm's name of this node").type_name("NAME").not_empty();
    command.flag("--dry-run", options.dry_run, "with --health: say what would be done, and do nothing");
    command.number("--limit", options.limit_s, "give up after this many seconds", 1U, 3600U, "SECONDS");
    add_settings_options(command, options.settings);
    command.on_run([line, &exit_code] { exit_code = run_check(*line); });
}

} // namespace rdma_nccl
