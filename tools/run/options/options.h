// SPDX-License-Identifier: Apache-2.0
// The command line of `rdma-nccl run`, with torchrun's names for options that torchrun has: options, the prefix of the
// ranks' lines, and the programs of a world.
#pragma once

#include "lib/base/result.h"
#include "lib/sys/environment.h"
#include "tools/run/process/process_set.h"

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rdma_nccl::run {

/// A selection of a rank's streams, for torchrun's --redirects and --tee.
struct Streams {
    bool out = false;
    bool err = false;

    friend bool operator==(const Streams&, const Streams&) = default;
};

/// A selection for all local ranks, or different ones for some ("0:1,1:3").
struct RankStreams {
    Streams all;
    std::map<unsigned, Streams> of_rank;

    [[nodiscard]] Streams of(unsigned local_rank) const {
        const auto found = of_rank.find(local_rank);
        return found == of_rank.end() ? all : found->second;
    }
};

/// What to do with the ranks' output.
struct OutputOptions {
    bool raw = false;                        ///< ranks write directly to the launcher's stdout and stderr
    std::string prefix = "[{host} {rank}] "; ///< see PrefixTemplate; empty: none
    std::string log_dir;                     ///< empty: below TMPDIR, if `redirects` or `tee` need files
    RankStreams redirects;                   ///< to files instead of the console
    RankStreams tee;                         ///< to files and the console
    std::optional<std::set<unsigned>> only;  ///< local ranks that the console shows; absent: all
    bool announce = false;                   ///< print a line when a rank starts or ends, with the time
    std::string events;                      ///< file for the events as JSON lines; empty: none
};

/// First and last global rank.
using RankRange = std::pair<unsigned, unsigned>;

/// One of the programs in a world (`--rank 0-7 ./a --and ./b`), or the only one.
struct RankProgram {
    std::vector<RankRange> ranks;          ///< empty: all ranks that no other program has
    std::vector<std::string> command_line; ///< the program and its arguments; never empty
};

/// torchrun's --rdzv-endpoint: where the launchers would connect.
struct RdzvEndpoint {
    std::string host; ///< without the brackets of an IPv6 address
    std::optional<std::uint16_t> port;
    std::string source; ///< "--rdzv-endpoint" or "PET_RDZV_ENDPOINT"
};

enum class DryRun { Off, Text, Json };

/// The options. Values whose meaning depends on the step are kept as typed: plan_world() interprets them, and chooses
/// the default of absent ones.
struct Options {
    std::optional<std::string> nproc_per_node;
    std::optional<std::string> nnodes;
    std::optional<std::string> node_rank;
    std::optional<std::string> master_addr;
    std::optional<std::string> master_port;
    std::string rdzv_backend = "static";
    std::optional<RdzvEndpoint> rdzv_endpoint;
    std::optional<std::string> rdzv_id;
    bool standalone = false; ///< this node is a world of its own, regardless of the step

    bool module = false;               ///< the programs are Python modules
    bool no_python = false;            ///< execute the programs as they are, even a *.py
    bool run_path = false;             ///< the programs are Python files, whatever their names
    std::vector<RankProgram> programs; ///< one or more; at most one without ranks
    std::string role = "default";
    bool virtual_local_rank = false; ///< every rank sees its one GPU as the first
    bool torchelastic_environment = true;
    std::optional<std::string> bind; ///< as typed; absent: from the settings
    std::string root;                ///< empty: from the site file, else "/"
    OutputOptions output;

    std::set<int> end_signals{SIGINT, SIGTERM, SIGHUP, SIGQUIT}; ///< torchrun's defaults
    std::map<int, int> on_signal; ///< signals that reach the ranks as others, and do not end the job
    std::chrono::milliseconds shutdown_timeout{30000}; ///< between the end signal and SIGKILL
    unsigned max_restarts = 0;
    int no_restart_code = 93;                       ///< no restart after a rank ended with this code
    std::chrono::seconds node_timeout{15};          ///< a node that is unresponsive for longer counts as lost
    std::chrono::seconds join_timeout{60};          ///< how long launchers wait for each other, from the start
    std::optional<std::chrono::seconds> hang_after; ///< absent: no hang watch
    bool hang_kill = false;                         ///< end a job that hangs, instead of only reporting it
    std::string report_file;                        ///< for the failure report as JSON; empty: none
    std::optional<std::string> recorder;            ///< as typed; absent: from the settings
    bool preflight = true;
    DryRun dry_run = DryRun::Off;
    std::vector<std::string> notes;  ///< about options that have no meaning here, or another one; one line each
    std::optional<std::string> help; ///< set by --help: the text to print instead of running
};

/// Parses `arguments`, the words after "run". Options end at "--" or at the first word that is not an option. PROGRAM
/// follows, and all words after it belong to it, or with --rank also to other programs (split_programs()).
///
/// As in torchrun, a long option may be abbreviated if the prefix is unique among torchrun's options, and an option
/// that is not on the command line is read from PET_<OPTION> in `environment` if that is set and not empty. Fails with
/// a message that names the option or variable, its value and the valid values.
Result<Options> parse_options(const std::vector<std::string>& arguments, const Environment& environment);

// The prefix of each line of a rank on the console: as the user gives it, and with the values of a rank.

/// The values of one stream's prefix; the members are named like the placeholders.
struct PrefixValues {
    std::string host;
    std::string rank;
    std::string local_rank;
    std::string node_rank;
    std::string role;
    std::string stream; ///< "stdout" or "stderr"
    std::string time{}; ///< time of the line
};

class PrefixTemplate {
public:
    /// Parses text with {host}, {rank}, {local_rank}, {node_rank}, {role}, {time} and {stream}; "{{" and "}}" stand for
    /// braces. Fails for other placeholders, which the error names, and for a single brace.
    static Result<PrefixTemplate> parse(std::string_view text);

    [[nodiscard]] std::string render(const PrefixValues& values) const;
    /// Returns true if the prefix contains the time, and so changes from line to line.
    [[nodiscard]] bool has_time() const;

private:
    struct Part {
        std::string text;
        std::string PrefixValues::*value = nullptr; ///< the value after the text
    };

    std::vector<Part> parts_{1};
};

/// Checks that the value of --prefix contains no {names} except those of a rank and {time}, and returns it.
Result<std::string> parse_prefix(std::string_view text);

/// Translates torchrun's TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE ("${role_name}${rank}: ") to our placeholders.
std::string prefix_of_template(std::string_view text);

// The programs of a world, which ranks run them, and the file to execute for each.

/// Splits "PROGRAM ARGS [--and [--rank RANGES] [--] PROGRAM ARGS]..."; a word ":" separates as "--and" does. `first`:
/// the ranks of the first program; if empty, it is the only program, and all words belong to it. An argument of two or
/// more colons loses one.
Result<std::vector<RankProgram>> split_programs(std::span<const std::string> args, std::vector<RankRange> first);

/// Returns the index into `programs` of each of `count` ranks from `first_rank` on. Fails if any rank of the world has
/// two programs or none, or if a program is for a rank outside of the world; the error names these ranks.
Result<std::vector<std::size_t>> assign_programs(const std::vector<RankProgram>& programs, unsigned world_size,
                                                 unsigned first_rank, unsigned count);

/// Returns the command of a program. Python files (*.py, or any file with --run-path) and modules run with
/// `${PYTHON_EXEC} -u`, or else with python3 or python from PATH; anything else is executed directly. The error's
/// `os_error` is ENOENT if the program does not exist, and EACCES if it cannot be executed.
Result<Command> find_program(const RankProgram& program, const Options& options, const Environment& environment);

/// Returns the commands of the `ranks` ranks from `first_rank` on, in a world of `world_size` ranks. Only programs that
/// run on this node must exist on it. Fails like find_program() and assign_programs(); errors of the latter have no
/// `os_error`.
Result<std::vector<Command>> find_commands(const Options& options, const Environment& environment, unsigned world_size,
                                           unsigned first_rank, unsigned ranks);

} // namespace rdma_nccl::run
