// SPDX-License-Identifier: Apache-2.0
// What a rank's file of PyTorch's flight recorder says about the collectives, sends and receives of its process groups
// (torch/csrc/distributed/c10d/FlightRecorder*.hpp, versions 2.1 to 2.10).
#pragma once

#include "lib/base/result.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl::flight_recorder {

/// How far a collective has come on a rank.
enum class CollectiveState : std::uint8_t {
    Scheduled, ///< on the GPU's stream, where earlier work runs
    Started,
    Completed,
};

/// A collective of a process group, as one rank has called it; or a send or receive. All texts are printable.
struct Collective {
    std::uint64_t sequence = 0; ///< in its process group, from 1; the same on all ranks
    std::string name;           ///< "all_reduce", "send", "receive"
    CollectiveState state = CollectiveState::Scheduled;
    std::uint64_t elements = 0; ///< of all inputs
    std::string sizes{};        ///< of the inputs: "[1024, 2]", and the number of the others
    std::string type{};         ///< of the first input: "Float"

    friend bool operator==(const Collective&, const Collective&) = default;
};

/// The last collectives of a process group that a rank has called, started and completed, by their sequence; 0: none.
struct Progress {
    std::uint64_t enqueued = 0;
    std::uint64_t started = 0;
    std::uint64_t completed = 0;

    friend bool operator==(const Progress&, const Progress&) = default;
};

/// A process group as one of its ranks sees it.
struct ProcessGroup {
    std::string name;        ///< the same on all ranks; groups that share no rank may have the same
    std::string description; ///< the user's: "dp"; may be empty
    std::uint32_t ranks = 0; ///< 0: not known
    Progress progress;
    std::optional<Collective> pending; ///< the oldest that has not completed
    std::uint64_t members{};           ///< a hash of its ranks, below 2^48; 0: not known

    friend bool operator==(const ProcessGroup&, const ProcessGroup&) = default;
};

/// The sends of a rank to another one in a process group, or its receives from it.
struct Transfers {
    std::string group;       ///< the process group's description, else its name
    std::uint32_t ranks = 0; ///< of the group
    std::uint64_t key = 0;   ///< a hash of the group's name and ranks, below 2^48
    std::uint32_t peer = 0;  ///< the other one's rank in the job
    bool is_send = false;
    bool is_batched = false;  ///< by batch_isend_irecv()
    bool is_clear = false;    ///< the file says which of them have completed
    std::uint64_t posted = 0; ///< their number in the file: older ones may be lost
    std::optional<Collective>
        pending{}; ///< the oldest that has not completed; its sequence is that in the file, from 1

    friend bool operator==(const Transfers&, const Transfers&) = default;
};

inline constexpr std::size_t most_groups = 64;    ///< of a rank
inline constexpr std::size_t most_transfers = 64; ///< of a rank: pairs of a group and another rank, each way

/// One rank's file.
struct Dump {
    std::string version; ///< of its layout: "2.10"
    std::uint32_t rank = 0;
    std::vector<ProcessGroup> groups; ///< without those about which it says nothing
    std::vector<Transfers> transfers{};
    bool is_complete = false; ///< it has all sends and receives of the rank, from its first
    std::string last_call{};  ///< "all_reduce of dp", or empty

    friend bool operator==(const Dump&, const Dump&) = default;
};

/// Parses a file. Fails if the recorder did not write it, or if it is beyond the limits of pickle.h. Entries that make
/// no sense are left out. `rank` is not in the file.
Result<Dump> parse_dump(std::string_view bytes, std::uint32_t rank = 0);

} // namespace rdma_nccl::flight_recorder
