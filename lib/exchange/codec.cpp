// SPDX-License-Identifier: Apache-2.0
#include "lib/exchange/messages.h"
#include "lib/net/message.h"

namespace rdma_nccl {

namespace {

constexpr std::size_t longest_name = 255;
constexpr std::size_t most_hosts = 65536;
constexpr std::size_t most_ports = 128; // of one node, in evidence
constexpr double longest_seconds = 1e8;

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

void fields(auto& f, Is<RankShare> auto& m) {
    f("first", m.first);
    f("count", m.count);
    f("total", m.total);
    f.check(m.count <= m.total && m.first <= m.total - m.count);
}

void fields(auto& f, Is<HostEntry> auto& m) {
    f("name", m.name, longest_name);
    f("address", m.address);
    f("slots", m.slots);
}

void fields(auto& f, Is<Bytes> auto& m) {
    f("tx", m.tx);
    f("rx", m.rx);
    f("at_least", m.at_least);
}

void fields(auto& f, Is<PortTraffic> auto& m) {
    f("port", m.port, longest_name);
    f("source", m.source, ByteSource::None);
    f("bytes", m.bytes);
    f("expected", m.expected);
    f("problem", m.problem);
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
    f("rdma", m.rdma);
    f("sockets", m.sockets);
    f("estimate", m.estimate);
    f("has_source", m.has_source);
}

void fields(auto& f, Is<QpEvidence> auto& m) {
    f("known", m.known);
    f("unknown_why", m.unknown_why);
    f("most_own", m.most_own);
    f("own_ports", m.own_ports, most_ports);
    f("others", m.others);
}

void fields(auto& f, Is<LogEvidence> auto& m) {
    f("ranks", m.ranks);
    f("version", m.version, longest_name);
    f("networks", m.networks);
    f("rdma", m.rdma);
    f("rdma_gdr", m.rdma_gdr);
    f("sockets", m.sockets);
    f("nvlink", m.nvlink);
    f("other", m.other);
    f("local", m.local);
    f("nodes", m.nodes);
    f("info", m.info);
    f("hcas", m.hcas, most_ports);
    f("causes", m.causes);
}

// --- From a node ---

template<>
inline constexpr std::string_view message_name<NodeReport> = "report";

/// A node cannot have Layout::Auto.
void fields(auto& f, Is<NodeReport> auto& m) {
    f("node", m.node, longest_name);
    f("job", m.job_id);
    f("first_task", m.first_task);
    f("tasks", m.tasks);
    f("step_nodes", m.step_nodes);
    f("gpus", m.gpus, 65535U);
    f("layout", m.layout, Layout::Pod);
    f.check(m.layout != Layout::Auto);
    f("cpus", m.cpus);
    f("memlock_kib", m.memlock_kib);
    f("hcas", m.hcas);
    f("active_ports", m.active_ports);
    f("fabric", m.fabric);
    f("ports", m.ports);
    f("addresses", m.addresses);
    f("plan_head", m.plan_head);
    f("plan_head_is_given", m.plan_head_is_given);
    f("plan_head_why", m.plan_head_why);
    f("block", m.block);
    f("listener", m.listener);
    f("warnings", m.warnings);
}

template<>
inline constexpr std::string_view message_name<Reached> = "reached";

void fields(auto& f, Is<Reached> auto& m) {
    f("errors", m.errors);
}

template<>
inline constexpr std::string_view message_name<NodeAlarm> = "alarm";

void fields(auto& f, Is<NodeAlarm> auto& m) {
    f("text", m.text);
}

template<>
inline constexpr std::string_view message_name<NodeEvidence> = "evidence";

void fields(auto& f, Is<NodeEvidence> auto& m) {
    f("node", m.node, longest_name);
    f("traffic", m.traffic);
    f("qps", m.qps);
    f("exclusive", m.exclusive);
    f("rank_per_gpu", m.rank_per_gpu);
    f("gpus", m.gpus);
    f("gpu_direct_possible", m.gpu_direct_possible);
    f("log", m.log);
    f("causes", m.causes);
    f("problem", m.problem);
}

// --- From srun ---

template<>
inline constexpr std::string_view message_name<ReachTest> = "try";

void fields(auto& f, Is<ReachTest> auto& m) {
    f("port", m.port);
    f("addresses", m.addresses);
}

template<>
inline constexpr std::string_view message_name<Hosts> = "hosts";

void fields(auto& f, Is<Hosts> auto& m) {
    f("table", m.table, most_hosts);
}

template<>
inline constexpr std::string_view message_name<Agreement> = "agreed";

void fields(auto& f, Is<Agreement> auto& m) {
    f("head_node", m.head_node, longest_name);
    f("head", m.head);
    f("head_why", m.head_why);
    f("block", m.block);
    f("layout", m.layout, Layout::Pod);
    f.check(m.layout != Layout::Auto);
    f("ranks", m.ranks);
    f("left_out", m.left_out);
    f("strict_fault", m.strict_fault);
}

template<>
inline constexpr std::string_view message_name<Disagreement> = "alone";

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
    auto message = read_message<std::variant<NodeEvidence>>(text);
    if (!message) {
        return tl::unexpected(message.error());
    }
    return std::get<NodeEvidence>(std::move(*message));
}

} // namespace rdma_nccl
