// SPDX-License-Identifier: Apache-2.0
// Evaluates the nodes' reports in srun: chooses the head's addresses to try and the one to use, decides which node
// starts which ranks, and finds how the nodes differ. Pure functions; the sockets are in server.h.
#pragma once

#include "lib/exchange/messages.h"
#include "lib/settings/settings.h"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

/// Returns the network of an interface; nullopt if its address has no prefix length.
std::optional<IpPrefix> network_of(const InterfaceAddress& entry);

/// Returns up to four addresses of the head node, reports[0], for the others to try, best first. A given address
/// (head=, MASTER_ADDR) is the only one; if a name was given, which only the user's program resolves, there is none.
/// Otherwise: those of the `net` setting, or without it at most two on the fabric, those in networks where every node
/// has an address first; then `node_address` (NodeAddr); then the head's own plan's; then, without `net`, its addresses
/// beside the fabric.
std::vector<HeadCandidate> find_candidates(std::span<const NodeReport> reports, const Settings& settings,
                                           const std::optional<IpAddress>& node_address);

/// A message about some of the nodes.
struct Finding {
    std::vector<std::string> nodes;
    std::string text;
    bool fault = true; ///< ends the step with strict

    /// Returns the nodes and the text: "n[03,17]: 7 HCA ports in use, ...".
    [[nodiscard]] std::string line() const;
};

struct HeadVerdict {
    std::optional<HeadCandidate> chosen;
    std::vector<Finding> findings; ///< which nodes cannot connect to what, and the error
};

/// Chooses the first candidate that all nodes reached, or else the one that most nodes reached. `results` has an entry
/// for each report, in their order; the head's is ignored, and an empty one counts as reached.
HeadVerdict judge_reach(std::span<const HeadCandidate> candidates, std::span<const NodeReport> reports,
                        std::span<const ReachResult> results);

/// Returns the nodes' warnings, the same ones combined, and the differences between nodes.
std::vector<Finding> find_differences(std::span<const NodeReport> reports);

/// Returns the ports of each node that no other node can reach because none has a port in their network, and adds
/// findings for them. Returns none for a node with more of them than other ports: its rails are routed. Ignores
/// networks of two addresses: such a link to a router tells nothing.
std::vector<std::vector<std::string>> find_isolated_ports(std::span<const NodeReport> reports,
                                                          std::vector<Finding>& findings);

/// A node's ports in use, in the order of the HCAs' PCI addresses.
struct NodeNetworks {
    std::string node;
    std::vector<std::string> ports;    ///< "mlx5_1:1"
    std::vector<std::string> networks; ///< of each port's address, "10.1.0.0/16"; empty: it has none
};
std::vector<NodeNetworks> networks_of(std::span<const NodeReport> reports);

/// Names the nodes whose ports are in the same networks as those of others, but in another order: NCCL prefers to
/// connect HCAs with the same number (NCCL_CROSS_NIC), which are then in different networks. The usual order is that of
/// most nodes, or of the first one of two; without one, all these nodes are named. A node that lacks some networks of
/// more nodes is compared with those, by the others. Leaves out nodes with a port that has no network.
std::vector<Finding> find_crossed_rails(std::span<const NodeNetworks> nodes);

/// Returns the layout for all nodes: rank, unless a node has another one; then the first such node's.
Layout common_layout(std::span<const NodeReport> reports);

/// The order in which the nodes are numbered.
struct OrderChosen {
    std::vector<std::size_t> order; ///< positions of reports; empty: Slurm's
    std::string why;                ///< the gain, or why Slurm's order stays; empty with order=slurm
};
OrderChosen choose_order(std::span<const NodeReport> reports, const Settings& settings);

/// Returns a line for each setting that does nothing because the nodes have not agreed: of those that the user gave;
/// with verbose=2 of the site's, too.
std::vector<std::string> not_agreed(const Settings& settings);

/// Returns the ranks of each node in node and pod layout, counted in `order` (OrderChosen). Empty in rank layout, and
/// when a node has no GPU to count by.
std::vector<RankShare> share_ranks(std::span<const NodeReport> reports, Layout layout,
                                   std::span<const std::size_t> order = {});

bool gpus_differ(std::span<const NodeReport> reports);

struct ExchangeOutcome {
    std::vector<Agreement> agreements; ///< one for each report
    HostsTable hosts;                  ///< in the order of the ranks; empty unless requested
    std::string summary;               ///< the summary line of a step
    std::string order_line; ///< "order=topology: ", or auto, and OrderChosen::why, where it matters to the user
    std::vector<Finding> findings;
};

/// Computes the answers. `reports` are in the order of their first rank; `results` are as for judge_reach().
ExchangeOutcome agree(std::span<const NodeReport> reports, std::span<const HeadCandidate> candidates,
                      std::span<const ReachResult> results, const Settings& settings);

} // namespace rdma_nccl
