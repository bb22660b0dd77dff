// SPDX-License-Identifier: Apache-2.0
#include "lib/slurm/step.h"

#include "lib/base/format.h"
#include "lib/base/text.h"

#include <array>

namespace rdma_nccl {

namespace {

/// Spawns the ranks, except for a program that starts them itself: `rdma-nccl run` would start it once per GPU.
LayoutChoice choose_to_spawn(const Program& program) {
    LayoutChoice choice{Layout::Node, "spawn setting", {}, program.kind != ProgramKind::Launcher};
    if (!choice.spawn && program.name != "rdma-nccl") {
        choice.warnings.push_back(format_text("spawn=on: {} starts the ranks itself, so rdma-nccl run is not put in "
                                              "front of it",
                                              program.name));
    }
    return choice;
}

LayoutChoice choose_automatically(const Step& step, const Program& program, unsigned visible_gpus) {
    if (program.kind == ProgramKind::Launcher) {
        return {Layout::Node, format_text("{} starts the ranks of its node", program.name), {}};
    }
    if (step.most_tasks_per_node() > 1) {
        return {Layout::Rank, "several tasks on a node", {}};
    }
    if (visible_gpus > 1) {
        return {Layout::Node, format_text("one task per node, {} GPUs visible", visible_gpus), {}};
    }
    return {Layout::Rank, visible_gpus == 1 ? "one task with one GPU" : "one task, no GPU", {}};
}

} // namespace

LayoutChoice choose_layout(const Settings& settings, const Step& step, const Program& program, unsigned visible_gpus) {
    const bool shared = step.most_tasks_per_node() > 1;
    // A script may name a launcher that it does not start here: tasks that share a node are the ranks, and the user who
    // gives spawn knows.
    const Program starts = (shared || settings.spawn) && !program.script.empty() ? Program() : program;
    LayoutChoice choice = settings.spawn                    ? choose_to_spawn(starts)
                          : settings.layout == Layout::Auto ? choose_automatically(step, starts, visible_gpus)
                                                            : LayoutChoice{settings.layout, "layout setting", {}};
    // One launcher alone meets nobody anyway, and is better off with the port and the GPUs of the plan.
    if (choice.layout == Layout::Node && (step.task_count > 1 || !starts.meets)) {
        choice.alone = starts.alone;
    }
    if (!choice.spawn && choice.layout != Layout::Rank && shared && choice.alone.empty()) {
        choice.warnings.push_back(
            format_text("{} tasks on one node, each would start ranks of its own ({}): use --ntasks-per-node=1, or "
                        "layout=rank for a program that is one rank itself",
                        step.most_tasks_per_node(), choice.why));
    }
    return choice;
}

std::optional<std::string> mpirun_hint(const Environment& environment) {
    // Open MPI's mpirun(1); Hydra, of MPICH and Intel MPI, whose MPI_LOCALNRANKS tells it from Slurm's PMI.
    const std::string prefix = environment.get("OMPI_COMM_WORLD_SIZE") ? "OMPI_COMM_WORLD_"
                               : environment.get("MPI_LOCALNRANKS")    ? "PMI_"
                                                                       : "";
    const auto ranks = parse_number<unsigned>(environment.get(prefix + "SIZE").value_or("")).value_or(0);
    if (prefix.empty() || ranks < 2 || environment.get(prefix + "RANK") != "0" || !environment.marked_step().empty()) {
        return std::nullopt;
    }
    return format_text("mpirun started {} ranks, which the plugin does not set up: {}", ranks, mpirun_advice);
}

std::string_view layout_name(Layout layout) {
    constexpr std::array<std::string_view, 4> names = {"auto", "rank", "node", "pod"};
    return names.at(static_cast<std::size_t>(layout));
}

} // namespace rdma_nccl
