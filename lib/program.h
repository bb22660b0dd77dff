// SPDX-License-Identifier: Apache-2.0
// What kind of program a step runs, told from its command line.
#pragma once

#include <span>
#include <string>

namespace rdma_nccl {

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

} // namespace rdma_nccl
