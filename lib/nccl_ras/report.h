// SPDX-License-Identifier: Apache-2.0
// The report of NCCL's RAS as values: from JSON (jsonWrite...() in NCCL's src/ras/client_support.cc, 2.28.7 to 2.30.7),
// or from the text of older versions (text_report.h).
#pragma once

#include "lib/base/result.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl::ras {

/// The collectives that RAS counts, as the report names them. It does not see send and receive, replays of CUDA graphs,
/// and what copy engines or symmetric kernels do. NCCL 2.24 and 2.25 count all of them together, under the last name.
inline constexpr std::array<std::string_view, 6> function_names{"Broadcast",     "Reduce",    "AllGather",
                                                                "ReduceScatter", "AllReduce", "collective"};

/// A rank of a communicator, and the process that has it.
struct Member {
    std::uint32_t rank = 0;    ///< in the communicator
    std::string host;          ///< its IP address; printable; empty: not known
    std::int32_t pid = 0;      ///< in its own PID namespace; -1: not known
    std::int32_t cuda_dev = 0; ///< a process may have a rank on each of several GPUs

    friend bool operator==(const Member&, const Member&) = default;
};

struct Rank {
    Member member;
    /// Collectives that the host has launched; nullopt: the report does not say it.
    std::array<std::optional<std::uint64_t>, function_names.size()> counts{};
};

/// Ranks that have launched the same number of collectives of a function, and that the report does not name.
struct Unnamed {
    std::size_t function = 0; ///< of function_names
    std::uint64_t count = 0;  ///< collectives
    std::uint32_t ranks = 0;  ///< how many

    friend bool operator==(const Unnamed&, const Unnamed&) = default;
};

/// A rank from which the report has no data.
struct MissingRank {
    Member member;
    bool unresponsive = false; ///< its process does not answer
    bool dead = false;         ///< RAS has given its process up
    bool unclear = false;      ///< one of these, or the rank has left: NCCL 2.24 and 2.25 do not tell them apart

    /// Its process answers: the rank has only left its communicator, or not joined it.
    [[nodiscard]] bool answers() const { return !unresponsive && !dead && !unclear; }
};

struct Communicator {
    std::string hash;      ///< "0x9d1c"; printable
    std::string secondary; ///< of the hosts and processes, because a hash can be there twice; printable; text: empty
    std::uint32_t size = 0;
    bool settled = true; ///< its ranks have created it without an error, and none has begun to destroy it
    std::vector<Rank> ranks;
    std::vector<Unnamed> unnamed; ///< text only
    std::vector<MissingRank> missing;
};

struct Report {
    std::string version; ///< of the NCCL that answered, "2.30.7"; printable
    std::vector<Communicator> communicators;
    bool partial = false;       ///< communicators of which RAS does not warn are left out (text)
    std::size_t alike = 0;      ///< communicators that are left out because others have their hash (text)
    std::uint32_t timeouts = 0; ///< processes from which RAS got nothing in time
};

/// The largest report that is read: 64,000 ranks of communicators.
inline constexpr std::size_t most_report_bytes = std::size_t{32} << 20;

/// Parses a report in JSON or text. Fails if it is none, is too large or cut off, or lacks what is needed to tell ranks
/// apart. Counts of functions that are not in `function_names` are left out.
Result<Report> parse_report(std::string_view text);

} // namespace rdma_nccl::ras
