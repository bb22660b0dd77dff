// SPDX-License-Identifier: Apache-2.0
#include "tools/run_hang.h"

#include <algorithm>

namespace rdma_nccl {

namespace {

/// Of intervals: a node may be late once or twice, in between others are heard.
constexpr int most_late = 4;

} // namespace

bool HangJudge::all_looked(Time now) const {
    return std::all_of(nodes_.begin(), nodes_.end(),
                       [&](const Node& node) { return now - node.looked <= most_late * interval_; });
}

std::chrono::milliseconds HangJudge::quiet(Time now) const {
    auto last = Time::min();
    for (const auto& node : nodes_) {
        last = std::max(last, node.moved);
    }
    return nodes_.empty() ? std::chrono::milliseconds(0)
                          : std::chrono::duration_cast<std::chrono::milliseconds>(now - last);
}

bool HangJudge::on_look(std::size_t node, bool moved, Time now) {
    if (now - last_call_ > most_late * interval_) {
        std::fill(nodes_.begin(), nodes_.end(), Node{now, now});
        told_ = false;
    }
    last_call_ = now;
    if (node >= nodes_.size()) {
        return false;
    }
    auto& teller = nodes_[node];
    const bool was_away = now - teller.looked > most_late * interval_;
    teller.looked = now;
    if (moved || was_away) { // stopped, with its ranks, or cut off: nobody knows what moved there
        teller.moved = now;
        told_ = false;
    }
    if (told_ || quiet(now) < patience_ || !all_looked(now)) {
        return false;
    }
    told_ = true;
    return true;
}

} // namespace rdma_nccl
