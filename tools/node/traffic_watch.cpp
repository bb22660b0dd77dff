// SPDX-License-Identifier: Apache-2.0
#include "tools/node/traffic_watch.h"

#include "lib/evidence/node_evidence.h"

#include <algorithm>
#include <poll.h>

namespace rdma_nccl {

Result<WatchedNode> WatchedNode::inspect(const SettingsOptions& options, const Environment& environment) {
    const auto settings = settings_from(options);
    if (!settings) {
        return tl::unexpected(settings.error());
    }
    auto root = SysRoot::open(settings->root);
    if (!root) {
        return tl::unexpected(root.error());
    }
    auto node = plan_node(options, *settings, {}, {}, GidTables::Expected, environment);
    if (!node) {
        return tl::unexpected(node.error());
    }
    return WatchedNode{std::move(*root), std::move(*node)};
}

StepWatch WatchedNode::watch(StepProcesses processes) const {
    return watch_step({root, node.facts, node.plan}, processes);
}

NodeEvidence WatchedNode::evidence(StepWatch& watch, const std::string& log_directory) const {
    const auto task = current_task(node.facts);
    return collect_evidence({root, node.facts, node.plan, task ? task->local_tasks : 1, log_directory}, watch);
}

bool wait_for_sample(const StepWatch& watch, int fd, StepWatch::Clock::time_point end) {
    using std::chrono::milliseconds;
    const auto until = std::min(watch.next_sample(), end);
    const auto pause = std::chrono::ceil<milliseconds>(until - StepWatch::Clock::now()).count();
    pollfd event{fd, POLLIN, 0};
    return ::poll(&event, 1, static_cast<int>(std::max<decltype(pause)>(pause, 0))) > 0;
}

} // namespace rdma_nccl
