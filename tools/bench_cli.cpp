// SPDX-License-Identifier: Apache-2.0
#include "lib/format.h"
#include "lib/text.h"
#include "tools/bench.h"
#include "tools/exit_codes.h"
#include "tools/print.h"
#include "tools/ring_rank.h"

#include <memory>

namespace rdma_nccl {

namespace {

using std::chrono::milliseconds;

/// As the line has it; options_of() makes sense of it.
struct BenchLineOptions {
    BenchOptions options;
    std::vector<std::string> operations = {"all_reduce"};
    std::string first = "1M", last = "1G";
    unsigned factor = 4;
    double limit_s = 60;
    double time_limit_s = 0; ///< 0: none
    double join_s = 60;
    unsigned rings = 0;
    bool no_check = false;
    bool ring_rank = false;
};

milliseconds to_time(double seconds) {
    constexpr double thousand = 1000;
    return milliseconds(static_cast<std::int64_t>(seconds * thousand));
}

CLI::Validator size_word() {
    return {[](const std::string& text) {
                return parse_size(text) ? ""
                                        : "a size is bytes, or has K, M or G behind it (powers of 1024), up to 1024G";
            },
            ""};
}

CLI::Validator operation_word() {
    return {[](std::string& text) -> std::string {
                if (const auto operation = parse_collective(text)) {
                    text = name_of(*operation);
                    return {};
                }
                const auto near = nearest_word(text, collective_names());
                std::string all;
                for (const auto name : collective_names()) {
                    all += (all.empty() ? "" : ", ") + std::string(name);
                }
                return format_text("{} is no operation{}; there are: {}", printable(text),
                                   near ? format_text(" (did you mean {}?)", *near) : "", all);
            },
            ""};
}

std::vector<std::string> words(const std::vector<std::string_view>& names) {
    return {names.begin(), names.end()};
}

Result<BenchOptions> options_of(const BenchLineOptions& line) {
    auto options = line.options;
    auto sizes = sizes_between(parse_size(line.first).value_or(0), parse_size(line.last).value_or(0), line.factor);
    if (!sizes) {
        return tl::unexpected(sizes.error());
    }
    options.work.sizes = std::move(*sizes);
    options.work.operations.clear();
    for (const auto& name : line.operations) {
        options.work.operations.push_back(parse_collective(name).value_or(Collective::AllReduce));
    }
    options.work.check = !line.no_check;
    options.limit = to_time(line.limit_s);
    options.join_time = to_time(line.join_s);
    if (line.time_limit_s > 0) {
        options.time_limit = to_time(line.time_limit_s);
    }
    if (line.rings > 0) {
        options.rings = line.rings;
    }
    if (options.host && (options.work.operations != std::vector{Collective::AllReduce} ||
                         options.work.type != "float" || options.work.redop != "sum")) {
        return fail("--host has all_reduce of float, sum, alone");
    }
    return options;
}

void add_runs(CLI::App& command, BenchLineOptions& line) {
    auto& options = line.options;
    command.add_option("--gpus", options.ranks, "numbers of GPUs, one run set each (default: 2, 4, 8, ... and all)")
        ->type_name("N,...")
        ->delimiter(',')
        ->check(CLI::Range(1U, 1000000U));
    auto* without_gpu_direct = command.add_flag("--no-gpudirect-run", options.without_gpu_direct,
                                                "measure RDMA without GPUDirect, too (run C)");
    auto* host = command.add_flag("--host", options.host, "no GPUs: an own ring in the hosts' memory, verbs and TCP");
    without_gpu_direct->excludes(host);
    command.add_option("--rings", line.rings, "with --host: so many HCAs of each node (default: all)")
        ->type_name("N")
        ->check(CLI::Range(1U, 64U))
        ->needs(host);
    command
        .add_option("--nccl", options.nccl,
                    "NCCL's libnccl.so.2, or a directory with it, such as a Python environment (default: the active "
                    "environment's, else the system's)")
        ->type_name("PATH")
        ->check(not_empty())
        ->excludes(host);
    command.add_option("--ranks-per-gpu", options.ranks_per_gpu)->group("")->check(CLI::Range(1U, 8U));
    command.add_flag("--ring-rank", line.ring_rank)->group(""); // what --host starts
}

void add_measure(CLI::App& command, BenchLineOptions& line) {
    auto& work = line.options.work;
    command
        .add_option("--op,--operation", line.operations,
                    "all_reduce (default), all_gather, reduce_scatter, alltoall, broadcast, sendrecv; several with "
                    "commas")
        ->type_name("WORD,...")
        ->delimiter(',')
        ->transform(operation_word());
    command.add_option("-b,--minbytes", line.first, "first size")
        ->type_name("SIZE")
        ->check(size_word())
        ->capture_default_str();
    command.add_option("-e,--maxbytes", line.last, "last size")
        ->type_name("SIZE")
        ->check(size_word())
        ->capture_default_str();
    command.add_option("-f,--stepfactor", line.factor, "from size to size")
        ->type_name("N")
        ->check(CLI::Range(2U, 1024U))
        ->capture_default_str();
    command
        .add_option("-d,--datatype", work.type,
                    "int8, uint8, int32, uint32, int64, uint64, half, float, double, bfloat16")
        ->type_name("WORD")
        ->check(CLI::IsMember(words(bench_types())))
        ->capture_default_str();
    command.add_option("-o,--redop", work.redop, "sum, prod, max, min, avg")
        ->type_name("WORD")
        ->check(CLI::IsMember(words(bench_reductions())))
        ->capture_default_str();
    command.add_option("-r,--root-rank", work.root, "of broadcast")
        ->type_name("RANK")
        ->check(CLI::Range(0, 1000000))
        ->capture_default_str();
    command.add_option("-n,--iters", work.iterations, "calls in a batch, whose time is divided by them")
        ->type_name("N")
        ->check(CLI::Range(1U, 1000000U))
        ->capture_default_str();
    command.add_option("-w,--warmup-iters", work.warm_up, "calls before, for each size")
        ->type_name("N")
        ->check(CLI::Range(0U, 1000000U))
        ->capture_default_str();
    command.add_option("--repeats", work.repeats, "batches; the median counts")
        ->type_name("N")
        ->check(CLI::Range(1U, 1000U))
        ->capture_default_str();
    command.add_option("--batch-seconds", work.batch_seconds, "a batch that would take longer has fewer calls")
        ->type_name("SECONDS")
        ->check(CLI::Range(0.001, 3600.0))
        ->capture_default_str();
    command.add_flag("--no-check", line.no_check, "do not compare values");
}

void add_limits(CLI::App& command, BenchLineOptions& line) {
    constexpr double most_seconds = 7 * 86400.0;
    command.add_option("--limit", line.limit_s, "a run in which nothing happens for so long is ended")
        ->type_name("SECONDS")
        ->check(CLI::Range(1.0, most_seconds))
        ->capture_default_str();
    command.add_option("--time-limit", line.time_limit_s, "end after so long, and tell what is known then")
        ->type_name("SECONDS")
        ->check(CLI::Range(1.0, most_seconds));
    command.add_option("--join", line.join_s, "how long the nodes are waited for")
        ->type_name("SECONDS")
        ->check(CLI::Range(1.0, most_seconds))
        ->capture_default_str();
}

void add_forms(CLI::App& command, BenchOptions& options) {
    command.add_flag("--json", options.json, "print JSON");
    auto* csv = command.add_option("--csv", options.csv, "write a line for each size of each run as CSV; - prints it");
    csv->type_name("FILE")->check(not_empty());
    command.add_option("--html", options.html, "write a page with the bandwidths over the sizes")
        ->type_name("FILE")
        ->check(not_empty());
    command.add_flag("--quiet", options.quiet, "no progress on stderr");
}

int run_line(const BenchLineOptions& line) {
    if (line.ring_rank) {
        return run_ring_rank();
    }
    const auto options = options_of(line);
    if (!options) {
        print_error(options.error().message);
        return exit_bad_line;
    }
    return run_bench(*options);
}

} // namespace

void add_bench_command(CLI::App& app, int& exit_code) {
    auto line = std::make_shared<BenchLineOptions>();
    auto* command = app.add_subcommand("bench", "NCCL's bandwidth with RDMA and without: srun --rdma-nccl rdma-nccl "
                                                "bench");
    add_runs(*command, *line);
    add_measure(*command, *line);
    add_limits(*command, *line);
    add_forms(*command, line->options);
    add_settings_options(*command, line->options.settings);
    command->callback([line, &exit_code] { exit_code = run_line(*line); });
}

} // namespace rdma_nccl
