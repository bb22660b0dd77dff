// SPDX-License-Identifier: Apache-2.0
#include "tools/run_options.h"

#include "lib/format.h"
#include "lib/text.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <span>
#include <string_view>

namespace rdma_nccl {

namespace {

using std::chrono::milliseconds;

constexpr double longest_timeout_s = 1e6;

/// Options of torchrun that this version lacks: named as such, because scripts bring them along.
constexpr std::array<std::string_view, 24> later_options = {"rdzv-backend",
                                                            "rdzv-endpoint",
                                                            "rdzv-id",
                                                            "rdzv-conf",
                                                            "standalone",
                                                            "max-restarts",
                                                            "monitor-interval",
                                                            "start-method",
                                                            "event-log-handler",
                                                            "role",
                                                            "run-path",
                                                            "log-dir",
                                                            "r",
                                                            "redirects",
                                                            "t",
                                                            "tee",
                                                            "local-ranks-filter",
                                                            "duplicate-stdout-filters",
                                                            "duplicate-stderr-filters",
                                                            "local-addr",
                                                            "logs-specs",
                                                            "numa-binding",
                                                            "signals-to-handle",
                                                            "virtual-local-rank"};

/// The CLI11 description of the options, which store into `options`; timeout is checked after parsing.
class RunCommandLine {
public:
    explicit RunCommandLine(RunOptions& options) {
        app_.name("rdma-nccl run");
        add_value("-n,--nproc-per-node,--nproc_per_node", options.nproc_per_node, "N",
                  "ranks on this node: a number, gpu, auto or cpu (default: one per visible GPU)");
        add_value("--nnodes", options.nnodes, "N", "number of nodes");
        add_value("--node-rank,--node_rank", options.node_rank, "N", "rank of this node, 0 to nnodes - 1");
        add_value("--master-addr,--master_addr", options.master_addr, "ADDR", "name or address of node 0");
        add_value("--master-port,--master_port", options.master_port, "PORT",
                  "port on node 0 for the rendezvous of the ranks");
        app_.add_flag("--no-python,--no_python", options.no_python, "execute PROGRAM as it is, even a *.py");
        app_.add_flag("-m,--module", options.module, "PROGRAM is a Python module (python -u -m PROGRAM)");
        app_.add_flag_callback(
            "--no-torchelastic-env", [&options] { options.torchelastic_environment = false; },
            "do not give the ranks TORCHELASTIC_* (Lightning then keeps its Slurm requeue)");
        add_value("--shutdown-timeout,--shutdown_timeout", timeout_, "SECONDS",
                  "time between the end signal and SIGKILL (default: 30)");
        add_value("--bind", options.bind, "WHAT",
                  "auto, off, cpu or cpu+mem: put each rank on CPUs and memory near its GPU (default: auto, or "
                  "RDMA_NCCL_BIND)");
        app_.add_option("--root", options.root, "find GPUs and CPUs below this directory (default: /)")
            ->type_name("DIR")
            ->take_last();
    }

    CLI::App& app() { return app_; }
    /// PROGRAM is no positional of CLI11's, see count_own_words().
    [[nodiscard]] std::string help() const {
        constexpr std::string_view options_only = "[OPTIONS]";
        std::string text = app_.help();
        if (const auto place = text.find(options_only); place != std::string::npos) {
            text.insert(place + options_only.size(), " [--] PROGRAM [ARGS...]");
        }
        return text;
    }
    [[nodiscard]] const std::optional<std::string>& timeout() const { return timeout_; }

private:
    void add_value(const std::string& names, std::optional<std::string>& value, const std::string& type,
                   const std::string& text) {
        // The last one counts, as with argparse: scripts add to a command line's end.
        app_.add_option(names, value, text)->type_name(type)->take_last();
    }

