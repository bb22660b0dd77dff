// SPDX-License-Identifier: Apache-2.0
// Where srun listens for the nodes of its step, what these report, and what srun answers with: values, and the messages
// that carry them as text (lib/net/message.h). All input is validated as untrusted.
//
// So that srun can tell the nodes of another version from its own (lib/net/release.h) and answer them, these never
// change but by additions: the texts of the endpoint and of StepNote, the handshake (lib/net/session.h), the first
// fields of NodeReport, Disagreement and NodeAlarm.
#pragma once

#include "lib/base/result.h"
#include "lib/evidence/verdict.h"
#include "lib/net/release.h"
#include "lib/plan/plan.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace rdma_nccl {

/// The variable of the step's environment that has srun's address, next to the step's key (lib/net/key.h). The name
/// starts with SLURM so that --export=NONE keeps it (env_array_merge_slurm_spank).
inline constexpr std::string_view endpoint_variable = "SLURM_RDMA_NCCL_EXCHANGE";

struct ExchangeEndpoint {
    std::vector<IpAddress> addresses; ///< srun's host's, at most eight
    std::uint16_t port = 0;
    unsigned seconds = 0; ///< how long nodes wait for each other; a node's own limit may be shorter

    friend bool operator==(const ExchangeEndpoint&, const ExchangeEndpoint&) = default;
};

std::string write_endpoint(const ExchangeEndpoint& endpoint);
/// Parses untrusted input; nullopt when malformed.
std::optional<ExchangeEndpoint> read_endpoint(std::string_view text);

/// Returns all routable addresses of this host's interfaces that are up (getifaddrs(3)).
std::vector<IpAddress> own_addresses();

/// Returns up to eight of own_addresses() that other hosts may reach, IPv4 first. Leaves out bridges without hardware
/// below (/sys/class/net/NAME/brif): containers and virtual machines use them, with the same addresses on every host.
std::vector<IpAddress> published_addresses();

/// A port that the node's plan uses.
struct ReportedPort {
    std::string hca;
    unsigned port = 1;
    LinkLayer link_layer = LinkLayer::Unknown;
    double rate_gbps = 0; ///< 0: unknown
    unsigned mtu = 0;     ///< MTU of the port's netdev; 0: unknown
    std::optional<RoceVersion> roce;
    std::optional<InterfaceAddress> address; ///< the chosen GID's, with the prefix length of its netdev's address

    friend bool operator==(const ReportedPort&, const ReportedPort&) = default;
};

/// A routable address of an interface that is up.
struct ReportedAddress {
    std::string netdev;
    InterfaceAddress address;
    bool fabric = false; ///< the netdev belongs to a port in use

    friend bool operator==(const ReportedAddress&, const ReportedAddress&) = default;
};

/// What a node would do on its own, and the facts about it that the other nodes need.
struct NodeReport {
    static constexpr std::string_view message_name = "report";
    std::string node; ///< the node's name in Slurm
    std::uint32_t job_id = 0;
    std::uint32_t first_task = 0; ///< lowest global ID of its tasks, without the offset of a heterogeneous step
    unsigned tasks = 1;
    unsigned step_nodes = 0; ///< SLURM_STEP_NUM_NODES, over all components; 0: unknown
    unsigned gpus = 0;       ///< visible GPUs
    Release release{};       ///< the node's; if its messages are not understood, nothing below has been read
    Layout layout = Layout::Rank;
    std::string alone{}; ///< why its tasks meet no others (LayoutChoice::alone); empty: they do
    unsigned cpus = 1;
    std::optional<std::uint64_t> memlock_kib; ///< the limit that its tasks get; absent: unlimited
    std::string failover = "0";               ///< failover_of() its plan; a release before `failover` sets none
    unsigned hcas = 0;
    unsigned active_ports = 0;       ///< active ports of all HCAs, used or not
    std::string fabric;              ///< the ports in use, as text: "8 HCA ports (...), GID index 3"
    std::vector<ReportedPort> ports; ///< in the order of the HCAs' PCI addresses
    std::vector<ReportedAddress> addresses;
    std::optional<IpAddress> plan_head; ///< MASTER_ADDR of the node's own plan
    bool plan_head_is_given = false;    ///< set by head= or by the user's MASTER_ADDR; plan_head is absent for a name
    std::string users_head{};           ///< the user's MASTER_ADDR, as it is written; empty: none
    std::string plan_head_why;
    std::optional<PortBlock> block;    ///< of the node with task 0; the ports are held, unless hold=off
    std::uint16_t listener = 0;        ///< the port where it answers connection tests; 0: none
    std::vector<std::string> warnings; ///< warnings of the node's plan
    std::string topology_address{};    ///< SLURM_TOPOLOGY_ADDR; empty: unknown
    std::string topology_pattern{};    ///< SLURM_TOPOLOGY_ADDR_PATTERN
    std::string mpi{};                 ///< SLURM_MPI_TYPE; empty: none
    /// Why its tasks must have the ranks that Slurm gave them; empty: they need not. A node that does not say cannot
    /// take others (a release before `order`).
    std::string keeps_order = "its rdma-nccl is too old: upgrade it";
    /// fabric_profile_to_agree() of its plan. A node that does not say sets nothing (a release before profiles).
    std::string fabric_profile = std::string(no_fabric_profile_values);
};

