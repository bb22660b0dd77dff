// SPDX-License-Identifier: Apache-2.0
#include "lib/format.h"
#include "lib/text.h"
#include "tools/pairs.h"

#include <cstdlib>
#include <memory>
#include <optional>
#include <utility>

namespace rdma_nccl {

namespace {

constexpr unsigned most_traffic_class = 255;
constexpr unsigned most_service_level = 15;

/// As the line has it; options_of() makes sense of it.
struct PairsLine {
    PairsOptions options;
    std::string rails = "same";
    double seconds = 2;
    MeasureLimits limits;
    const CLI::Option* quick = nullptr;
    const CLI::Option* traffic_class = nullptr;
    const CLI::Option* service_level = nullptr;
    bool no_latency = false, no_both = false;
    bool retest = false, no_retest = false;
};

/// What NCCL of this job has where the line says nothing; values that are no number, or too great, are NCCL's own
/// affair.
void follow_job(const CLI::Option& option, const char* name, unsigned most, unsigned& value) {
    const char* const text = std::getenv(name);
    const auto number = text == nullptr ? std::nullopt : parse_number<unsigned>(text);
    if (option.count() == 0 && number && *number <= most) {
        value = *number;
    }
}

void check_memory(const PairsMeasure& measure) {
    if (2 * measure.message_size * measure.queue_pairs > most_pair_memory) {
        throw CLI::ValidationError(
            "--size", format_text("{} bytes on {} queue pairs, to send and to receive, are more than {} GiB of memory; "
                                  "take less of --size or --qps",
                                  measure.message_size, measure.queue_pairs, most_pair_memory >> 30));
    }
}

PairsOptions options_of(const PairsLine& line) {
    check_memory(line.options.measure);
    auto options = line.options;
    options.schedule = line.quick->count() > 0 ? "quick" : options.schedule;
    options.rails = line.rails == "cross" ? RailPairing::Cross : RailPairing::Same;
    options.only_rail = parse_number<unsigned>(line.rails);
    follow_job(*line.traffic_class, "NCCL_IB_TC", most_traffic_class, options.measure.traffic_class);
    follow_job(*line.service_level, "NCCL_IB_SL", most_service_level, options.measure.service_level);
    if (const char* const index = std::getenv("NCCL_IB_PKEY")) {
        options.measure.pkey_index = parse_number<std::uint16_t>(index).value_or(0);
    }
    options.measure.time = time_of_seconds(line.seconds);
    options.measure.latency = !line.no_latency;
    options.measure.both = !line.no_both;
    line.limits.apply(options);
    if (line.retest || line.no_retest) {
        options.retest = line.retest;
    }
    return options;
}

/// As tools/verbs_end.cpp wants it.
CLI::Validator message_size() {
    return {[](const std::string& text) {
                constexpr std::uint64_t largest = std::uint64_t{1} << 30;
                const auto bytes = parse_number<std::uint64_t>(text).value_or(0);
                const bool good = bytes > 0 && bytes <= largest && bytes % 8 == 0;
                return good ? "" : "it is a multiple of 8, up to 1G";
            },
            ""};
}

CLI::Validator rails_word() {
    return {[](const std::string& text) {
                const bool good = text == "same" || text == "cross" || parse_number<unsigned>(text).value_or(256) < 256;
                return good ? "" : "it is same, cross, or the number of a rail, from 0";
            },
            ""};
}

void add_schedule(CLI::App& command, PairsLine& line) {
    constexpr unsigned most_rounds = 10000;
    auto* schedule = command.add_option("--schedule", line.options.schedule,
                                        "who is measured with whom: all (each with each), quick, ring, bisection, "
                                        "loopback (each with itself); default: all");
    schedule->type_name("WORD")->check(CLI::IsMember({"all", "quick", "ring", "bisection", "loopback"}));
    auto* quick = command.add_option("--quick", line.options.quick_rounds,
                                     "K random rounds instead of all, then suspects with good nodes (default: 3)");
    quick->type_name("[K]")->expected(0, 1)->default_str("3")->check(CLI::Range(1U, most_rounds));
    quick->excludes(schedule);
    line.quick = quick;
    command
        .add_option("--rails", line.rails, "HCA i with HCA i (same), each with each (cross), or one HCA alone, from 0")
        ->type_name("same|cross|N")
        ->check(rails_word())
        ->capture_default_str();
    auto* again =
        command.add_flag("--retest", line.retest, "measure suspects again with good nodes (default with quick)");
    command.add_flag("--no-retest", line.no_retest, "do not")->excludes(again);
    command.add_option("--seed", line.options.seed, "of the random rounds")->type_name("N")->capture_default_str();
}

void add_measure(CLI::App& command, PairsLine& line) {
    auto& measure = line.options.measure;
    add_number(command, "-D,--seconds", line.seconds, "for each direction; 10 for a thorough test", 0.1, 3600.0,
               "SECONDS");
    command.add_option("-s,--size", measure.message_size, "bytes of one write, a multiple of 8 up to 1G (default: 1M)")
        ->type_name("BYTES")
        ->transform(CLI::AsSizeValue(false) & message_size());
    add_number(command, "-q,--qps", measure.queue_pairs, "queue pairs for each pairing", 1U, 256U);
    add_number(command, "--depth", measure.depth, "writes in flight on each queue pair", 2U, 8192U);
    auto* tclass = command.add_option("--traffic-class,--tclass", measure.traffic_class,
                                      "of the packets: DSCP x 4 (default: NCCL_IB_TC, or 0)");
    tclass->type_name("N")->check(CLI::Range(0U, most_traffic_class));
    line.traffic_class = tclass;
    auto* level =
        command.add_option("--service-level,--sl", measure.service_level, "of InfiniBand (default: NCCL_IB_SL, or 0)");
    level->type_name("N")->check(CLI::Range(0U, most_service_level));
    line.service_level = level;
    command.add_flag("--gpu", measure.gpu, "memory of the GPU next to each HCA, not of the host");
    command.add_flag("--tcp", measure.tcp, "TCP between the same ports, too");
    command.add_flag("--no-latency", line.no_latency, "bandwidth alone");
    command.add_flag("--no-both", line.no_both, "not both ways at once");
}

void add_rules(CLI::App& command, JudgeRules& rules) {
    add_number(command, "--slow-below", rules.share_of_median, "slow is what has less than this share of the median",
               0.0, 1.0, "SHARE");
    add_number(command, "--deviations", rules.deviations, "or lies so many scaled median deviations below it", 0.0,
               1000.0);
    add_number(command, "--floor", rules.floor_share, "or has less than this share of the link's rate; 0: no floor",
               0.0, 1.0, "SHARE");
    add_number(command, "--slow-pairs", rules.share_of_pairs, "a node is slow when this share of its pairs is", 0.0,
               1.0, "SHARE");
    add_number(command, "--latency-factor", rules.latency_factor, "slow is a latency of so many times the median", 1.0,
               1e6);
}

} // namespace

void add_pairs_command(CLI::App& app, int& exit_code) {
    auto line = std::make_shared<PairsLine>();
    auto* command = app.add_subcommand("pairs", "RDMA bandwidth and latency between all nodes of a step, pair by pair: "
                                                "srun --rdma-nccl rdma-nccl pairs");
    // A script's own options and then the user's: his win.
    command->option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    add_schedule(*command, *line);
    add_measure(*command, *line);
    add_limit_options(*command, line->limits);
    add_rules(*command, line->options.rules);
    add_form_options(*command, line->options, "write a line for each direction as CSV; - prints it",
                     "write a page with heat map, distribution and rails");
    command->option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::Throw);
    add_settings_options(*command, line->options.settings);
    command->callback([line, &exit_code] { exit_code = run_pairs(options_of(*line)); });
}

} // namespace rdma_nccl
