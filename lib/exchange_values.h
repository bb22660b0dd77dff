// SPDX-License-Identifier: Apache-2.0
// What the nodes of a step tell srun and what srun answers (doc/design.md, Exchange), as plain values.
#pragma once

#include "lib/fabric.h"
#include "lib/ip.h"
#include "lib/port.h"
#include "lib/settings.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl {

/// A port that the node's plan uses.
struct ReportedPort {
    std::string hca;
    unsigned port = 1;
    LinkLayer link_layer = LinkLayer::Unknown;
    double rate_gbps = 0; ///< 0: unknown
    unsigned mtu = 0;     ///< of its netdev, 0: unknown
    std::optional<RoceVersion> roce;
    std::optional<InterfaceAddress> address; ///< of the chosen GID, with the prefix length of its netdev's address

    friend bool operator==(const ReportedPort&, const ReportedPort&) = default;
};

/// A routable address of an interface that is up.
struct ReportedAddress {
    std::string netdev;
    InterfaceAddress address;
    bool fabric = false; ///< the netdev of a port in use

    friend bool operator==(const ReportedAddress&, const ReportedAddress&) = default;
};

/// What the node would do alone, and what the others have to know of it.
struct NodeReport {
    std::string node; ///< Slurm's name
    std::uint32_t job_id = 0;
    std::uint32_t first_task = 0; ///< the least global id of its tasks, without the offset of a heterogeneous step
    unsigned tasks = 1;
    unsigned step_nodes = 0; ///< SLURM_STEP_NUM_NODES, over all components; 0: unknown
    unsigned gpus = 0;       ///< visible
    Layout layout = Layout::Rank;
    unsigned cpus = 1;
    std::optional<std::uint64_t> memlock_kib; ///< as its tasks get it; absent: unlimited
    unsigned hcas = 0;
    unsigned active_ports = 0; ///< of all HCAs, used or not
    std::string fabric;        ///< the ports in use in words, "8 HCA ports (...), GID index 3"
    std::vector<ReportedPort> ports;
    std::vector<ReportedAddress> addresses;
    std::optional<IpAddress> plan_head; ///< MASTER_ADDR of its own plan
    bool plan_head_is_given = false;    ///< by head= or the user's MASTER_ADDR; a name there is no plan_head
    std::string plan_head_why;
    std::optional<PortBlock> block;    ///< of the node with task 0: held, unless hold=off
    std::uint16_t listener = 0;        ///< where it answers connection tests; 0: nowhere
    std::vector<std::string> warnings; ///< of its plan
};

/// An address of the head node that the others shall try.
struct HeadCandidate {
    IpAddress address;
    std::string why;

    friend bool operator==(const HeadCandidate&, const HeadCandidate&) = default;
};

/// The connection tests that every node but the head makes, all at once.
struct ReachTest {
    std::vector<IpAddress> addresses;
    std::uint16_t port = 0;
};

/// How they went: 0 or an errno for each address, in that order.
using ReachResult = std::vector<int>;

/// While the step runs: something that its user has to know at once.
struct NodeAlarm {
    std::string text;
};

/// Which ranks of the step a node starts by itself (node and pod layout).
struct RankShare {
    unsigned first = 0;
    unsigned count = 0;
    unsigned total = 0;

    friend bool operator==(const RankShare&, const RankShare&) = default;
};

/// A line of the hosts table.
struct HostEntry {
    std::string name;
    IpAddress address;
    unsigned slots = 1; ///< ranks there

    friend bool operator==(const HostEntry&, const HostEntry&) = default;
};

/// srun's answer, the same for all nodes but for `ranks` and `left_out`.
struct Agreement {
    std::string head_node;
    std::optional<IpAddress> head; ///< absent: MASTER_ADDR stays what the user set it to
    std::string head_why;
    std::optional<PortBlock> block;
    Layout layout = Layout::Rank;
    std::optional<RankShare> ranks;
    std::vector<std::string> left_out;       ///< ports this node shall not use: "mlx5_3:1"
    std::optional<std::string> strict_fault; ///< why the step must not run, with strict
};

/// The table of all nodes; comes before the agreement, and only where `hosts` asks for it.
using HostsTable = std::vector<HostEntry>;

/// No agreement: the nodes plan alone.
struct Disagreement {
    std::string why;
    bool unequal_gpus = false; ///< as far as nodes have reported: their ranks cannot be numbered without agreement
    std::string head_node;     ///< what srun knows of it from Slurm; empty: nothing
    std::optional<IpAddress> head;
};

} // namespace rdma_nccl