/// Makes a node's report from its facts and the plan that it made on its own. `node`: its name in Slurm. The caller
/// adds the job, the tasks' numbers, the block and the listener.
NodeReport make_report(const NodeFacts& facts, const Plan& plan, std::string node);

/// An address of the head node for the other nodes to try.
struct HeadCandidate {
    IpAddress address;
    std::string why;

    friend bool operator==(const HeadCandidate&, const HeadCandidate&) = default;
};

/// The connection tests that every node except the head makes, all at once.
struct ReachTest {
    static constexpr std::string_view message_name = "try";
    std::vector<IpAddress> addresses;
    std::uint16_t port = 0;
};

/// The timeout of a test. A lost SYN is sent again after one second (RFC 6298).
inline constexpr std::chrono::milliseconds reach_timeout(2500);

/// The result of each address in order: 0 or an errno.
using ReachResult = std::vector<int>;

/// A message for the user that must be shown at once while the step runs.
struct NodeAlarm {
    static constexpr std::string_view message_name = "alarm";
    std::string text;
};

/// A line of the hosts table.
struct HostEntry {
    std::string name;
    IpAddress address;
    unsigned slots = 1; ///< number of ranks on the node

    friend bool operator==(const HostEntry&, const HostEntry&) = default;
};

/// The table of all nodes. Sent before the agreement, and only if `hosts` asks for it.
using HostsTable = std::vector<HostEntry>;

/// There is no agreement: each node plans alone.
struct Disagreement {
    static constexpr std::string_view message_name = "alone";
    std::string why;
    bool unequal_gpus = false; ///< the nodes that reported differ in GPUs: ranks cannot be numbered without agreement
    std::string head_node{};   ///< the head node by Slurm; empty: unknown to srun
    std::optional<IpAddress> head{};
};

struct Reached {
    static constexpr std::string_view message_name = "reached";
    ReachResult errors;
};

struct Hosts {
    static constexpr std::string_view message_name = "hosts";
    HostsTable table;
};

using NodeMessage = std::variant<NodeReport, Reached, NodeAlarm, NodeEvidence>;
using ServerMessage = std::variant<ReachTest, Hosts, Agreement, Disagreement>;

/// The longest message that srun takes from a node, and a node takes from srun, without and with the hosts table. No
/// message that is written is longer.
inline constexpr std::size_t most_from_node = std::size_t{1} << 20;
inline constexpr std::size_t most_from_server = std::size_t{64} << 10;
inline constexpr std::size_t most_with_hosts = std::size_t{16} << 20;

std::string write_message(const NodeMessage& message);
std::string write_message(const ServerMessage& message);

Result<NodeMessage> read_node_message(std::string_view text);
Result<ServerMessage> read_server_message(std::string_view text);

/// Writes a node's evidence on its own, on one line.
std::string write_evidence(const NodeEvidence& evidence);
Result<NodeEvidence> read_evidence(std::string_view text);

} // namespace rdma_nccl
