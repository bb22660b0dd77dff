// SPDX-License-Identifier: Apache-2.0
#include "lib/evidence/node_evidence.h"

#include "lib/base/lists.h"
#include "lib/fabric/gpu.h"
#include "lib/nccl_log/log_evidence.h"
#include "lib/plan/nccl_overrides.h"
#include "lib/plan/ports_in_use.h"

#include <algorithm>
#include <optional>
#include <thread>

namespace rdma_nccl {

StepWatch watch_step(const WatchedStep& step, StepProcesses processes) {
    const auto ports = names_of(ports_in_use(step.facts, step.plan.fabric));
    return {step.root, traffic_sources(step.root, step.facts.fabric, ports), processes};
}

NodeEvidence collect_evidence(const WatchedStep& step, StepWatch& watch, const std::function<void()>& before_waiting) {
    if (watch.should_wait_for_counters()) {
        if (before_waiting) {
            before_waiting();
        }
        std::this_thread::sleep_for(watch.counter_latency());
        watch.sample(true);
    }
    NodeEvidence evidence = watch.evidence();
    evidence.node = step.facts.host_name;
    evidence.log = read_log_directory(step.log_directory);
    evidence.causes = causes_of(step.facts, step.plan);
    const unsigned gpus = step.plan.visible_gpus;
    if (gpus > 0) {
        evidence.rank_per_gpu = step.plan.layout.layout == Layout::Rank;
        evidence.gpus = evidence.rank_per_gpu ? std::min(step.tasks, gpus) : gpus;
        evidence.gpu_direct_possible =
            find_peer_memory(step.root).empty() ? std::nullopt : std::optional(true); // DMA-BUF shows nowhere
    }
    return evidence;
}

std::vector<std::string> causes_of(const NodeFacts& facts, const Plan& plan) {
    auto causes = judge_nccl_overrides(facts, plan.fabric);
    if (plan.fabric.used().empty()) {
        append(causes, plan.fabric.warnings);
    }
    append(causes, judge_limits({facts.limits.memlock_kib, std::nullopt, std::nullopt}, true, 1));
    return causes;
}

} // namespace rdma_nccl
