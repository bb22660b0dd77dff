// SPDX-License-Identifier: Apache-2.0
// What Slurm says about the job step, as plain values.
#pragma once

#include "lib/environment.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

/// What srun found out for all nodes, passed on in one variable of the step's environment. Its name starts with SLURM
/// so that
/// --export=NONE keeps it (env_array_merge_slurm_spank). It names its step: a copy inherited by a later step is not
/// taken.
struct StepNote {
    std::uint32_t job_id = 0;
    std::uint32_t step_id = 0;
    std::string head_node;    ///< node name of rank 0, from the step layout; empty: not known
    std::string head_address; ///< numeric address of that node as Slurm knows it; empty: not known
    std::uint16_t port = 0;   ///< first port of the derived block; 0: none
    /// Settings of srun's environment as option text; absent where they reach the node by themselves.
    std::string settings;
    bool unequal_gpus = false; ///< Slurm gave the nodes different numbers of GPUs; told only with exchange=off
};
inline constexpr std::string_view note_variable = "SLURM_RDMA_NCCL_NOTE";

std::string write_note(const StepNote& note);
/// Parsed as any input from outside: nullopt when malformed.
std::optional<StepNote> read_note(std::string_view text);

/// Step ids from here on are batch scripts, extern and interactive steps (SLURM_MAX_NORMAL_STEP_ID, slurm.h
/// since 20.11).
inline constexpr std::uint32_t first_special_step = 0xfffffff0U;

struct Step {
    std::uint32_t job_id = 0;
    std::uint32_t step_id = 0;
    std::uint32_t leader_job_id = 0; ///< of a heterogeneous job, else job_id
    bool heterogeneous = false;
    std::vector<std::string> nodes;       ///< of the step, in Slurm's order
    std::vector<unsigned> tasks_per_node; ///< same order; empty when unknown
    unsigned node_count = 1;
    unsigned task_count = 1;
    std::string distribution;                 ///< SLURM_DISTRIBUTION, as "block", "arbitrary"
    std::vector<std::string> arbitrary_nodes; ///< SLURM_ARBITRARY_NODELIST: node of each task
    std::vector<std::uint16_t> reserved_ports;
    std::vector<std::string> program; ///< argv of the tasks
    std::optional<StepNote> note;
    std::vector<std::string> problems; ///< variables that could not be understood

    /// "JOB.STEP".
    [[nodiscard]] std::string name() const;
    /// The most tasks any node has; 1 when unknown.
    [[nodiscard]] unsigned most_tasks_per_node() const;
};

/// Reads SLURM_STEP_*, with the job's variables where a step variable is missing (srun before it runs, salloc shells).
Step read_step(const Environment& environment, std::vector<std::string> program);

/// The node that runs rank 0, and how that is known. `certain` is false when only the first node of the list is left to
/// take although the layout may place rank 0 elsewhere (doc/facts/rank-zero.md).
struct HeadNode {
    std::string name;
    std::string why;
    bool certain = true;
};
HeadNode find_head_node(const Step& step);

} // namespace rdma_nccl
