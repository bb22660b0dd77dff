// SPDX-License-Identifier: Apache-2.0
// rdma-nccl order: a job's nodes in the order of the network, as a list of hosts.
#pragma once

#include "lib/base/json.h"
#include "lib/base/result.h"
#include "lib/order/network.h"
#include "lib/sys/environment.h"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace rdma_nccl::order {

struct Report {
    std::string source;             ///< what tells the places: "scontrol show topology", a file's name
    std::vector<std::string> nodes; ///< as Slurm orders them
    std::vector<unsigned> tasks;    ///< of each node, 1 or more
    NetworkPlaces places;           ///< of each node; none at all if `problem` says why
    OrderByPlace by_place;
    std::string problem; ///< why the order stays as given; empty: it is known
};

/// Orders the nodes by their places. Without places they stay as they are, for the reason that the error says.
Report order_nodes(std::vector<std::string> nodes, std::vector<unsigned> tasks, std::string source,
                   Result<NetworkPlaces> places);

/// Returns the order of the nodes of the step or job that `environment` is of, by `scontrol show topology`.
Report order_of_job(const Environment& environment);

/// Returns the latencies between `nodes` that a JSON report of `rdma-nccl pairs` has: for two nodes the least of all
/// their rails. Nodes that are not in `nodes`, and latencies of 0 and less, are left out. Fails if it is no such
/// report.
Result<std::vector<NodeLatency>> latencies_between(std::span<const std::string> nodes, const Json& pairs_report);

/// Returns a line for each task with its node's name, as SLURM_HOSTFILE has it.
std::string host_lines(const Report& report);
/// Returns one line for people: what a ring gains, or why the order stays.
std::string summary(const Report& report);
/// Returns lines for people: the nodes in order, the summary, and how often a ring leaves its groups at each depth.
std::string order_text(const Report& report);
/// Returns {"schema": 1, ...}.
Json format_json(const Report& report);
/// Returns the JSON Schema of format_json().
Json json_schema();

} // namespace rdma_nccl::order
