// SPDX-License-Identifier: Apache-2.0
// What a process's profiler plugin has counted, as values, and their sums over processes.
#pragma once

#include "lib/base/result.h"
#include "lib/profile/layout.h"

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace rdma_nccl::profile {

/// Of steps; estimated (layout.h, time_sample).
struct Waits {
    std::uint64_t gpu_ns = 0;
    std::uint64_t peer_ns = 0;
    std::uint64_t wire_ns = 0;

    [[nodiscard]] std::uint64_t total() const { return gpu_ns + peer_ns + wire_ns; }
    Waits& operator+=(const Waits& other);
    friend bool operator==(const Waits&, const Waits&) = default;
};

struct FlowTotals {
    FlowKey key;
    std::uint64_t bytes = 0;
    std::uint64_t operations = 0;
    Waits waits;

    friend bool operator==(const FlowTotals&, const FlowTotals&) = default;
};

struct CommunicatorEntry {
    std::uint64_t id = 0; ///< 0: not known
    std::string name;     ///< the user's, printable; may be empty
    std::int32_t rank = 0;
    std::int32_t ranks = 0; ///< 0: not known
    std::int32_t nodes = 0; ///< 0: not known
    std::uint64_t lost = 0; ///< operations that were not counted
    bool open = false;
};

struct ProcessProfile {
    std::uint32_t pid = 0;                                    ///< in its own PID namespace
    std::uint32_t interface = 0;                              ///< of NCCL's profiler interface
    std::uint64_t dropped = 0;                                ///< operations of communicators that had no place
    std::map<std::uint16_t, CommunicatorEntry> communicators; ///< by their numbers in FlowKey
    std::vector<FlowTotals> flows;                            ///< `communicator` is in `communicators`, or 0: not known
    FlowTotals rest; ///< of peers that had no place of their own; its key is empty
};

/// Parses a file of the plugin's. Fails if it is another layout's or not as long as one. What makes no sense in it, a
/// communicator that is not there, a key of an unknown kind, is left out.
Result<ProcessProfile> parse_profile(std::string_view bytes);

/// Returns the names of the plugin's files in an open directory.
std::vector<std::string> profiles_in(int directory);

/// By the names of their files.
using Profiles = std::map<std::string, ProcessProfile>;

/// Reads the plugin's files of a directory of `owner`'s, at most `most_processes` of them; what is not one of them is
/// left out. Without such a directory it returns none.
Profiles read_profiles(const std::string& path, uid_t owner = ::geteuid());

/// Returns the users' names of communicators by their ids.
std::map<std::uint64_t, std::string> names_of(const Profiles& profiles);

/// Returns what a process has counted between two readings of its file.
ProcessProfile counted_since(const ProcessProfile& before, ProcessProfile now);

/// The longest wait of a rank's sends to one peer.
struct SlowestPeer {
    std::int32_t from = 0; ///< ranks in the communicator; equal: there was no wait
    std::int32_t to = 0;
    std::uint64_t wait_ns = 0; ///< for the peer and the wire

    friend bool operator==(const SlowestPeer&, const SlowestPeer&) = default;
};

/// What some of a communicator's processes have moved.
struct CommunicatorTotals {
    std::uint64_t id = 0;        ///< 0: not known
    std::string name;            ///< the user's; may be empty
    std::uint32_t ranks = 0;     ///< of the communicator; 0: not known
    std::uint32_t processes = 0; ///< of which these are the sums
    std::uint64_t sent = 0;
    std::uint64_t received = 0;
    std::uint64_t lost = 0; ///< operations that were not counted
    Waits waits;            ///< of sends
    SlowestPeer slowest;

    [[nodiscard]] bool has_moved() const { return sent > 0 || received > 0; }

    friend bool operator==(const CommunicatorTotals&, const CommunicatorTotals&) = default;
};

/// Returns all communicators of the process, also those that have moved nothing.
std::vector<CommunicatorTotals> totals_of(const ProcessProfile& process);

/// Of a node, in its evidence: those with most bytes.
inline constexpr std::size_t most_reported = 256;

/// Makes one of those that have the same id; those without one stay. Most bytes sent come first.
std::vector<CommunicatorTotals> merged(std::vector<CommunicatorTotals> totals);

/// A rank that has called a collective function less often than another one of its communicator. A program may be some
/// calls ahead of the GPU, so that a few of them say little; a number that stays or grows tells who is late.
struct Lag {
    std::int32_t rank = 0; ///< in the communicator
    Function function = Function::Other;
    std::uint64_t calls = 0;  ///< that it has made
    std::uint64_t behind = 0; ///< calls that another rank has made more, at least 1

    friend bool operator==(const Lag&, const Lag&) = default;
};

/// Returns the rank that is most behind in each communicator with an id, of the ranks of these processes. Send and Recv
/// do not count: ranks differ in them by design.
std::map<std::uint64_t, Lag> lags_of(const Profiles& profiles);

/// "tp (8 ranks)"; without a name its id, "4f1c (8 ranks)".
std::string title_of(const CommunicatorTotals& totals);
/// "slowest peer 3 -> 4, 71 % of the wait is for the wire, 12 operations not counted"; may be empty.
std::string waits_text(const CommunicatorTotals& totals);
/// "AllReduce".
std::string_view name_of(Function function);
/// "rank 5 is 3 AllReduce calls behind".
std::string lag_text(const Lag& lag);

} // namespace rdma_nccl::profile
