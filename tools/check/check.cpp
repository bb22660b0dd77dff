// SPDX-License-Identifier: Apache-2.0
#include "tools/check/check.h"

#include "lib/base/forked_worker.h"
#include "lib/base/format.h"
#include "lib/base/json.h"
#include "lib/base/text.h"
#include "lib/sys/environment.h"
#include "lib/sys/sysroot.h"
#include "tools/check/facts.h"
#include "tools/check/image.h"
#include "tools/check/judge.h"
#include "tools/common/command_line.h"
#include "tools/common/print.h"
#include "tools/common/prometheus.h"
#include "tools/common/settings_options.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <memory>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

namespace rdma_nccl::check {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int exit_not_ready = 1; ///< of --prolog

/// Reads the file of expectations, if there is one.
Expectations read_expectations(const Options& options, std::string_view host, Findings& results) {
    const auto text = read_user_file(options.expect);
    Finding result{.id = "check", .item = "expectations", .evidence = options.expect};
    if (!text) {
        if (text.error().os_error != ENOENT || options.expect_given) {
            results.push_back(result.set(Status::Error, printable(text.error().message, 200),
                                         "name a file that can be read, or learn one from a good node: --learn FILE"));
        }
        return {};
    }
    auto outcome = parse_expectations(*text, options.expect, host);
    for (const auto& fault : outcome.faults) {
        results.push_back(
            result.set(Status::Error, printable(fault, 300), "correct the line; rdma-nccl-check(1) has all keys"));
    }
    return std::move(outcome.expectations);
}

bool write_metrics(const Options& options, const Report& report) {
    if (options.prometheus.empty()) {
        return true;
    }
    const auto written = rdma_nccl::replace_metrics(options.prometheus, "check", as_prometheus(report));
    if (!written) {
        print_error("metrics are not written: " + written.error().message);
    }
    return written.has_value();
}

int learn(const Options& options, const Facts& facts) {
    const auto text = learned_expectations(facts, wall_time_text(facts.now.time_us));
    if (*options.learn == "-") {
        print_out(text);
        return exit_good;
    }
    const auto written = replace_own(*options.learn, learned_mark, text,
                                     "was not written by --learn and is left unchanged; name another file");
    return exit_code_of(written.map([&options] {
        print_out(printable(*options.learn, 200) +
                  ": written; look at it, and give it to all nodes that are like this one\n");
        return exit_good;
    }));
}

std::string slurm_name(const Options& options, const std::string& host) {
    if (!options.node.empty()) {
        return options.node;
    }
    const auto name = slurm_node_name();
    return name.empty() ? host.substr(0, host.find('.')) : name;
}

/// Prints the report in the chosen form. Returns that form's exit code.
int print_report(const Options& options, const Report& report) {
    const auto status = overall(report.results);
    constexpr std::size_t log_line = 400;
    switch (options.form) {
    case Form::Json:
        print_out(as_json(report).dump(2) + "\n");
        break;
    case Form::Nagios:
        print_out(as_nagios(report));
        break;
    case Form::Prolog:
        if (status == NodeStatus::Critical) {
            print_out(format_text("rdma-nccl: {} is not ready: {}\n", report.host, worst_in_short(report, log_line)));
        }
        return status == NodeStatus::Critical ? exit_not_ready : exit_good;
    case Form::Text:
        print_out(as_text(report, options.all, ::isatty(STDOUT_FILENO) == 1));
        break;
    case Form::Health:
    case Form::Quiet:
        return exit_good;
    }
    return static_cast<int>(status);
}

/// Does the whole check. May hang.
int run_here(const Options& options, const Settings& settings, Clock::time_point start, const StageLog& stage) {
    const auto root = SysRoot::open(settings.root);
    if (!root) {
        print_error(root.error().message);
        return options.form == Form::Prolog ? exit_good : exit_cannot_tell;
    }
    if (options.image) {
        stage("reading libraries");
        const auto image = inspect_image(*root, Environment::from(environ));
        print_out(options.form == Form::Json ? as_json(image).dump(2) + "\n" : as_text(image));
        return exit_good;
    }
    auto facts = inspect(*root, settings, Environment::from(environ), stage);
    facts.now.time_us = wall_time_us();
    if (options.learn) {
        return learn(options, facts);
    }
    Report report{.host = facts.host.empty() ? "unknown" : facts.host, .results = {}, .facts = &facts};
    const auto expected =
        read_expectations(options, facts.live ? slurm_name(options, facts.host) : facts.host, report.results);
    compare_with_last(options, facts, report.results);
    auto judged = judge_node(facts, expected);
    if (options.form == Form::Health || options.form == Form::Prolog) {
        warn_of_the_unexpected(judged, expected);
    }
    report.results.insert(report.results.end(), judged.begin(), judged.end());
    report.time_us = facts.now.time_us;
    report.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    stage("writing files");
    const auto before = facts.before ? facts.before->critical_in_a_row : 0;
    facts.now.critical_in_a_row = overall(report.results) == NodeStatus::Critical ? before + 1 : 0;
    if (facts.has_state_file && !options.dry_run) {
        (void)write_state(options, facts);
    }
    const bool written = write_metrics(options, report);
    if (options.form == Form::Health) {
        stage("Slurm");
        return act_as_health_check(options, report, facts,
                                   {.scontrol = expected.scontrol.empty() ? "scontrol" : expected.scontrol,
                                    .node = slurm_name(options, report.host),
                                    .deadline = start + std::chrono::seconds(options.limit_s)});
    }
    const int code = print_report(options, report);
    return options.form == Form::Quiet && !written ? exit_cannot_tell : code;
}

/// Shared between parent and child: the child's current stage and its exit code.
struct Shared {
    std::atomic<int> exit_code{-1};
    std::array<char, 64> stage{};
};

/// Reports that the check hangs, and in which stage.
int report_hang(const Options& options, const Shared& shared, double seconds) {
    Report report{.host = own_host_name(), .time_us = wall_time_us(), .seconds = seconds, .results = {}};
    const std::string_view stage = shared.stage.data();
    report.results.push_back(
        {.id = "check",
         .item = "time",
         .status = Status::Error,
         .message = format_text("{} did not return within {:.0f} s", stage.empty() ? "the check" : stage, seconds),
         .hint = "something in the kernel hangs (dmesg: hung tasks): drain and reboot the node"});
    (void)write_metrics(options, report);
    if (options.form == Form::Health || options.form == Form::Quiet || options.learn) {
        print_error(worst_in_short(report, 200));
        return exit_cannot_tell;
    }
    return print_report(options, report);
}

/// Returns the exit code of the form: 0 good, 1 warnings, 2 critical, 3 cannot tell. Prolog: 0 or 1. Health: 0, or 3 if
/// Slurm could not be asked or updated. Quiet: 0, or 3 if a file could not be written.
int run(const Options& options) {
    const auto start = Clock::now();
    const auto settings = settings_from(options.settings);
    if (!settings) {
        print_error(settings.error().message);
        return options.form == Form::Prolog ? exit_good : exit_bad_line;
    }
    void* const page = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) {
        return run_here(options, *settings, start, [](std::string_view) {});
    }
    auto* const shared = new (page) Shared(); // constructed in the page, which lives as long as this process
    const pid_t parent = ::getpid();
    auto child = Child::start([&] {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (::getppid() != parent) {
            return;
        }
        const int code = run_here(options, *settings, start, [shared](std::string_view stage) {
            shared->stage.fill(0);
            std::memcpy(shared->stage.data(), stage.data(), std::min(stage.size(), shared->stage.size() - 1));
        });
        const bool printed = finish_output();
        shared->exit_code = printed || options.form == Form::Prolog ? code : exit_cannot_tell;
    });
    if (!child) {
        return run_here(options, *settings, start, [](std::string_view) {});
    }
    const bool ended = child->finish(std::chrono::seconds(options.limit_s));
    const int code = shared->exit_code;
    return ended && code >= 0
               ? code
               : report_hang(options, *shared, std::chrono::duration<double>(Clock::now() - start).count());
}

