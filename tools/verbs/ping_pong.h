// SPDX-License-Identifier: Apache-2.0
// Ping-pong between the mailboxes of two ends: each end writes a number into the other's mailbox and waits until the
// answer is in its own.
#pragma once

#include "tools/verbs/endpoint.h"
#include "tools/verbs/queue_pairs.h"

#ifdef HAVE_IBVERBS

#include <chrono>
#include <cstdint>
#include <vector>

namespace rdma_nccl {

struct Mailboxes {
    std::uint64_t* own = nullptr; ///< the HCA writes it
    std::uint64_t remote = 0;
    std::uint32_t remote_key = 0;
    std::uint64_t* outgoing = nullptr; ///< registered memory to send from if data is not inline
    std::uint32_t outgoing_key = 0;
};

/// Uses the first queue pair. There must be one object per connection, because its numbers continue.
class VerbsPing {
public:
    /// The number of writes for which a queue pair needs space, because few completions are requested and polled.
    static constexpr unsigned most_writes = 64;

    using Clock = std::chrono::steady_clock;

    VerbsPing(VerbsQueues& queues, const Mailboxes& mailboxes, bool yields);
    VerbsPing(const VerbsPing&) = delete; // contains pointers to itself
    VerbsPing& operator=(const VerbsPing&) = delete;
    ~VerbsPing() = default;

    /// Returns half round trip times in microseconds, without the first ones; empty if it was stopped early. The end
    /// that begins decides when it ends, and the other follows.
    tl::expected<std::vector<float>, TransferFailure> play(bool first, std::uint64_t round_trips,
                                                           std::chrono::milliseconds limit, const StopAsked& stop);

private:
    enum class Wait { Came, Stopped, Failed };

    Wait await_number(const StopAsked& stop);
    bool send(bool last);
    bool poll_completions();
    bool drain();
    [[nodiscard]] tl::unexpected<TransferFailure> failed() const;

    VerbsQueues& queues_;
    Mailboxes mailboxes_;
    bool yields_;
    std::uint64_t number_ = 0;  ///< number of the current round
    std::uint64_t message_ = 0; ///< source of inline data
    std::uint64_t* outgoing_;   ///< message_, or registered memory
    ibv_sge source_{};
    ibv_send_wr write_{};
    unsigned unsignalled_ = 0, signalled_ = 0; ///< writes posted and not known to be complete
    TransferFailure failure_;
    bool peer_ends_ = false;
};

} // namespace rdma_nccl

#endif
