// SPDX-License-Identifier: Apache-2.0
// The operations that `rdma-nccl bench` measures: how many elements each buffer has, and how much of them the wire
// carries. They follow the definitions of nccl-tests (doc/PERFORMANCE.md there), so that figures are comparable.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace rdma_nccl {

enum class Collective { AllReduce, AllGather, ReduceScatter, AllToAll, Broadcast, SendRecv };

/// Returns the name of nccl-tests' program: "all_reduce", "all_gather", "reduce_scatter", "alltoall", "broadcast",
/// "sendrecv".
std::string_view name_of(Collective collective);

/// Parses such a name; also accepts "all-reduce", "all-to-all" and "send-recv". Returns nullopt for others.
std::optional<Collective> parse_collective(std::string_view name);

std::vector<std::string_view> collective_names();

/// Returns whether the operation computes. The others only move values of any type.
bool has_reduction(Collective collective);

/// Returns whether the operation can work on one buffer. All-to-all and send-recv cannot.
bool has_in_place(Collective collective);

/// Numbers of elements of one rank. `count` is the argument of the NCCL call.
struct CollectiveCounts {
    std::uint64_t count = 0;
    std::uint64_t send = 0;
    std::uint64_t receive = 0;

    /// Returns the size of the larger buffer in elements, which is nccl-tests' size.
    [[nodiscard]] std::uint64_t most() const { return send > receive ? send : receive; }
    friend bool operator==(const CollectiveCounts&, const CollectiveCounts&) = default;
};

/// Returns the counts for `bytes` in the larger buffer. If each rank has a part of it, parts are multiples of 16 bytes,
/// so the total may be less. `type_size` is a power of 2 from 1 to 16.
CollectiveCounts counts_of(Collective collective, std::uint64_t bytes, unsigned type_size, unsigned ranks);

/// Returns busbw / algbw: the bytes that each rank's link carries, divided by the size. `ranks` >= 1.
double bus_factor(Collective collective, unsigned ranks);

} // namespace rdma_nccl
