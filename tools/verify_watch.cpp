// SPDX-License-Identifier: Apache-2.0
#include "tools/verify_watch.h"

#include "lib/exchange_report.h"
#include "lib/nccl_log_directory.h"

#include <algorithm>
#include <poll.h>
#include <thread>

namespace rdma_nccl {

Result<WatchedNode> WatchedNode::inspect(const SettingsOptions& options) {
    const auto settings = settings_from(options);
    if (!settings) {
        return tl::unexpected(settings.error());
    }
    auto root = Root::open(settings->root);
    if (!root) {
        return tl::unexpected(root.error());
    }
    auto node = plan_node(options, *settings);
    if (!node) {
        return tl::unexpected(node.error());
    }
    return WatchedNode{std::move(*root), std::move(*node)};
}

StepWatch WatchedNode::watch(StepProcesses processes) const {
    const auto expected = expected_ports(node.facts, node.plan);
    return {root, traffic_sources(root, node.facts.fabric, expected), processes};
}

NodeEvidence WatchedNode::evidence(StepWatch& watch, const std::string& log_directory) const {
    if (watch.should_settle()) {
        std::this_thread::sleep_for(watch.settle());
        watch.look(true);
    }
    NodeEvidence evidence = watch.evidence();
    evidence.node = node.facts.host_name;
    evidence.log = read_log_directory(log_directory);
    evidence.causes = causes_of(node.facts, node.plan);
    evidence.gpus = node.plan.visible_gpus;
    if (evidence.gpus > 0) {
        evidence.gpu_direct_possible = gpu_direct_possible(root);
    }
    return evidence;
}

bool wait_for_look(const StepWatch& watch, int fd, StepWatch::Clock::time_point end) {
    using std::chrono::milliseconds;
    const auto until = std::min(watch.next_look(), end);
    const auto pause = std::chrono::ceil<milliseconds>(until - StepWatch::Clock::now()).count();
    pollfd event{fd, POLLIN, 0};
    return ::poll(&event, 1, static_cast<int>(std::max<decltype(pause)>(pause, 0))) > 0;
}

} // namespace rdma_nccl
