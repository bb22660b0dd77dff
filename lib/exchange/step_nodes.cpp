// SPDX-License-Identifier: Apache-2.0
#include "lib/exchange/protocol.h"

#include "lib/base/format.h"
#include "lib/base/hostlist.h"

namespace rdma_nccl {

std::optional<std::size_t> find_expected(std::span<const ExpectedNode> expected, const std::vector<bool>& taken,
                                         const NodeReport& report) {
    std::optional<std::size_t> by_name;
    std::vector<std::size_t> by_tasks;
    for (std::size_t i = 0; i < expected.size(); ++i) {
        const auto& node = expected[i];
        if (taken[i]) {
            continue;
        }
        const bool same_tasks = node.tasks == report.tasks && node.first_task == report.first_task;
        const bool same_name = node.name == report.node;
        if (same_tasks && same_name) {
            return i;
        }
        if (same_tasks) {
            by_tasks.push_back(i);
        }
        if (same_name && !by_name) {
            by_name = i;
        }
    }
    return by_tasks.size() == 1 ? std::optional(by_tasks.front()) : by_name;
}

StepNodes::StepNodes(std::vector<ExpectedNode> nodes, unsigned component, std::size_t count)
    : nodes_(std::move(nodes)), component_(component), count_(count) {
    index_names();
}

void StepNodes::index_names() {
    taken_.assign(nodes_.size(), false);
    by_name_.clear();
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
        by_name_.emplace(nodes_[i].name, i);
    }
}

void StepNodes::learn_count(unsigned step_nodes) {
    if (step_nodes == 0 || step_nodes == nodes_.size()) {
        return;
    }
    std::erase_if(nodes_, [this](const auto& node) { return node.component != component_; });
    if (nodes_.size() != step_nodes) {
        nodes_.clear();
    }
    for (auto& node : nodes_) {
        node.first_rank = node.first_task;
    }
    index_names();
    count_ = step_nodes;
}

const ExpectedNode* StepNodes::take(const NodeReport& report) {
    // First by its name; all nodes are searched only if that fails.
    const auto named = by_name_.find(report.node);
    const auto is_named = [&](const ExpectedNode& node) {
        return node.tasks == report.tasks && node.first_task == report.first_task;
    };
    const auto found = named != by_name_.end() && !taken_[named->second] && is_named(nodes_[named->second])
                           ? std::optional(named->second)
                           : find_expected(nodes_, taken_, report);
    if (!found) {
        return nullptr;
    }
    taken_[*found] = true;
    return &nodes_[*found];
}

std::vector<std::string> StepNodes::missing() const {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
        if (!taken_[i]) {
            names.push_back(nodes_[i].name);
        }
    }
    return names;
}

std::string StepNodes::missing_text() const {
    constexpr std::size_t longest = 400;
    const std::string text = fold_hostlist(missing());
    return text.empty() ? "" : format_text(": {}{}", text.substr(0, longest), text.size() > longest ? "..." : "");
}

} // namespace rdma_nccl
