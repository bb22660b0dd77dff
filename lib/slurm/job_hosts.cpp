// SPDX-License-Identifier: Apache-2.0
#include "lib/slurm/job_hosts.h"

#include "lib/base/format.h"
#include "lib/base/text.h"
#include "lib/slurm/step.h"

#include <algorithm>
#include <array>

namespace rdma_nccl {

Result<JobHosts> job_hosts(const Environment& environment) {
    const auto value = [&environment](std::string_view name) { return environment.get(name).value_or(""); };
    if (parse_number<unsigned>(value("SLURM_HET_SIZE")).value_or(0) > 1) {
        return fail("a heterogeneous job has several lists of nodes");
    }
    const auto step_id = parse_number<std::uint32_t>(value("SLURM_STEP_ID"));
    const bool is_task = step_id && *step_id < first_special_step && !value("SLURM_STEP_NODELIST").empty();
    const std::string_view names = is_task ? "SLURM_STEP_NODELIST" : "SLURM_JOB_NODELIST";
    const std::string_view counts = is_task ? "SLURM_STEP_TASKS_PER_NODE" : "SLURM_TASKS_PER_NODE";
    if (value(names).empty()) {
        return fail("there is no job here");
    }
    auto nodes = expand_hostlist(value(names));
    if (!nodes) {
        return fail(format_text("{}: {}", names, nodes.error().message));
    }
    JobHosts hosts{std::move(*nodes), {}, is_task};
    constexpr auto requests =
        std::to_array<std::string_view>({"SLURM_NTASKS", "SLURM_NTASKS_PER_NODE", "SLURM_NTASKS_PER_GPU",
                                         "SLURM_NTASKS_PER_SOCKET", "SLURM_NTASKS_PER_CORE"});
    const bool asks_for_tasks =
        is_task || std::ranges::any_of(requests, [&](std::string_view name) { return !value(name).empty(); });
    if (!asks_for_tasks || value(counts).empty()) {
        hosts.tasks.assign(hosts.nodes.size(), 1);
        return hosts;
    }
    auto tasks = expand_task_counts(value(counts));
    if (!tasks || tasks->size() != hosts.nodes.size() || std::ranges::count(*tasks, 0U) > 0) {
        return fail(format_text("{}={} does not fit {}={}", counts, printable(value(counts), 100), names,
                                printable(value(names), 100)));
    }
    hosts.tasks = std::move(*tasks);
    return hosts;
}

} // namespace rdma_nccl
