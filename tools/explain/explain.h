// SPDX-License-Identifier: Apache-2.0
// rdma-nccl explain: prints the whole plan of this node with reasons, without running anything.
#pragma once

#include "lib/base/json.h"
#include "tools/node/node_plan.h"

#include <string>
#include <vector>

namespace rdma_nccl {

struct Rejected {
    std::string what; ///< "mlx5_0 port 1", "GID 1 fe80::..."
    std::string rule; ///< the rule's name
    std::string why;
};

struct Explanation {
    std::string what;     ///< "layout", "HCA ports", "GID of mlx5_1 port 1", ...
    std::string decision; ///< "rank", "=mlx5_1:1,...", "index 3, 10.0.0.1"
    std::string why;
    std::vector<Rejected> rejected;
};

/// Decision::what of a port's GID starts with this.
inline constexpr std::string_view gid_of = "GID of ";

/// Returns the decisions in the order they are made. If the step is left alone, returns only that decision.
std::vector<Explanation> decisions_of(const NodePlan& node);

/// Returns what could not be read of the node, of each HCA and of each port.
std::vector<std::string> notes_of(const NodePlan& node);

/// Returns text for users: settings with their source, the step, the node's hardware, every decision with its reason
/// and what was rejected, variables, warnings. Each section is a heading and indented lines. ASCII.
std::string explain_text(const NodePlan& node, const std::string& host);

/// Returns the same for programs, schema 1; all strings are ASCII:
/// {"schema","host","settings":[{"key","value","source"}],"step","fabric":{"hcas","netdevs","gpus"},
/// "decisions":[{"what","decision","why","rejected":[{"what","rule","why"}]}],"places",
/// "variables":[{"name","action","value","source","why"}],"warnings":[],"notes":[]}
Json explain_json(const NodePlan& node, const std::string& host);

} // namespace rdma_nccl
