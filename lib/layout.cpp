// SPDX-License-Identifier: Apache-2.0
#include "lib/layout.h"

#include "lib/format.h"

namespace rdma_nccl {

namespace {

/// A program that starts the ranks itself needs nobody to do it, and would be started once per GPU.
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
    LayoutChoice choice = settings.spawn                    ? choose_to_spawn(program)
                          : settings.layout == Layout::Auto ? choose_automatically(step, program, visible_gpus)
                                                            : LayoutChoice{settings.layout, "layout setting", {}};
    if (!choice.spawn && choice.layout != Layout::Rank && step.most_tasks_per_node() > 1) {
        choice.warnings.push_back(
            format_text("{} tasks on one node, each would start ranks of its own ({}): use --ntasks-per-node=1, or "
                        "layout=rank for a program that is one rank itself",
                        step.most_tasks_per_node(), choice.why));
    }
    return choice;
}

std::string_view layout_name(Layout layout) {
    switch (layout) {
    case Layout::Rank:
        return "rank";
    case Layout::Node:
        return "node";
    case Layout::Pod:
        return "pod";
    case Layout::Auto:
        break;
    }
    return "auto";
}

} // namespace rdma_nccl