    CLI::App app_{"Starts one rank per GPU on this node and ends them together.\n"
                  "Values not given come from PET_* (torchrun's variables), NNODES, NODE_RANK, MASTER_ADDR and "
                  "MASTER_PORT, then from Slurm's step; else the world is this node alone."};
    std::optional<std::string> timeout_;
};

bool is_option(std::string_view word) {
    return word.size() > 1 && word.front() == '-';
}

/// The option's own part of a word: "--nnodes=2" gives "--nnodes", "-n4" gives "-n".
std::string option_name(std::string_view word) {
    return std::string(word.starts_with("--") ? split_once(word, '=').key : word.substr(0, 2));
}

std::string unknown_option(const std::string& name, const CLI::App& app) {
    std::string plain(name.substr(name.find_first_not_of('-')));
    std::replace(plain.begin(), plain.end(), '_', '-');
    if (std::find(later_options.begin(), later_options.end(), plain) != later_options.end()) {
        return format_text("torchrun's option {} is not available in this version of rdma-nccl run", name);
    }
    std::vector<std::string> names;
    for (const auto* option : app.get_options()) {
        for (const auto& long_name : option->get_lnames()) {
            names.push_back("--" + long_name);
        }
    }
    const auto nearest = nearest_word(name, {names.begin(), names.end()});
    return format_text("unknown option {}{}; options of the program stand behind its name", printable(name),
                       nearest ? format_text(" (did you mean {}?)", *nearest) : "");
}

/// The number of words at the start that are the launcher's own: CLI11 cannot be trusted with the program's, as it
/// takes those apart that look like lists ("[1,2]") or like a subcommand.
Result<std::size_t> count_own_words(const std::vector<std::string>& arguments, const CLI::App& app) {
    std::size_t i = 0;
    while (i < arguments.size() && arguments[i] != "--" && is_option(arguments[i])) {
        const auto name = option_name(arguments[i]);
        const auto* const option = app.get_option_no_throw(name);
        if (option == nullptr) {
            return fail(unknown_option(name, app));
        }
        const bool takes_value = option->get_items_expected_min() > 0;
        const bool has_value = arguments[i].size() > name.size();
        i += takes_value && !has_value ? 2 : 1;
    }
    if (i > arguments.size()) {
        return fail(format_text("option {} needs a value", arguments.back()));
    }
    return i;
}

Result<milliseconds> parse_timeout(const std::string& text) {
    double seconds = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, seconds);
    if (error != std::errc{} || stop != end || !(seconds >= 0 && seconds <= longest_timeout_s)) {
        return fail(format_text("--shutdown-timeout \"{}\": seconds are wanted, 0 to {}", printable(text),
                                static_cast<long>(longest_timeout_s)));
    }
    return milliseconds(std::lround(seconds * 1000));
}

} // namespace

Result<ParsedRunOptions> parse_run_options(const std::vector<std::string>& arguments) {
    ParsedRunOptions parsed;
    RunOptions& options = parsed.options;
    RunCommandLine line(options);
    const auto own = count_own_words(arguments, line.app());
    if (!own) {
        return tl::unexpected(own.error());
    }
    auto program = std::span(arguments).subspan(*own);
    if (!program.empty() && program.front() == "--") {
        program = program.subspan(1);
    }
    options.program.assign(program.begin(), program.end());
    try {
        // CLI11 wants the words from last to first.
        line.app().parse(
            std::vector<std::string>(arguments.rend() - static_cast<std::ptrdiff_t>(*own), arguments.rend()));
    } catch (const CLI::CallForHelp&) {
        parsed.help = line.help();
        return parsed;
    } catch (const CLI::ParseError& error) {
        return fail(error.what());
    }
    if (line.timeout()) {
        const auto timeout = parse_timeout(*line.timeout());
        if (!timeout) {
            return tl::unexpected(timeout.error());
        }
        options.shutdown_timeout = *timeout;
    }
    if (options.module && options.no_python) {
        return fail("--module and --no-python exclude each other");
    }
    if (options.program.empty()) {
        return fail("no program to run: rdma-nccl run [OPTIONS] [--] PROGRAM [ARGS...]");
    }
    return parsed;
}

} // namespace rdma_nccl