struct CheckLine {
    Options options;
    bool json = false;
    bool nagios = false;
    bool prolog = false;
    bool health = false;
};

int run_check(CheckLine& line) {
    auto& options = line.options;
    const bool quiet = !options.prometheus.empty() && !options.all;
    options.form = line.json     ? Form::Json
                   : line.nagios ? Form::Nagios
                   : line.prolog ? Form::Prolog
                   : line.health ? Form::Health
                   : quiet       ? Form::Quiet
                                 : Form::Text;
    if (options.image &&
        ((options.form != Form::Text && options.form != Form::Json) || options.learn || !options.prometheus.empty())) {
        refuse_option("--image", "lists libraries, and goes with --json alone");
    }
    if (line.health && options.state.empty() && ::geteuid() == 0) {
        options.state = "/var/lib/rdma-nccl/health.json"; // survives the reboot of a drained node
    }
    return run(options);
}

void add_forms(const Subcommand& command, CheckLine& line) {
    const auto forms = command.alternatives("Forms", "what is printed");
    forms.flag("--json", line.json, "every check as JSON");
    forms.flag("--nagios", line.nagios, "one line with performance data, as a Nagios plugin");
    forms.flag("--prolog", line.prolog, "for Slurm's Prolog: exit 1 when critical, else 0, also when it cannot tell");
    forms.flag("--health", line.health,
               "for Slurm's HealthCheckProgram: drain this node when critical, undo that when it is good again");
    command.flag("--all", line.options.all, "what passed and what was left out, too");
    command.flag("--image", line.options.image,
                 "check nothing, list the libraries that NCCL would load here, and their versions");
    command
        .option("--prometheus", line.options.prometheus,
                "write metrics for node_exporter's text file collector; alone, nothing is printed")
        .type_name("FILE")
        .not_empty();
}

void add_files(const Subcommand& command, Options& options) {
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

} // namespace rdma_nccl::check

namespace rdma_nccl {

void add_check_command(const Subcommand& app, int& exit_code) {
    auto line = std::make_shared<check::CheckLine>();
    auto& options = line->options;
    const auto command =
        app.subcommand("check", "is this node ready for RDMA: devices, ports, GIDs, limits, PCIe, libraries");
    check::add_forms(command, *line);
    check::add_files(command, options);
    command.number("--after", options.after, "with --health: drain after N critical checks in a row", 1U, 1000U);
    command.option("--node", options.node, "with --health: Slurm's name of this node").type_name("NAME").not_empty();
    command.flag("--dry-run", options.dry_run, "with --health: say what would be done, and do nothing");
    command.number("--limit", options.limit_s, "give up after this many seconds", 1U, 3600U, "SECONDS");
    add_settings_options(command, options.settings);
    command.on_run([line, &exit_code] { exit_code = check::run_check(*line); });
}

} // namespace rdma_nccl
