// SPDX-License-Identifier: Apache-2.0
// The operations that `rdma-nccl bench` measures: how many elements each side has, and what the wire carries of it. By
// the definitions of nccl-tests (doc/PERFORMANCE.md there), so that figures compare.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace rdma_nccl {

enum class Collective { AllReduce, AllGather, ReduceScatter, AllToAll, Broadcast, SendRecv };

/// As nccl-tests call their programs: "all_reduce", "all_gather", "reduce_scatter", "alltoall", "broadcast",
/// "sendrecv".
std::string_view name_of(Collective collective);

/// Such a name; "all-reduce", "all-to-all" and "send-recv" too.
std::optional<Collective> parse_collective(std::string_view name);

std::vector<std::string_view> collective_names();

/// Whether it computes: the others only move values, whatever their type.
bool has_reduction(Collective collective);

/// Whether it can work on one buffer: all-to-all and send-recv cannot.
bool has_in_place(Collective collective);

/// Elements of one rank. `count` is what NCCL is called with.
struct CollectiveCounts {
    std::uint64_t count = 0;
    std::uint64_t send = 0;
    std::uint64_t receive = 0;

    /// Which of both is more: nccl-tests' size, in elements.
    [[nodiscard]] std::uint64_t most() const { return send > receive ? send : receive; }
    friend bool operator==(const CollectiveCounts&, const CollectiveCounts&) = default;
};

/// For so many bytes in the greater buffer; where each rank has a part of it, parts are multiples of 16 bytes, so it
/// may be less. `type_size`: 1 to 16, a power of 2.
CollectiveCounts counts_of(Collective collective, std::uint64_t bytes, unsigned type_size, unsigned ranks);

/// busbw / algbw: what each rank's link carries, over the size. `ranks` >= 1.
double bus_factor(Collective collective, unsigned ranks);

} // namespace rdma_nccl
