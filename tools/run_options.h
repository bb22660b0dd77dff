// SPDX-License-Identifier: Apache-2.0
// The command line of `rdma-nccl run`: torchrun's names for torchrun's things.
#pragma once

#include "lib/environment.h"
#include "lib/result.h"

#include <chrono>
#include <csignal>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace rdma_nccl {

/// Which of a rank's streams something is about; torchrun's --redirects and --tee.
struct Streams {
    bool out = false;
    bool err = false;

    friend bool operator==(const Streams&, const Streams&) = default;
};

/// The same for all local ranks, or other ones for some ("0:1,1:3").
struct RankStreams {
    Streams all;
    std::map<unsigned, Streams> of_rank;

    [[nodiscard]] Streams of(unsigned local_rank) const {
        const auto found = of_rank.find(local_rank);
        return found == of_rank.end() ? all : found->second;
    }
};

/// What becomes of the ranks' output.
struct OutputOptions {
    bool raw = false;                        ///< the ranks write to the launcher's own stdout and stderr, byte by byte
    std::string prefix = "[{host} {rank}] "; ///< see run_prefix.h; empty: none
    std::string log_dir;                     ///< empty: below TMPDIR, where `redirects` or `tee` want files
    RankStreams redirects;                   ///< to files instead of the console
    RankStreams tee;                         ///< to files and the console
    std::optional<std::set<unsigned>> only;  ///< local ranks that the console shows; absent: all
    bool announce = false;                   ///< lines about each rank's START and END, with the time
    std::string events;                      ///< file for the stream of events as JSON lines; empty: none
};

/// Global ranks, first to last.
using RankRange = std::pair<unsigned, unsigned>;

/// One program of several in a world (`--rank 0-7 ./a : ./b`), or the only one.
struct RankProgram {
    std::vector<RankRange> ranks;     ///< empty: those that no other program has
    std::vector<std::string> program; ///< with its arguments; never empty
};

/// torchrun's --rdzv-endpoint: where the launchers would meet.
struct RdzvEndpoint {
    std::string host; ///< without the brackets of an IPv6 address
    std::optional<std::uint16_t> port;
    std::string source; ///< "--rdzv-endpoint" or "PET_RDZV_ENDPOINT"
};

enum class DryRun { Off, Text, Json };

/// Those values are kept as typed whose meaning depends on the step: plan_world() decides it, and what holds where one
/// is absent.
struct RunOptions {
    std::optional<std::string> nproc_per_node;
    std::optional<std::string> nnodes;
    std::optional<std::string> node_rank;
    std::optional<std::string> master_addr;
    std::optional<std::string> master_port;
    std::string rdzv_backend = "static";
    std::optional<RdzvEndpoint> rdzv_endpoint;
    std::optional<std::string> rdzv_id;
    bool standalone = false; ///< this node is a world of its own, whatever the step is

    bool module = false;               ///< the programs are Python modules
    bool no_python = false;            ///< execute the programs as they are, even a *.py
    bool run_path = false;             ///< the programs are Python files, whatever their names
    std::vector<RankProgram> programs; ///< one or more; at most one without ranks
    std::string role = "default";
    bool virtual_local_rank = false; ///< every rank sees its one GPU as the first
    bool torchelastic_environment = true;
    std::optional<std::string> bind; ///< as typed; absent: as the settings say
    std::string root;                ///< empty: the site's, else "/"
    OutputOptions output;

    std::set<int> end_signals{SIGINT, SIGTERM, SIGHUP, SIGQUIT}; ///< as torchrun has them
    std::map<int, int> on_signal; ///< instead of ending the job or being passed on, a signal becomes another
    std::chrono::milliseconds shutdown_timeout{30000}; ///< between the end signal and SIGKILL
    unsigned max_restarts = 0;
    int no_restart_code = 93;                       ///< a rank that ends with this is not started again
    std::chrono::seconds node_timeout{15};          ///< silence after which a node counts as lost
    std::chrono::seconds join_timeout{60};          ///< how long launchers wait for each other, from the start
    std::optional<std::chrono::seconds> hang_after; ///< absent: no hang watch
    bool hang_kill = false;                         ///< end the job that hangs, not just tell
    std::string report_file;                        ///< for the failure report as JSON; empty: none
    bool preflight = true;
    DryRun dry_run = DryRun::Off;
    std::vector<std::string> notes; ///< about options that mean nothing here, or not quite what they say; a line each
};

struct ParsedRunOptions {
    RunOptions options;
    std::optional<std::string> help; ///< --help was given: this text is all there is to do
};

/// `arguments` are those behind the word "run". Options end at "--" or at the first word that is none: that is PROGRAM,
/// and everything behind it is the program's, however it looks; but where --rank is given, a word ":" ends a program's
/// arguments, the next program follows ([--rank RANGES] [--] PROGRAM [ARGS...]), and an argument of two or more colons
/// stands for itself with one colon less.
///
/// As in torchrun, a long option may be cut short where that is no other of torchrun's, and one that is not on the
/// command line is taken from PET_<OPTION> in `environment`, where that is set and not empty. Fails with a message that
/// names the option or variable, its value and what is valid.
Result<ParsedRunOptions> parse_run_options(const std::vector<std::string>& arguments, const Environment& environment);

} // namespace rdma_nccl
