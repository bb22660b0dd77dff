// SPDX-License-Identifier: Apache-2.0
#include "tools/check.h"
#include "tools/commands.h"

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

constexpr const char* health_state = "/var/lib/rdma-nccl/health.json"; // a drained node is rebooted

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

void add_forms(CLI::App& command, CheckLine& line) {
    auto* forms = command.add_option_group("Forms", "what is printed");
    forms->add_flag("--json", line.json, "every check as JSON");
    forms->add_flag("--nagios", line.nagios, "one line with performance data, as a Nagios plugin");
    forms->add_flag("--prolog", line.prolog,
                    "for Slurm's Prolog: exit 1 when critical, else 0, also when it cannot tell");
    forms->add_flag("--health", line.health,
                    "for Slurm's HealthCheckProgram: drain this node when critical, undo that when it is good again");
    forms->require_option(0, 1);
    command.add_flag("--all", line.options.all, "what passed and what was left out, too");
    command
        .add_option("--prometheus", line.options.prometheus,
                    "write metrics for node_exporter's text file collector; alone, nothing is printed")
        ->type_name("FILE")
        ->check(not_empty());
}

void add_expectations(CLI::App& command, CheckOptions& options) {
    auto* expect = command.add_option("--expect", options.expect, "what this node should have");
    expect->type_name("FILE")->capture_default_str()->check(not_empty());
    expect->each([&options](const std::string&) { options.expect_given = true; });
    auto* learn =
        command.add_option("--learn", options.learn, "write such a file from this node, which is good; - prints it");
    learn->type_name("[FILE]")->expected(0, 1)->default_str(options.expect);
    command.add_option("--state", options.state, "keep counters there, and judge what changed since the last time")
        ->type_name("FILE")
        ->check(not_empty());
}

void add_slurm(CLI::App& command, CheckOptions& options) {
    constexpr unsigned most_checks = 1000;
    constexpr unsigned most_seconds = 3600;
    command.add_option("--after", options.after, "with --health: drain after N critical checks in a row")
        ->type_name("N")
        ->check(CLI::Range(1U, most_checks))
        ->capture_default_str();
    command.add_option("--node", options.node, "with --health: Slurm's name of this node")
        ->type_name("NAME")
        ->check(not_empty());
    command.add_flag("--dry-run", options.dry_run, "with --health: say what would be done, and do nothing");
    command.add_option("--limit", options.limit_s, "give up after so many seconds")
        ->type_name("SECONDS")
        ->check(CLI::Range(1U, most_seconds))
        ->capture_default_str();
}

} // namespace

void add_check_command(CLI::App& app, int& exit_code) {
    auto line = std::make_shared<CheckLine>();
    auto* command =
        app.add_subcommand("check", "is this node ready for RDMA: devices, ports, GIDs, limits, PCIe, libraries");
    add_forms(*command, *line);
    add_expectations(*command, line->options);
    add_slurm(*command, line->options);
    add_settings_options(*command, line->options.settings);
    command->callback([line, &exit_code] { exit_code = check_command(options_of(*line)); });
}

} // namespace rdma_nccl
