// SPDX-License-Identifier: Apache-2.0
// What an HCA port counts during a measurement: the bytes sent, which prove that this port was used, and events that
// explain a slow result.
#pragma once

#include "lib/traffic/traffic.h"

#include <map>

namespace rdma_nccl {

struct PortReading {
    TrafficSample::Pair bytes;            ///< in the port's own unit
    std::optional<std::uint64_t> packets; ///< sent and received; absent: it does not count them
    std::map<std::string, std::uint64_t, std::less<>>
        explains; ///< by path below the port, "hw_counters/out_of_sequence"
};

class PortCounters {
public:
    /// Returns counters with absent results if the port does not exist or counts nothing.
    static PortCounters of(const SysRoot& root, const Fabric& fabric, const std::string& hca, unsigned port);

    /// Returns how late the counters may be: read them this long after a transfer.
    [[nodiscard]] std::chrono::milliseconds counter_latency() const { return source_.counter_latency; }
    /// Never fails: values that cannot be read are absent.
    [[nodiscard]] PortReading read(const SysRoot& root) const;
    /// Returns the bytes sent between two readings; absent if the port does not count them, or a counter was reset or
    /// is full. `path_mtu`: of the connection; Soft-RoCE counts packets, which are assumed to be full.
    [[nodiscard]] std::optional<std::uint64_t> sent(const PortReading& before, const PortReading& after,
                                                    unsigned path_mtu) const;

private:
    PortSource source_;
};

/// Returns events that explain a slow result: "retransmits: 120 at n02 mlx5_0:1". Leaves out counts that are negligible
/// for the number of packets, because a network with ECN always marks some.
std::vector<std::string> counter_notes(const PortReading& before, const PortReading& after, const std::string& where);

} // namespace rdma_nccl
