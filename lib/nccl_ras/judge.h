// SPDX-License-Identifier: Apache-2.0
// Says for which ranks the others wait, from two reports of NCCL's RAS.
#pragma once

#include "lib/nccl_ras/report.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl::ras {

/// Ranks of a communicator that have not launched a collective in which its others are, and did not do so between the
/// two reports.
struct Lag {
    std::string communicator;    ///< its hash
    std::string name;            ///< of the communicator, the user's; empty: not known
    std::uint32_t size = 0;      ///< of the communicator
    std::string_view function;   ///< of function_names
    std::uint64_t operation = 0; ///< number of the collective, of this function and communicator, from 1
    std::vector<Member> members; ///< ranks that have not entered it
    std::size_t unnamed = 0;     ///< more that have not; which ranks they are, a report in text does not say
    std::size_t waiting = 0;     ///< ranks that have
};

/// A rank that RAS cannot ask.
struct Lost {
    std::string communicator; ///< its hash
    MissingRank rank;
    std::string name; ///< of the communicator, the user's; empty: not known
};

enum class State {
    NoCommunicator, ///< RAS knows none
    Changing,       ///< communicators are being created or destroyed, and nothing else stands out
    Moving,         ///< collectives were launched between the two reports
    Equal,          ///< all ranks have launched the same: they wait inside of it, or outside of NCCL
    Lagging,
    Gone, ///< RAS has answered once only: ranks end
};

struct Verdict {
    std::string version; ///< of NCCL
    State state = State::NoCommunicator;
    bool moved = false;     ///< between the reports ranks launched collectives, or communicators came or went
    std::vector<Lost> lost; ///< dead ones first, those that answer last
    /// Only of ranks for which others wait while they wait for nobody. If there are none, of all ranks that lag: they
    /// wait for each other.
    std::vector<Lag> lags;
    bool circular = false; ///< the latter
    /// From reports in text: State::Equal and `moved` = false do not mean that nothing moves, and the ranks of `lags`
    /// may wait for each other, or in a communicator that is not named.
    bool partial = false;
    std::size_t alike = 0; ///< communicators that are not compared because others have their hash

    /// Returns true if it blames any rank: not one that answers but is not in its communicator.
    [[nodiscard]] bool blames_any() const;
};

/// `later` was asked for some time after `earlier`, at least twice as long as a step of the job takes. A communicator
/// is the same if both hashes are. RAS counts what the host launches, not what the GPUs complete: equal counts do not
/// mean that nothing hangs.
Verdict judge(const Report& earlier, const Report& later);

/// Adds the names of communicators by their hashes, which NCCL also gives to profiler plugins.
void add_names(Verdict& verdict, const std::map<std::uint64_t, std::string>& names);

/// A rank that the verdict names, and what about it.
struct Named {
    Member member;
    std::string what; ///< "has not entered all-reduce 4711 of communicator "dp" 0xab (15 of 16 ranks wait 62 s)"
};

/// Returns dead and unresponsive ranks first, and last those that answer but are not in their communicator. `since`:
/// how long nothing has moved, "62 s"; empty if that is not known.
std::vector<Named> named_in(const Verdict& verdict, std::string_view since = "");

/// Readers get no more than so many names.
inline constexpr std::size_t most_named = 16;

/// What the reader of the verdict knows better about a rank.
struct Described {
    std::string name;  ///< "rank 13 on n02"
    std::string state; ///< of its process, "state S (sleeping), waits in tcp_recvmsg"; empty: not known
};
using Describe = std::function<Described(const Member&)>;

/// "communicator rank 13 (pid 4711 on 10.0.0.2)", without a state.
Described describe(const Member& member);

/// Returns the verdict in words. Each line is a sentence without a period; one that begins with blanks is about those
/// before it.
std::vector<std::string> lines_of(const Verdict& verdict, const Describe& describe, std::string_view since = "");

} // namespace rdma_nccl::ras
