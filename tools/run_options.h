// SPDX-License-Identifier: Apache-2.0
// The command line of `rdma-nccl run`: torchrun's names for torchrun's things.
#pragma once

#include "lib/result.h"
#include "tools/run_output_options.h"

#include <chrono>
#include <csignal>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace rdma_nccl {

/// One program of several in a world (`--rank 0-7 ./a : ./b`).
struct RankProgram {
    std::vector<std::pair<unsigned, unsigned>> ranks; ///< global, first and last; empty: those that no other names
    std::vector<std::string> program;                 ///< with its arguments; never empty
};

/// Values as typed; what they mean, and what holds where one is absent, is decided by plan_world().
struct RunOptions {
    std::optional<std::string> nproc_per_node;
    std::optional<std::string> nnodes;
    std::optional<std::string> node_rank;
    std::optional<std::string> master_addr;
    std::optional<std::string> master_port;
    bool module = false;    ///< the program is a Python module
    bool no_python = false; ///< run the program as it is, even a *.py
    bool torchelastic_environment = true;
    std::chrono::milliseconds shutdown_timeout{30000}; ///< between the end signal and SIGKILL
    std::optional<std::string> bind;                   ///< as typed; absent: as the settings say
    std::string root;                                  ///< empty: the site's, else "/"
    std::vector<std::string> program;                  ///< with its arguments; never empty
    std::vector<RankProgram> others;                   ///< beside `program`, which is then for the ranks left over

    std::optional<std::string> rdzv_id;
    std::string role = "default";
    bool standalone = false;         ///< this node is a world of its own, whatever the step is
    bool virtual_local_rank = false; ///< every rank sees its one GPU as the first
    unsigned max_restarts = 0;
    int no_restart_code = 93;     ///< a rank that ends with this is not started again
    std::map<int, int> on_signal; ///< instead of ending the job or being passed on, a signal becomes another
    std::set<int> end_signals{SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    OutputOptions output;
    std::string report_file; ///< for the failure report as JSON; empty: none
    bool dry_run = false;
    bool preflight = true;
    std::chrono::seconds node_timeout{15};          ///< silence after which a node counts as lost
    std::optional<std::chrono::seconds> hang_after; ///< absent: no hang watch
    bool hang_kill = false;                         ///< end the job that hangs, not just tell
    std::vector<std::string> notes;                 ///< options that have no meaning here, in one line each
};

struct ParsedRunOptions {
    RunOptions options;
    std::optional<std::string> help; ///< --help was given: this text is all there is to do
};

/// `arguments` are those behind the word "run". Options end at "--" or at the first word that is none: that is PROGRAM,
/// and everything behind it is the program's, however it looks.
Result<ParsedRunOptions> parse_run_options(const std::vector<std::string>& arguments);

} // namespace rdma_nccl
