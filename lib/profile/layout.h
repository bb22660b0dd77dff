// SPDX-License-Identifier: Apache-2.0
// The file that the profiler plugin (tools/profiler/) keeps for each process with communicators: counters in memory
// that the file backs, so that they can be read while the process runs, and after it was killed. Writer and reader are
// of one build; a file of another layout is refused by its `layout`.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace rdma_nccl::profile {

inline constexpr std::uint64_t layout = 0x3130'5250'4c43'4e52; ///< "RNCLPR01"
inline constexpr std::string_view file_prefix = "profile.";    ///< of the files' names: "profile.PID.XXXXXX"
inline constexpr std::size_t most_processes = 1024; ///< files in a directory: each takes memory until the step ends
inline constexpr std::size_t most_communicators = 1024;
inline constexpr std::size_t most_flows = 8192;
inline constexpr std::size_t longest_name = 48;

/// NCCL's functions, by the names that its events have (src/collectives.cc, 2.30.7).
enum class Function : std::uint8_t {
    Other,
    AllReduce,
    AllGather,
    ReduceScatter,
    Broadcast,
    Reduce,
    AllToAll,
    Gather,
    Scatter,
    Send,
    Recv,
};
inline constexpr auto function_names =
    std::to_array<std::string_view>({"other", "AllReduce", "AllGather", "ReduceScatter", "Broadcast", "Reduce",
                                     "AlltoAll", "Gather", "Scatter", "Send", "Recv"});

/// Whose bytes a flow has. Own: of this process's rank, to or from `peer`. OnBehalf: PXN, which NCCL moves through
/// another process of the node; the communicator is unknown, and `peer` is the rank there. Calls: no bytes, only how
/// often the function was called.
enum class FlowKind : std::uint8_t { Empty, Own, OnBehalf, Calls };

/// What a flow counts, in one number that can be compared and swapped; 0 is an empty slot.
struct FlowKey {
    FlowKind kind = FlowKind::Empty;
    bool sends = false;
    Function function = Function::Other;
    std::uint16_t communicator = 0; ///< below most_communicators
    std::uint32_t peer = 0;         ///< a rank, below 2^32

    [[nodiscard]] constexpr std::uint64_t packed() const {
        return std::uint64_t{peer} << 32U | std::uint64_t{communicator} << 16U |
               static_cast<std::uint64_t>(function) << 8U | std::uint64_t{sends} << 4U |
               static_cast<std::uint64_t>(kind);
    }
    static constexpr FlowKey unpack(std::uint64_t packed) {
        return {static_cast<FlowKind>(packed & 0xfU), (packed >> 4U & 1U) != 0,
                static_cast<Function>(packed >> 8U & 0xffU), static_cast<std::uint16_t>(packed >> 16U & 0xffffU),
                static_cast<std::uint32_t>(packed >> 32U)};
    }
    friend constexpr bool operator==(const FlowKey&, const FlowKey&) = default;
};

using Counter = std::atomic<std::uint64_t>;
static_assert(Counter::is_always_lock_free && std::endian::native == std::endian::little);

/// One writer at a time as a rule, the progress thread of the communicator; any number of readers.
struct alignas(64) Flow {
    Counter key;
    Counter bytes;
    Counter operations; ///< of Calls: calls; else NCCL's operations of one channel
    // Nanoseconds that steps have waited, estimated from one of each `time_sample` of them.
    Counter gpu;  ///< for data of the GPU or for its buffers
    Counter peer; ///< of sends: for the receiver's buffers
    Counter wire; ///< of sends: for the network; of receives: for the peer's data
};
static_assert(sizeof(Flow) == 64);

inline constexpr unsigned time_sample = 8;

enum class CommunicatorState : std::uint32_t { Empty, Open, Closed };

struct Communicator {
    std::atomic<CommunicatorState> state;
    std::int32_t rank;                   ///< of this process
    std::int32_t ranks;                  ///< 0: not known, as before NCCL 2.27
    std::int32_t nodes;                  ///< 0: not known
    std::uint64_t id;                    ///< the same in all processes of the communicator; 0: not known
    Counter lost;                        ///< operations that were not counted
    std::array<char, longest_name> name; ///< the user's (ncclConfig_t::commName), ends with a zero; may be empty
};

struct File {
    std::uint64_t layout;
    std::uint32_t pid;       ///< in its own PID namespace
    std::uint32_t interface; ///< of NCCL's profiler interface: 1 to 6
    Counter dropped;         ///< operations of communicators without a place, and of other processes
    std::array<std::uint64_t, 5> reserved;
    std::array<Communicator, most_communicators> communicators;
    Flow rest; ///< of all peers for which there was no place in `flows`
    std::array<Flow, most_flows> flows;
};

} // namespace rdma_nccl::profile
