// SPDX-License-Identifier: Apache-2.0
// A port that is measured, and what bounds a measurement between two of them.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace rdma_nccl {

/// One HCA port of a node, as the node's plan chose it. Rail i of a node is measured with rail i of the others.
struct PairRail {
    std::string hca; ///< "mlx5_1"
    unsigned port = 1;
    bool ethernet = true;   ///< RoCE; false: InfiniBand
    unsigned gid_index = 0; ///< of the used entry; 0 on InfiniBand
    std::string gid;        ///< as text, "::ffff:10.77.1.1"
    double rate_gbps = 0;   ///< of the link; 0: unknown
    std::string netdev;     ///< of the port; may be empty on InfiniBand
    unsigned netdev_mtu = 0;
    std::string address;          ///< an IP address of the netdev, for TCP between the same ports; empty: none
    std::optional<int> numa_node; ///< absent: unknown
    std::string local_cpus;       ///< "0-31"; empty: unknown
    bool software = false;        ///< Soft-RoCE or siw: the measurement is one of the CPU

    friend bool operator==(const PairRail&, const PairRail&) = default;
};

/// Limit for the memory of one end: half to write from, half to be written to, with one message per queue pair.
inline constexpr std::uint64_t most_pair_memory = std::uint64_t{4} << 30;

/// The time for these bytes on the slowest link that counts as working: 1e8 bit/s, a tenth of Soft-RoCE on a busy CPU.
constexpr std::chrono::milliseconds slowest_transfer(std::uint64_t bytes) {
    constexpr std::uint64_t bytes_each_ms = 12'500;
    return std::chrono::milliseconds(bytes / bytes_each_ms);
}

/// The time to create or check a pattern of these bytes on a slow CPU, with the copy to or from a GPU: 1e8 bytes/s.
constexpr std::chrono::milliseconds slowest_pattern(std::uint64_t bytes) {
    constexpr std::uint64_t bytes_each_ms = 100'000;
    return std::chrono::milliseconds(bytes / bytes_each_ms);
}

} // namespace rdma_nccl
