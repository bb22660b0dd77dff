// SPDX-License-Identifier: Apache-2.0
#include "plugin/spawn.h"

#include "lib/base/format.h"
#include "lib/base/text.h"

#include <unistd.h>

namespace rdma_nccl {

namespace {

constexpr const char* installed = BINDIR "/rdma-nccl";

std::optional<std::string> find_command(const Environment& environment) {
    if (::access(installed, X_OK) == 0) {
        return installed;
    }
    const auto path = environment.get("PATH").value_or("");
    for (const auto directory : split(path, ':')) {
        auto file = format_text("{}/rdma-nccl", directory);
        if (directory.starts_with('/') && ::access(file.c_str(), X_OK) == 0) {
            return file;
        }
    }
    return std::nullopt;
}

} // namespace

std::string too_many_tasks_to_spawn(unsigned tasks, unsigned nodes) {
    return format_text("spawn=on starts one rank per GPU from one task per node, and this step has {} tasks on {} {}: "
                       "use --ntasks-per-node=1 (and no more tasks than nodes), or spawn=off for tasks that are ranks",
                       tasks, nodes, nodes == 1 ? "node" : "nodes");
}

std::optional<std::string> spawn_ranks(const TaskFacts& task, const Environment& now, SpankHandle& host) {
    if (task.local_tasks > 1) {
        return too_many_tasks_to_spawn(task.task_count, task.node_count);
    }
    if (!SpankHandle::can_prepend()) {
        return std::string(spawn_needs_newer_slurm);
    }
    const auto command = find_command(now);
    if (!command) {
        return format_text("spawn=on: rdma-nccl is neither {} nor in PATH here: install it on this node, or in the "
                           "container's image",
                           installed);
    }
    if (!host.prepend({*command, "run", "--"})) {
        return "spawn=on: Slurm refused to put rdma-nccl run in front of the program";
    }
    return std::nullopt;
}

} // namespace rdma_nccl
