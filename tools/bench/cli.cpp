// SPDX-License-Identifier: Apache-2.0
#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "tools/bench/bench.h"
#include "tools/bench/output.h"
#include "tools/bench/ring/ring.h"
#include "tools/common/command_line.h"
#include "tools/common/print.h"

#include <memory>

namespace rdma_nccl::bench {

namespace {

/// The options as given on the command line; options_of() interprets them.
struct LineOptions {
    Options options;
    std::vector<std::string> operations = {"all_reduce"};
    std::string first = "1M", last = "1G";
    unsigned factor = 4;
    unsigned rings = 0;
    bool no_check = false;
    bool ring_rank = false;
};

std::string check_size(const std::string& text) {
    return parse_message_size(text) ? "" : "a size is bytes, or has K, M, G or T behind it (powers of 1024), up to 1T";
}

/// Replaces `text` by the operation's canonical name. Returns an error message, or an empty string.
std::string parse_operation(std::string& text) {
    if (const auto operation = parse_collective(text)) {
        text = name_of(*operation);
        return {};
    }
    const auto near = nearest_word(text, collective_names());
    return format_text("{} is no operation{}; there are: {}", printable(text),
                       near ? format_text(" (did you mean {}?)", *near) : "", joined(collective_names()));
}

std::vector<std::string> texts(const std::vector<std::string_view>& names) {
    return {names.begin(), names.end()};
}

Result<Options> options_of(const LineOptions& line) {
    auto options = line.options;
    auto sizes = sizes_between(parse_message_size(line.first).value_or(0), parse_message_size(line.last).value_or(0),
                               line.factor);
    if (!sizes) {
        return tl::unexpected(sizes.error());
    }
    options.work.sizes = std::move(*sizes);
    options.work.operations = mapped(line.operations, [](const std::string& name) {
        return parse_collective(name).value_or(Collective::AllReduce);
    });
    options.work.check = !line.no_check;
    if (line.rings > 0) {
        options.rings = line.rings;
    }
    if (options.host && (options.work.operations != std::vector{Collective::AllReduce} ||
                         options.work.type != "float" || options.work.redop != "sum")) {
        return fail("--host has all_reduce of float, sum, alone");
    }
    return options;
}

void add_runs(const Subcommand& command, LineOptions& line) {
    auto& options = line.options;
    command.option("--gpus", options.ranks, "numbers of GPUs, one run set each (default: 2, 4, 8, ... and all)")
        .type_name("N,...")
        .values_with_commas()
        .range(1U, most_ranks);
    const auto without_gpu_direct =
        command.flag("--no-gpudirect-run", options.without_gpu_direct, "measure RDMA without GPUDirect, too (run C)");
    const auto host = command.flag("--host", options.host, "no GPUs: a built-in ring in host memory, verbs and TCP");
    without_gpu_direct.excludes(host);
    command.option("--rings", line.rings, "with --host: number of HCAs per node (default: all)")
        .type_name("N")
        .range(1U, most_rings)
        .needs(host);
    command
        .option("--nccl", options.nccl,
                "NCCL's libnccl.so.2, or a directory with it, such as a Python environment (default: the active "
                "environment's, else the system's)")
        .type_name("PATH")
        .not_empty()
        .excludes(host);
    command.option("--ranks-per-gpu", options.ranks_per_gpu, "").hidden().range(1U, 8U);
    command.flag("--ring-rank", line.ring_rank, "").hidden(); // --host starts ranks with this
}

void add_measure(const Subcommand& command, LineOptions& line) {
    auto& work = line.options.work;
    command.option("--op,--operation", line.operations, "what is measured, several with commas (default: all_reduce)")
        .type_name((joined(collective_names(), "|") + ",...").c_str())
        .values_with_commas()
        .transform(parse_operation);
    const auto word = [&command](const char* names, std::string& value, const char* what) {
        return command.option(names, value, what).shows_default();
    };
    word("-b,--minbytes", line.first, "first size").type_name("SIZE").check(check_size);
    word("-e,--maxbytes", line.last, "last size").type_name("SIZE").check(check_size);
    command.number("-f,--stepfactor", line.factor, "factor between sizes", 2U, 1024U);
    word("-d,--datatype", work.type, "type of an element").one_of(texts(type_names()));
    word("-o,--redop", work.redop, "how elements are reduced").one_of(texts(reduction_names()));
    command.number("-r,--root-rank", work.root, "root of broadcast", 0, int{most_ranks}, "RANK");
    command.number("-n,--iters", work.iterations, "calls in a batch, whose time is divided by them", 1U, most_calls);
    command.number("-w,--warmup-iters", work.warm_up, "warm-up calls per size", 0U, most_calls);
    command.number("--repeats", work.repeats, "batches; the median counts", 1U, most_repeats);
    command.number("--batch-seconds", work.batch_seconds, "a batch that would take longer has fewer calls", 0.001,
                   longest_batch_s, "SECONDS");
    command.flag("--no-check", line.no_check, "do not compare values");
}

/// Returns the exit code.
int write_report(const Report& report, const Options& options) {
    const auto summary = summarize(report);
    if (report.runs.empty()) {
        print_error(report.ended_early.empty() ? "nothing was measured" : report.ended_early);
        if (!options.json) {
            return exit_cannot_tell;
        }
    }
    const measure::Formats forms{.text = [&] { return write_text(report, summary); },
                                 .json = [&] { return write_json(report, summary).dump(2) + "\n"; },
                                 .csv = [&] { return write_csv(report); },
                                 .html = [&] { return write_html(report); }};
    return measure::write_formats(forms, options) ? summary.exit_code : exit_cannot_tell;
}

int run_line(const LineOptions& line) {
    if (line.ring_rank) {
        return run_ring_rank();
    }
    const auto options = options_of(line);
    if (!options) {
        print_error(options.error().message);
        return exit_bad_line;
    }
    return measure::run_command(
        {.name = "bench",
         .purpose = KeyPurpose::Bench,
         .own_part = "the ranks",
         .suits = {},
         .take_part = [&](const auto& world, const auto& /*settings*/) { return serve_ranks(world, *options); },
         .lead = [&](auto& head, const auto& world, auto& progress) -> measure::ReportPrinter {
             return [&options, report = coordinate_runs(head, world, *options, progress)] {
                 return write_report(report, *options);
             };
         }},
        *options);
}

} // namespace

void add_command(const Subcommand& app, int& exit_code) {
    auto line = std::make_shared<LineOptions>();
    const auto command = app.subcommand("bench", "NCCL's bandwidth with RDMA and without: srun --rdma-nccl rdma-nccl "
                                                 "bench");
    add_runs(command, *line);
    add_measure(command, *line);
    command.number("--limit", line->options.limit_s, "end a run after this long without progress", 1.0,
                   measure::max_seconds, "SECONDS");
    measure::add_limits(command, line->options);
    measure::add_formats(command, line->options, "write a line for each size of each run as CSV; - prints it",
                         "write a page with the bandwidths over the sizes");
    add_settings_options(command, line->options.settings);
    command.on_run([line, &exit_code] { exit_code = run_line(*line); });
}

} // namespace rdma_nccl::bench
