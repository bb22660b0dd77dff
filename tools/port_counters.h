// SPDX-License-Identifier: Apache-2.0
// What one HCA port itself counts around a measurement: the bytes that it sent, which prove that it was this port, and
// what explains a slow one.
#pragma once

#include "lib/fabric.h"
#include "lib/root.h"
#include "lib/traffic.h"

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl {

struct PortReading {
    TrafficReading::Pair bytes;                    ///< in the port's own unit
    std::optional<std::uint64_t> packets;          ///< sent and received; absent: it counts none
    std::map<std::string, std::uint64_t> explains; ///< by path below the port, "hw_counters/out_of_sequence"
};

class PortCounters {
public:
    /// A port that is not there, or counts nothing, gives absent results.
    static PortCounters of(const Root& root, const Fabric& fabric, const std::string& hca, unsigned port);

    /// How late its counters may be: so long after a transfer they are read.
    [[nodiscard]] std::chrono::milliseconds settle() const { return source_.settle; }
    /// Never fails: what cannot be read is absent.
    [[nodiscard]] PortReading read(const Root& root) const;
    /// Bytes sent between two readings; absent when the port does not count any, or a counter was reset or is full.
    /// `path_mtu`: of the connection; Soft-RoCE counts packets, which are taken for full ones.
    [[nodiscard]] std::optional<std::uint64_t> sent(const PortReading& before, const PortReading& after,
                                                    unsigned path_mtu) const;

private:
    PortSource source_;
};

/// What explains a slow result, in words: "retransmits: 120 at n02 mlx5_0:1". Empty: nothing was counted, or so little
/// for the packets of that time that it costs nothing to speak of: a network with ECN always marks some.
std::vector<std::string> counter_notes(const PortReading& before, const PortReading& after, const std::string& where);

} // namespace rdma_nccl
