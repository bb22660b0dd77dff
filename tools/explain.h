// SPDX-License-Identifier: Apache-2.0
// rdma-nccl explain: the whole plan of this node with reasons, without running anything (doc/design.md, Commands).
#pragma once

#include "lib/json.h"
#include "tools/node_plan.h"

#include <string>
#include <vector>

namespace rdma_nccl {

struct Rejected {
    std::string what; ///< "mlx5_0 port 1", "GID 1 fe80::..."
    std::string rule; ///< the rule's name
    std::string why;
};

struct Decision {
    std::string what;     ///< "layout", "HCA ports", "GID of mlx5_1 port 1", ...
    std::string decision; ///< "rank", "=mlx5_1:1,...", "index 3, 10.0.0.1"
    std::string why;
    std::vector<Rejected> rejected;
};

/// What the decision on a port's GID begins with.
inline constexpr std::string_view gid_of = "GID of ";

/// In the order in which they are made; none when the step is left alone but that one.
std::vector<Decision> decisions_of(const NodePlan& node);

/// What could not be read: of the whole, of each HCA and of each port.
std::vector<std::string> notes_of(const NodePlan& node);

/// For people: settings with their source, step, what the node has, every decision with its reason and what was
/// rejected, variables, warnings; a heading and indented lines each. ASCII.
std::string explain_text(const NodePlan& node, const std::string& host);

/// The same for programs, schema 1: {"schema","host","settings":[{"key","value","source"}],"step","fabric":{"hcas",
/// "netdevs","gpus"},"decisions":[{"what","decision","why","rejected":[{"what","rule","why"}]}],"places","variables":[{"name",
/// "action","value","source","why"}],"warnings":[],"notes":[]}. All strings are ASCII.
Json explain_json(const NodePlan& node, const std::string& host);

} // namespace rdma_nccl
