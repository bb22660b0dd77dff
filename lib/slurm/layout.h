// SPDX-License-Identifier: Apache-2.0
// Chooses the layout rank, node or pod, which decides what RANK and WORLD_SIZE mean, and classifies the program that a
// step runs, which influences that choice.
#pragma once

#include "lib/settings/settings.h"
#include "lib/slurm/step.h"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

/// The kind of program that a step runs, judged by the command line.
enum class ProgramKind {
    Ordinary,
    Launcher,      ///< starts the ranks of a node itself: torchrun, accelerate, deepspeed, composer, rdma-nccl run
    RuntimeDaemon, ///< starts another runtime's daemons, which start its ranks: orted, prted, hydra_pmi_proxy
};

struct Program {
    ProgramKind kind = ProgramKind::Ordinary;
    std::string name; ///< the word that decided the kind, "torchrun"
};

/// Classifies a program by its command line. Looks through env, numactl and similar wrappers, `python -m MODULE`, and
/// the words of `bash -c TEXT`. Does not open scripts.
Program classify_program(std::span<const std::string> argv);

struct LayoutChoice {
    Layout layout = Layout::Rank; ///< never Auto
    std::string why;
    std::vector<std::string> warnings;
    bool spawn = false; ///< put `rdma-nccl run` in front of the program
};

/// `visible_gpus`: number of GPUs that this node's tasks see. Only this input may differ between nodes.
LayoutChoice choose_layout(const Settings& settings, const Step& step, const Program& program, unsigned visible_gpus);

std::string_view layout_name(Layout layout);

} // namespace rdma_nccl
