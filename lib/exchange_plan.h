// SPDX-License-Identifier: Apache-2.0
// What srun makes of the nodes' reports (doc/design.md, Exchange): which address of the head node to try, which one it
// is, who starts which ranks, and in what the nodes differ. Pure functions; the sockets are in exchange_server.h.
#pragma once

#include "lib/exchange_values.h"
#include "lib/settings.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace rdma_nccl {

/// A node of the step as the step layout has it.
struct ExpectedNode {
    std::string name;
    unsigned tasks = 0;
    std::uint32_t first_task = 0; ///< in its component of a heterogeneous step, as NodeReport::first_task
    std::uint32_t first_rank = 0; ///< in the whole step
    unsigned component = 0;       ///< of a heterogeneous step
};

/// Which of `expected` a report is of, among those not `taken` yet: the one with its name, tasks and first task; else
/// the only one with these tasks (host and node names may differ); else one with its name. nullopt: none.
std::optional<std::size_t> find_expected(std::span<const ExpectedNode> expected, const std::vector<bool>& taken,
                                         const NodeReport& report);

/// The addresses of the head node, reports[0], that the others shall try, best first, at most four:
/// the one that was given (head=, MASTER_ADDR; none when that is a name, which only the user's program resolves); else
/// those of the `net` setting; else those on the fabric, the networks before others in which every node has an address;
/// else `node_address` (NodeAddr); else what it has beside the fabric.
std::vector<HeadCandidate> find_candidates(std::span<const NodeReport> reports, const Settings& settings,
                                           const std::optional<IpAddress>& node_address);

/// Something to tell about some of the nodes.
struct Finding {
    std::vector<std::string> nodes;
    std::string text;
    bool fault = true; ///< with strict it ends the step

    /// "n[03,17]: 7 HCA ports in use, ...".
    [[nodiscard]] std::string line() const;
};

struct HeadVerdict {
    std::optional<HeadCandidate> chosen;
    std::vector<Finding> findings; ///< who cannot connect, to what, with which error
};

/// The first candidate that all nodes reached; when there is none, the one that most did. `results`: of all nodes but
/// the head, in the order of reports; an empty one of a node that did not try.
HeadVerdict judge_reach(std::span<const HeadCandidate> candidates, std::span<const NodeReport> reports,
                        std::span<const ReachResult> results);

/// Warnings of the nodes, the same ones together, and what differs between them.
std::vector<Finding> find_differences(std::span<const NodeReport> reports);

/// Ports that no other node can reach because none has a port in their network, by node. None of a node that has more
/// such ports than others: its rails are routed. A network of two addresses, a link to a router, says nothing.
std::vector<std::vector<std::string>> find_lonely_ports(std::span<const NodeReport> reports,
                                                        std::vector<Finding>& findings);

/// Rank or node layout for all: node as soon as one node has it.
Layout common_layout(std::span<const NodeReport> reports);

/// Ranks of each node in node and pod layout; empty in rank layout, and where a node has no GPU to count by.
std::vector<RankShare> share_ranks(std::span<const NodeReport> reports, Layout layout);

/// True when the nodes have different numbers of GPUs.
bool gpus_differ(std::span<const NodeReport> reports);

struct ExchangeOutcome {
    std::vector<Agreement> agreements; ///< for each report
    HostsTable hosts;                  ///< empty unless asked for
    std::string summary;               ///< the one line of a step
    std::vector<Finding> findings;
};

/// The answers. `reports` in the order of their first rank; `results` as for judge_reach().
ExchangeOutcome agree(std::span<const NodeReport> reports, std::span<const HeadCandidate> candidates,
                      std::span<const ReachResult> results, const Settings& settings);

} // namespace rdma_nccl
