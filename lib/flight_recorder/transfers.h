// SPDX-License-Identifier: Apache-2.0
// Collects the sends and receives in a rank's file (ProcessGroupNCCL::pointToPoint() and endCoalescing() of PyTorch's
// torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp, from 2.4).
#pragma once

#include "lib/flight_recorder/dump.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl::flight_recorder {

/// The numbers that PyTorch gives what it launches at once. All entries of a batch share both, and no others do: the
/// first counts batches up to PyTorch 2.5, the second later ones and what is not in a batch.
struct Launch {
    std::int64_t collective = 0;
    std::int64_t transfer = 0;

    friend bool operator==(const Launch&, const Launch&) = default;
};

class TransferCollector {
public:
    explicit TransferCollector(std::uint32_t rank) : rank_(rank) {}

    /// `ranks`: those of the group, in its order, as "[4, 6]".
    void add_group(const std::string& name, std::string title, std::uint64_t key, std::string_view ranks);

    /// `profiling_name`: "nccl:send 0->1", or "nccl:recv 1<-0", with the ranks' places in their group. A call that
    /// cannot be read makes all of its group unclear: it may be any.
    void add(const std::string& group, std::string_view profiling_name, const Launch& launch, Collective call);

    /// An entry of the group cannot be read, or is lost.
    void lose(const std::string& group);

    /// The entries of a batch have no state of their own (pytorch/pytorch #137969), but this last one, "coalesced",
    /// has theirs. Returns false if no send or receive was in it.
    bool end_batch(const std::string& group, const Launch& launch, CollectiveState state);

    /// Sets the transfers of a dump. Clears its `is_complete` if some are not among them.
    void take(Dump& dump);

private:
    struct Posted {
        std::uint32_t peer = 0;
        bool is_send = false;
        bool is_batched = false;
        bool is_open = false; ///< in a batch that has not ended: it is in a CUDA graph, or not launched
        Launch launch;
        Collective call;
    };
    struct Group {
        std::string title;
        std::uint64_t key = 0;
        std::vector<std::uint32_t> ranks;
        std::vector<Posted> posted;
        bool is_clear = true;
    };

    static Transfers first_of(const Group& group, const Posted& posted);
    static void append_transfers(std::vector<Transfers>& all, const Group& group);

    std::uint32_t rank_;
    std::map<std::string, Group> groups_;
    bool is_complete_ = true;
};

} // namespace rdma_nccl::flight_recorder
