// SPDX-License-Identifier: Apache-2.0
// The facts that Slurm gives about the job step, as plain values.
#pragma once

#include "lib/settings/settings.h"
#include "lib/sys/environment.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

/// The facts that srun found out for all nodes, passed on in one variable of the step's environment. Its name starts
/// with SLURM so that --export=NONE keeps it (env_array_merge_slurm_spank). It names its step, so that a copy inherited
/// by a later step is ignored.
struct StepNote {
    std::uint32_t job_id = 0;
    std::uint32_t step_id = 0;
    std::string head_node{};    ///< node name of rank 0, from the step layout; empty: unknown
    std::string head_address{}; ///< numeric address of that node as Slurm knows it; empty: unknown
    std::uint16_t port = 0;     ///< first port of the derived block; 0: none
    /// Settings from srun's environment as option text; empty if they reach the node by themselves.
    std::string settings{};
    bool unequal_gpus = false; ///< Slurm gave the nodes different numbers of GPUs; set only with exchange=off
};
inline constexpr std::string_view note_variable = "SLURM_RDMA_NCCL_NOTE";

std::string format_note(const StepNote& note);
/// Returns nullopt if the text is malformed. It is untrusted input.
std::optional<StepNote> parse_note(std::string_view text);

/// This and higher step ids are batch scripts, extern and interactive steps (SLURM_MAX_NORMAL_STEP_ID, slurm.h since
/// 20.11).
inline constexpr std::uint32_t first_special_step = 0xfffffff0U;

struct Step {
    std::uint32_t job_id = 0;
    std::uint32_t step_id = 0;
    std::uint32_t leader_job_id = 0; ///< the leader of a heterogeneous job, else job_id
    bool heterogeneous = false;
    std::vector<std::string> nodes;       ///< the step's nodes in Slurm's order
    std::vector<std::string> job_nodes;   ///< SLURM_JOB_NODELIST; of a component, in a heterogeneous job
    std::vector<unsigned> tasks_per_node; ///< same order; empty if unknown
    unsigned node_count = 1;
    unsigned task_count = 1;
    std::string distribution;                 ///< SLURM_DISTRIBUTION, e.g. "block", "arbitrary"
    std::vector<std::string> arbitrary_nodes; ///< SLURM_ARBITRARY_NODELIST: the node of each task
    std::vector<std::uint16_t> reserved_ports;
    std::vector<std::string> program; ///< argv of the tasks
    std::optional<StepNote> note;
    std::vector<std::string> problems; ///< variables that could not be parsed

    /// Returns "JOB.STEP".
    [[nodiscard]] std::string name() const { return std::to_string(leader_job_id) + "." + std::to_string(step_id); }
    /// Returns the largest number of tasks on any node; 1 if unknown.
    [[nodiscard]] unsigned most_tasks_per_node() const {
        return tasks_per_node.empty() ? 1 : *std::ranges::max_element(tasks_per_node);
    }
};

/// Reads SLURM_STEP_*, and the job's variables if a step variable is missing (srun before it runs, salloc shells).
Step read_step(const Environment& environment, std::vector<std::string> program);

/// The node that runs rank 0, and how we know. `certain` is false if it is only the first node of the list although the
/// layout may place rank 0 elsewhere (arbitrary distribution, heterogeneous steps: doc/facts/rank-zero.md).
struct HeadNode {
    std::string name;
    std::string why;
    bool certain = true;
};
HeadNode find_head_node(const Step& step);

// The layout rank, node or pod, which decides what RANK and WORLD_SIZE mean (layout.cpp), and the program that a step
// runs, which influences that choice (program.cpp).

/// The kind of program that a step runs, judged by the command line.
enum class ProgramKind {
    Ordinary,
    Launcher,      ///< starts the ranks of a node itself: torchrun, accelerate, deepspeed, composer, rdma-nccl run
    RuntimeDaemon, ///< starts another runtime's daemons, which start its ranks: orted, prted, hydra_pmi_proxy
};

struct Program {
    ProgramKind kind = ProgramKind::Ordinary;
    std::string name{};  ///< the word that decided the kind, "torchrun"
    std::string alone{}; ///< why each launcher makes a world of its own: "torchrun --standalone"; empty: they may meet
    bool meets = true;   ///< false: a launcher whose instances never meet by our variables (mpirun, ray)
    bool names_others = false; ///< it is a launcher that is told of other nodes: "torchrun --nnodes=2 --node_rank=1"
    std::string script{};      ///< a file that may be a shell script, or the script in which the launcher was found
};

/// Returns the text of a file that may be a shell script, empty if it has none.
using ReadScript = std::function<std::string(const std::string&)>;

/// Classifies a program by its command line. Looks through env, numactl, containers and similar wrappers, `python -m
/// MODULE`, and the commands of `bash -c TEXT`. `environment`: of the step, which expands the text's variables and has
/// torchrun's options. With `read`, looks through shell scripts too, and those that they start, up to a number of
/// files of any text. Without it, opens no file: Program::script names one that may be worth it.
Program classify_program(std::span<const std::string> argv, const Environment& environment = {},
                         const ReadScript& read = {});

/// What users of mpirun can do, whose ranks the plugin cannot know.
inline constexpr std::string_view mpirun_advice =
    "use srun --mpi=pmix, or begin each with eval \"$(rdma-nccl env)\" (doc/guide-start.md)";

/// Returns a hint with that advice for rank 0 of several that mpirun has started; nullopt for all other processes, and
/// where the plugin has set up the step.
std::optional<std::string> mpirun_hint(const Environment& environment);

struct LayoutChoice {
    Layout layout = Layout::Rank; ///< never Auto
    std::string why;
    std::vector<std::string> warnings;
    bool spawn = false;  ///< put `rdma-nccl run` in front of the program
    std::string alone{}; ///< Program::alone if the tasks do not meet: nobody tells them of each other; else empty
};

/// `visible_gpus`: number of GPUs that this node's tasks see. Only this input may differ between nodes.
LayoutChoice choose_layout(const Settings& settings, const Step& step, const Program& program, unsigned visible_gpus);

std::string_view layout_name(Layout layout);

} // namespace rdma_nccl
