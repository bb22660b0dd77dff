// SPDX-License-Identifier: Apache-2.0
// rank, node or pod: which meaning RANK and WORLD_SIZE get (doc/design.md, Environment), and what kind of program a
// step runs, which has a say in it.
#pragma once

#include "lib/settings.h"
#include "lib/step.h"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

/// Told from the command line.
enum class ProgramKind {
    Ordinary,
    Launcher,      ///< starts the ranks of a node itself: torchrun, accelerate, deepspeed, composer, rdma-nccl run
    RuntimeDaemon, ///< starts another runtime's daemons, whose ranks are not ours: orted, prted, hydra_pmi_proxy
};

struct Program {
    ProgramKind kind = ProgramKind::Ordinary;
    std::string name; ///< the word that told, "torchrun"
};

/// Looks through env, numactl and the like, `python -m MODULE`, and the words of `bash -c TEXT`; scripts are not
/// opened.
Program classify_program(std::span<const std::string> argv);

struct LayoutChoice {
    Layout layout = Layout::Rank; ///< never Auto
    std::string why;
    std::vector<std::string> warnings;
    bool spawn = false; ///< `rdma-nccl run` is to be put in front of the program
};

/// `visible_gpus`: GPUs this node's tasks see. Uses nothing that differs between nodes but that number.
LayoutChoice choose_layout(const Settings& settings, const Step& step, const Program& program, unsigned visible_gpus);

std::string_view layout_name(Layout layout);

} // namespace rdma_nccl
