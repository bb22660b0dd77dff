// SPDX-License-Identifier: Apache-2.0
#include "tools/check/check.h"
#include "tools/common/commands.h"

#include <memory>
#include <unistd.h>

namespace rdma_nccl {

namespace {

struct CheckLine {
    CheckOptions options;
    bool json = false;
    bool nagios = false;
    bool prolog = false;
    bool health = false;
};

constexpr const char* health_state = "/var/lib/rdma-nccl/health.json"; // survives the reboot of a drained node

CheckOptions options_of(CheckLine& line) {
    auto& options = line.options;
    options.form = line.json                    ? CheckForm::Json
                   : line.nagios                ? CheckForm::Nagios
                   : line.prolog                ? CheckForm::Prolog
                   : line.health                ? CheckForm::Health
                   : options.prometheus.empty() ? CheckForm::Text
                   : options.all                ? CheckForm::Text
                                                : CheckForm::Quiet;
    if (line.health && options.state.empty() && ::geteuid() == 0) {
        options.state = health_state;
    }
    return options;
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

void add_expectations(const Subcommand& command, CheckOptions& options) {
    const auto expect = command.option("--expect", options.expect, "what this node should have");
    expect.type_name("FILE").shows_default().not_empty();
    expect.when_given([&options] { options.expect_given = true; });
    const auto learn =
        command.option("--learn", options.learn, "write that file from this node, if healthy; - prints it");
    learn.type_name("[FILE]").optional_value(options.expect);
    command.option("--state", options.state, "keep counters there, and judge what changed since the last time")
        .type_name("FILE")
        .not_empty();
}

void add_slurm(const Subcommand& command, CheckOptions& options) {
    constexpr unsigned most_checks = 1000;
    constexpr unsigned most_seconds = 3600;
    command.option("--after", options.after, "with --health: drain after N critical checks in a row")
        .type_name("N")
        .range(1U, most_checks)
        .shows_default();
    command.option("--node", options.node, "with --health: Slurm's name of this node").type_name("NAME").not_empty();
    command.flag("--dry-run", options.dry_run, "with --health: say what would be done, and do nothing");
    command.option("--limit", options.limit_s, "give up after this many seconds")
        .type_name("SECONDS")
        .range(1U, most_seconds)
        .shows_default();
}

} // namespace

void add_check_command(const Subcommand& app, int& exit_code) {
    auto line = std::make_shared<CheckLine>();
    const auto command =
        app.subcommand("check", "is this node ready for RDMA: devices, ports, GIDs, limits, PCIe, libraries");
    add_forms(command, *line);
    add_expectations(command, line->options);
    add_slurm(command, line->options);
    add_settings_options(command, line->options.settings);
    command.on_run([line, &exit_code] { exit_code = check_command(options_of(*line)); });
}

} // namespace rdma_nccl
