// SPDX-License-Identifier: Apache-2.0
// The command line of `rdma-nccl run`: torchrun's names for torchrun's things.
#pragma once

#include "lib/result.h"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl {

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
};

struct ParsedRunOptions {
    RunOptions options;
    std::optional<std::string> help; ///< --help was given: this text is all there is to do
};

/// `arguments` are those behind the word "run". Options end at "--" or at the first word that is none: that is PROGRAM,
/// and everything behind it is the program's, however it looks.
Result<ParsedRunOptions> parse_run_options(const std::vector<std::string>& arguments);

} // namespace rdma_nccl
