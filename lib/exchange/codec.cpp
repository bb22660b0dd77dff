// SPDX-License-Identifier: Apache-2.0
#include "lib/exchange/messages.h"
#include "lib/net/message.h"

namespace rdma_nccl {

namespace {

constexpr std::size_t longest_name = 255;
constexpr std::size_t most_hosts = 65536;
constexpr std::size_t most_ports = 128; // of one node, in evidence
constexpr double longest_seconds = 1e8;

void each(auto& /*f*/) {}

/// Names fields that have the usual limits: each(f, NAME, MEMBER, NAME, MEMBER, ...).
void each(auto& f, const char* name, auto& member, auto&&... others) {
    f(name, member);
    each(f, others...);
}

} // namespace

// --- Parts of messages ---

void fields(auto& f, Is<InterfaceAddress> auto& m) {
    constexpr unsigned longest_prefix = 128;
    f("address", m.address);
    f("prefix", m.prefix_length, m.address.is_ipv4() ? longest_prefix / 4 : longest_prefix);
}

void fields(auto& f, Is<ReportedPort> auto& m) {
    f("hca", m.hca, longest_name);
    f("port", m.port);
    f("link_layer", m.link_layer, LinkLayer::Ethernet);
    f("rate_gbps", m.rate_gbps);
    f("mtu", m.mtu);
    f("roce", m.roce, RoceVersion::V2);
    f.check(m.roce.value_or(RoceVersion::V1) >= RoceVersion::V1);
    f("address", m.address);
}

void fields(auto& f, Is<ReportedAddress> auto& m) {
    f("netdev", m.netdev, longest_name);
    f("address", m.address);
    f("fabric", m.fabric);
}

void fields(auto& f, Is<PortBlock> auto& m) {
    f("first", m.first);
    f("second", m.second);
    f("source", m.source, longest_name);
    f("why", m.why);
    f.check(m.first != 0 && m.second != std::uint16_t{0});
}

void fields(auto& f, Is<NodeOrder> auto& m) {
    each(f, "node_rank", m.node_rank, "first_task", m.first_task);
}

void fields(auto& f, Is<RankShare> auto& m) {
    each(f, "first", m.first, "count", m.count, "total", m.total);
    f.check(m.count <= m.total && m.first <= m.total - m.count);
}

void fields(auto& f, Is<HostEntry> auto& m) {
    f("name", m.name, longest_name);
    f("address", m.address);
    f("slots", m.slots);
}

void fields(auto& f, Is<Bytes> auto& m) {
    each(f, "tx", m.tx, "rx", m.rx, "at_least", m.at_least);
}

void fields(auto& f, Is<LinkDowned> auto& m) {
    each(f, "before", m.before, "after", m.after);
    f("netdev", m.netdev, longest_name);
}

void fields(auto& f, Is<GidChange> auto& m) {
    each(f, "index", m.index, "before", m.before, "after", m.after, "moved_to", m.moved_to);
}

void fields(auto& f, Is<PortTraffic> auto& m) {
    f("port", m.port, longest_name);
    f("source", m.source, ByteSource::None);
    each(f, "bytes", m.bytes, "expected", m.expected, "problem", m.problem, "link_downed", m.link_downed, "gid_change",
         m.gid_change);
}

void fields(auto& f, Is<NetdevTraffic> auto& m) {
    f("netdev", m.netdev, longest_name);
    f("role", m.role, NetdevRole::Ipoib);
    f("bytes", m.bytes);
    f("problem", m.problem);
}

void fields(auto& f, Is<Traffic> auto& m) {
    f("seconds", m.seconds, longest_seconds);
    f("ports", m.ports, most_ports);
    f("netdevs", m.netdevs, most_ports);
    each(f, "rdma", m.rdma, "sockets", m.sockets, "estimate", m.estimate, "has_source", m.has_source);
}

void fields(auto& f, Is<QpEvidence> auto& m) {
    each(f, "known", m.known, "unknown_why", m.unknown_why, "most_own", m.most_own);
    f("own_ports", m.own_ports, most_ports);
    f("others", m.others);
}

void fields(auto& f, Is<LogEvidence> auto& m) {
    f("ranks", m.ranks);
    f("version", m.version, longest_name);
    each(f, "networks", m.networks, "rdma", m.rdma, "rdma_gdr", m.rdma_gdr, "sockets", m.sockets, "nvlink", m.nvlink,
         "other", m.other, "local", m.local, "nodes", m.nodes, "info", m.info, "failed", m.failed, "unread", m.unread);
    f("hcas", m.hcas, most_ports);
    f("causes", m.causes);
}

void fields(auto& f, Is<profile::Waits> auto& m) {
    each(f, "gpu_ns", m.gpu_ns, "peer_ns", m.peer_ns, "wire_ns", m.wire_ns);
}

void fields(auto& f, Is<profile::SlowestPeer> auto& m) {
    each(f, "from", m.from, "to", m.to, "wait_ns", m.wait_ns);
}

void fields(auto& f, Is<profile::CommunicatorTotals> auto& m) {
    f("id", m.id);
    f("name", m.name, profile::longest_name);
    each(f, "ranks", m.ranks, "processes", m.processes, "sent", m.sent, "received", m.received, "lost", m.lost, "waits",
         m.waits, "slowest", m.slowest);
}

// --- From a node ---

/// A node cannot have Layout::Auto.
void fields(auto& f, Is<NodeReport> auto& m) {
    f("node", m.node, longest_name);
    each(f, "job", m.job_id, "first_task", m.first_task, "tasks", m.tasks, "step_nodes", m.step_nodes);
    f("gpus", m.gpus, 65535U);
    f("rdma_nccl", m.release);
    if (!is_understood(m.release)) {
        return;
    }
    f("layout", m.layout, Layout::Pod);
    f.check(m.layout != Layout::Auto);
    f("failover", m.failover);
    each(f, "alone", m.alone, "users_head", m.users_head, "cpus", m.cpus, "memlock_kib", m.memlock_kib, "hcas", m.hcas,
         "active_ports", m.active_ports, "fabric", m.fabric, "ports", m.ports, "addresses", m.addresses, "plan_head",
         m.plan_head, "plan_head_is_given", m.plan_head_is_given, "plan_head_why", m.plan_head_why, "block", m.block,
         "listener", m.listener, "warnings", m.warnings, "mpi", m.mpi, "keeps_order", m.keeps_order, "fabric_profile",
         m.fabric_profile);
    constexpr std::size_t longest_place = 4096; // of a node below many leaves and spines
    f("topology_address", m.topology_address, longest_place);
    f("topology_pattern", m.topology_pattern, longest_place);
}

void fields(auto& f, Is<Reached> auto& m) {
    f("errors", m.errors);
}

void fields(auto& f, Is<NodeAlarm> auto& m) {
    f("text", m.text);
}

void fields(auto& f, Is<NodeEvidence> auto& m) {
    f("node", m.node, longest_name);
    each(f, "traffic", m.traffic, "qps", m.qps, "exclusive", m.exclusive, "rank_per_gpu", m.rank_per_gpu, "gpus",
         m.gpus, "may_use_nvlink", m.may_use_nvlink, "gpu_direct_possible", m.gpu_direct_possible, "log", m.log,
         "causes", m.causes, "problem", m.problem);
    f("communicators", m.communicators, profile::most_reported);
}

// --- From srun ---

void fields(auto& f, Is<ReachTest> auto& m) {
    f("port", m.port);
    f("addresses", m.addresses);
}

void fields(auto& f, Is<Hosts> auto& m) {
    f("table", m.table, most_hosts);
}

void fields(auto& f, Is<Agreement> auto& m) {
    f("head_node", m.head_node, longest_name);
    each(f, "head", m.head, "head_why", m.head_why, "block", m.block);
    f("layout", m.layout, Layout::Pod);
    f.check(m.layout != Layout::Auto);
    each(f, "alone", m.alone, "ranks", m.ranks, "left_out", m.left_out, "strict_fault", m.strict_fault, "order",
         m.order, "fabric_profile", m.fabric_profile);
}

void fields(auto& f, Is<Disagreement> auto& m) {
    f("why", m.why);
    f("unequal_gpus", m.unequal_gpus);
    f("head_node", m.head_node, longest_name);
    f("head", m.head);
}

std::string write_message(const NodeMessage& message) {
    return write_message<>(message);
}

std::string write_message(const ServerMessage& message) {
    return write_message<>(message);
}

Result<NodeMessage> read_node_message(std::string_view text) {
    return read_message<NodeMessage>(text);
}

Result<ServerMessage> read_server_message(std::string_view text) {
    return read_message<ServerMessage>(text);
}

std::string write_evidence(const NodeEvidence& evidence) {
    return write_message<NodeEvidence>(evidence);
}

Result<NodeEvidence> read_evidence(std::string_view text) {
    return read_message<std::variant<NodeEvidence>>(text).map(
        [](auto message) { return std::get<NodeEvidence>(std::move(message)); });
}

} // namespace rdma_nccl
