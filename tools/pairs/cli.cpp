// SPDX-License-Identifier: Apache-2.0
#include "lib/base/format.h"
#include "lib/base/text.h"
#include "lib/sys/environment.h"
#include "tools/common/command_line.h"
#include "tools/common/print.h"
#include "tools/pairs/output.h"
#include "tools/pairs/pairs.h"
#include "tools/verbs/rail.h"

#include <cstdlib>
#include <memory>
#include <optional>
#include <unistd.h>

namespace rdma_nccl::pairs {

namespace {

constexpr unsigned most_traffic_class = 255;
constexpr unsigned most_service_level = 15;

/// The options as given on the command line; options_of() interprets them.
struct ParsedOptions {
    Options options;
    std::string rails = "same";
    double seconds = 2;
    std::optional<CommandOption> quick;
    bool no_latency = false, no_both = false;
    bool retest = false, no_retest = false;
};

/// Returns the value of the job's NCCL variable. Values that are no numbers or out of range are NCCL's business.
unsigned jobs_value(const char* name, unsigned most) {
    const char* const text = std::getenv(name);
    const auto number = parse_number<unsigned>(text == nullptr ? "" : text).value_or(0);
    return number <= most ? number : 0;
}

void check_memory(const Measurement& measure) {
    if (2 * measure.message_size * measure.queue_pairs > most_pair_memory) {
        refuse_option("--size",
                      format_text("{} bytes on {} queue pairs, to send and to receive, are more than {} GiB of memory; "
                                  "take less of --size or --qps",
                                  measure.message_size, measure.queue_pairs, most_pair_memory >> 30));
    }
}

Options options_of(const ParsedOptions& line) {
    check_memory(line.options.measure);
    auto options = line.options;
    options.schedule = line.quick->is_given() ? "quick" : options.schedule;
    options.rails = line.rails == "cross" ? RailPairing::Cross : RailPairing::Same;
    options.only_rail = parse_number<unsigned>(line.rails);
    options.measure.time = measure::to_milliseconds(line.seconds);
    options.measure.latency = !line.no_latency;
    options.measure.both = !line.no_both;
    if (line.retest || line.no_retest) {
        options.retest = line.retest;
    }
    return options;
}

/// Converts a size to bytes, as tools/verbs/endpoint.cpp needs it. Returns an error message, or an empty text.
std::string take_message_size(std::string& text) {
    constexpr std::uint64_t largest = std::uint64_t{1} << 30;
    const auto bytes = parse_size(text).value_or(0);
    text = std::to_string(bytes);
    return bytes > 0 && bytes <= largest && bytes % 8 == 0
               ? ""
               : "bytes, or with K, M or G behind them (powers of 1024): a multiple of 8, up to 1G";
}

std::string check_rails(const std::string& text) {
    const bool good = text == "same" || text == "cross" || parse_number<unsigned>(text).value_or(256) < 256;
    return good ? "" : "it is same, cross, or the number of a rail, from 0";
}

void add_schedule(const Subcommand& command, ParsedOptions& line) {
    constexpr unsigned most_rounds = 10000;
    const auto schedule = command.option("--schedule", line.options.schedule,
                                         "which pairs to measure: all is each with each, the default; loopback is "
                                         "each with itself");
    schedule.one_of({"all", "quick", "ring", "bisection", "loopback"});
    line.quick = command.option("--quick", line.options.quick_rounds,
                                "K random rounds instead of all, then suspects with good nodes (default: 3)");
    line.quick->type_name("[K]").optional_value("3").range(1U, most_rounds).excludes(schedule);
    command.option("--rails", line.rails, "HCA i with HCA i (same), each with each (cross), or one HCA alone, from 0")
        .type_name("same|cross|N")
        .check(check_rails)
        .shows_default();
    const auto again =
        command.flag("--retest", line.retest, "measure suspects again with good nodes (default with quick)");
    command.flag("--no-retest", line.no_retest, "do not measure suspects again").excludes(again);
    command.option("--seed", line.options.seed, "seed of the random rounds").type_name("N").shows_default();
}

void add_measure(const Subcommand& command, ParsedOptions& line) {
    auto& measure = line.options.measure;
    command.number("-D,--seconds", line.seconds, "seconds per direction; 10 for a thorough test", 0.1, 3600.0,
                   "SECONDS");
    command.option("-s,--size", measure.message_size, "bytes of one write, a multiple of 8 up to 1G (default: 1M)")
        .type_name("BYTES")
        .transform(take_message_size);
    command.number("-q,--qps", measure.queue_pairs, "queue pairs for each pairing", 1U, 256U);
    command.number("--depth", measure.depth, "writes in flight on each queue pair", 2U, 8192U);
    measure.traffic_class = jobs_value("NCCL_IB_TC", most_traffic_class);
    measure.service_level = jobs_value("NCCL_IB_SL", most_service_level);
    measure.pkey_index = jobs_value("NCCL_IB_PKEY", 65535);
    const auto number = [&command](const char* names, unsigned& value, unsigned most, const char* help) {
        command.option(names, value, help).type_name("N").range(0U, most);
    };
    number("--traffic-class,--tclass", measure.traffic_class, most_traffic_class,
           "traffic class of the packets: DSCP x 4 (default: NCCL_IB_TC, or 0)");
    number("--service-level,--sl", measure.service_level, most_service_level,
           "service level of InfiniBand (default: NCCL_IB_SL, or 0)");
    command.flag("--gpu", measure.gpu, "use memory of the GPU next to each HCA instead of the host's");
    command.flag("--tcp", measure.tcp, "also measure TCP between the same ports");
    command.flag("--no-latency", line.no_latency, "do not measure latency");
    command.flag("--no-both", line.no_both, "do not measure both directions at once");
}

void add_rules(const Subcommand& command, JudgeRules& rules) {
    command.number("--slow-below", rules.share_of_median, "slow: bandwidth below this share of the median", 0.0, 1.0,
                   "SHARE");
    command.number("--deviations", rules.deviations, "allowance for noise, in scaled median deviations", 0.0, 1000.0);
    command.number("--floor", rules.floor_share, "or below this share of the link's rate; 0: no floor", 0.0, 1.0,
                   "SHARE");
    command.number("--slow-pairs", rules.share_of_pairs, "a node is slow when this share of its pairs is", 0.0, 1.0,
                   "SHARE");
    command.number("--latency-factor", rules.latency_factor, "slow: latency this many times the median", 1.0, 1e6);
}

TextOptions text_options(const Environment& environment) {
    TextOptions options;
    options.colours = ::isatty(STDOUT_FILENO) == 1 && environment.get("NO_COLOR").value_or("").empty();
    const auto columns = parse_number<unsigned>(environment.get("COLUMNS").value_or(""));
    options.columns = columns.value_or(0) > 0 ? *columns : measure::terminal_columns(STDOUT_FILENO);
    for (const auto* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
        if (const auto locale = environment.get(name); locale && !locale->empty()) {
            options.utf8 = locale->find("UTF-8") != std::string::npos || locale->find("utf8") != std::string::npos;
            break;
        }
    }
    return options;
}

/// Prints the report and returns the exit code.
int tell(const Report& report, const Options& options) {
    auto verdict = judge(report, options.rules);
    if (report.results.empty()) { // for whatever reason
        verdict.exit_code = exit_cannot_tell;
    }
    const measure::Formats forms{
        .text = [&] { return format_plain(report, verdict, text_options(Environment::from(environ))); },
        .json = [&] { return format_json(report, verdict).dump(2) + "\n"; },
        .csv = [&] { return format_csv(report, verdict); },
        .html = [&] { return format_html(report, verdict); }};
    return measure::write_formats(forms, options) ? verdict.exit_code : exit_cannot_tell;
}

bool suits(const measure::World& world, const Options& options) {
    if (world.workers == 1 && !options.schedule.empty() && options.schedule != "loopback") {
        print_error(format_text("this process is alone, and {} needs several nodes; start it with: srun --rdma-nccl "
                                "-N NODES --ntasks-per-node=1 rdma-nccl pairs ...",
                                options.schedule));
        return false;
    }
    if (world.workers == 1 && options.schedule.empty() && !options.quiet) {
        print_error("alone: this node with itself; over nodes: srun --rdma-nccl -N NODES --ntasks-per-node=1 "
                    "rdma-nccl pairs");
    }
    return true;
}

/// Runs as a worker of the step, or alone. Returns the exit code.
int run_pairs(const Options& options) {
    return measure::run_command(
        {.name = "pairs",
         .purpose = KeyPurpose::Pairs,
         .own_part = "the measurement",
         .suits = [&](const auto& world) { return suits(world, options); },
         .take_part = [&](const auto& world, const auto& settings) { return work(world, options, settings); },
         .lead = [&](auto& coordinator, const auto& world, auto& progress) -> measure::ReportPrinter {
             return [&options, report = coordinate(coordinator, world, options, progress)] {
                 return tell(report, options);
             };
         }},
        options);
}

} // namespace

void add_command(const Subcommand& app, int& exit_code) {
    auto line = std::make_shared<ParsedOptions>();
    const auto command =
        app.subcommand("pairs", "RDMA bandwidth and latency between all nodes of a step, pair by pair: "
                                "srun --rdma-nccl rdma-nccl pairs");
    // A script's options may be followed by the user's, which then count.
    command.let_last_count(true);
    add_schedule(command, *line);
    add_measure(command, *line);
    measure::add_limits(command, line->options);
    add_rules(command, line->options.rules);
    measure::add_formats(command, line->options, "write a line for each direction as CSV; - prints it",
                         "write a page with heat map, distribution and rails");
    command.let_last_count(false);
    add_settings_options(command, line->options.settings);
    command.on_run([line, &exit_code] { exit_code = run_pairs(options_of(*line)); });
}

} // namespace rdma_nccl::pairs
