// SPDX-License-Identifier: Apache-2.0
// What nodes saw, for tests of verdicts.
#pragma once

#include "lib/evidence/verdict.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace rdma_nccl::test {

constexpr std::uint64_t mib = std::uint64_t{1} << 20;
constexpr std::uint64_t gib = std::uint64_t{1} << 30;

inline PortTraffic port(std::string name, std::uint64_t bytes, bool expected = true) {
    return {std::move(name), ByteSource::PortData, {bytes, bytes, false}, expected, {}};
}

/// Whose first port's LinkDownedCounter, or the carrier_changes of its interface, went from `before` to `after` during
/// the step.
inline NodeEvidence with_link_downed(NodeEvidence evidence, std::uint64_t before, std::uint64_t after,
                                     std::string netdev = "") {
    evidence.traffic.ports.front().link_downed = LinkDowned{before, after, std::move(netdev)};
    return evidence;
}

/// At whose first port NCCL took GID 3, which is another one now.
inline NodeEvidence with_gid_change(NodeEvidence evidence, std::string_view before, std::string_view after,
                                    std::optional<unsigned> moved_to = std::nullopt) {
    evidence.traffic.ports.front().gid_change =
        GidChange{3, IpAddress::parse(before).value(), IpAddress::parse(after).value(), moved_to};
    return evidence;
}

/// A node of its own, with one port that NCCL was told to use.
inline NodeEvidence node(const Bytes& rdma, const Bytes& sockets, std::string name = "n01") {
    NodeEvidence evidence;
    evidence.node = std::move(name);
    evidence.exclusive = true;
    evidence.traffic.seconds = 10;
    evidence.traffic.rdma = rdma;
    evidence.traffic.sockets = sockets;
    evidence.traffic.ports = {{"mlx5_0:1", ByteSource::PortData, rdma, true, {}}};
    evidence.traffic.netdevs = {{"eth0", NetdevRole::Plain, sockets, {}}};
    return evidence;
}

/// As much in both directions.
inline NodeEvidence node(std::uint64_t rdma, std::uint64_t sockets, std::string name = "n01") {
    return node(Bytes{rdma, rdma, false}, Bytes{sockets, sockets, false}, std::move(name));
}

inline NodeEvidence with_queue_pairs(NodeEvidence evidence, unsigned own, std::vector<std::string> others = {}) {
    evidence.qps.known = true;
    evidence.qps.most_own = own;
    evidence.qps.others = std::move(others);
    return evidence;
}

/// Whose ports have no byte counters.
inline NodeEvidence without_source(NodeEvidence evidence) {
    evidence.traffic.has_source = false;
    evidence.traffic.rdma = {};
    evidence.traffic.ports = {{"siw0:1", ByteSource::None, {}, true, "siw counts no bytes"}};
    return evidence;
}

inline LogEvidence connections(std::uint64_t rdma, std::uint64_t gdr, std::uint64_t sockets) {
    LogEvidence log;
    log.ranks = 2;
    log.info = true;
    log.rdma = rdma;
    log.rdma_gdr = gdr;
    log.sockets = sockets;
    return log;
}

} // namespace rdma_nccl::test
