// SPDX-License-Identifier: Apache-2.0
// Writes that keep all queue pairs busy, and a ping-pong of small ones.
#pragma once

#include "tools/verbs/endpoint.h"
#include "tools/verbs/queue_pairs.h"

#ifdef HAVE_IBVERBS

#include <array>

namespace rdma_nccl {

/// Time after which a peer counts as silent if nothing completes, in addition to the time of the bytes in flight. It is
/// longer than all retries of an HCA with timeout 14 (8 times up to 4 x 67 ms). Soft-RoCE can retry forever.
inline constexpr std::chrono::milliseconds verbs_timeout{4000};

/// Source and destination of the writes. Those of queue pair i are `i * stride` bytes behind those of the first.
struct WriteArea {
    std::uint64_t local = 0, remote = 0;
    std::uint32_t local_key = 0, remote_key = 0;
    std::uint64_t stride = 0;
    std::uint32_t bytes = 0; ///< per write
};

/// Posts writes in chains of up to 16. Only the last write of a chain is signalled, so a chain needs one library call,
/// one doorbell and one completion.
class WriteFlow {
public:
    using Clock = std::chrono::steady_clock;

    /// `depth`: writes in flight per queue pair. `naps`: sleep while waiting, for software devices, which need the CPU
    /// that would poll to make progress.
    WriteFlow(VerbsQueues& queues, const WriteArea& area, unsigned depth, bool naps);
    WriteFlow(const WriteFlow&) = delete; // contains pointers to itself
    WriteFlow& operator=(const WriteFlow&) = delete;
    ~WriteFlow() = default;

    /// Does one write on each queue pair, and waits for its completion.
    tl::expected<void, TransferFailure> write_once(std::chrono::milliseconds limit);

    tl::expected<VerbsBandwidth, TransferFailure> write_for(std::chrono::milliseconds time, const StopAsked& stop);

private:
    static constexpr unsigned longest_chain = 16;
    struct Pair {
        std::array<ibv_send_wr, longest_chain> chain{};
        ibv_sge source{};
        unsigned in_flight = 0;
    };

    int post(std::size_t index, unsigned writes);
    int fill();
    Completions poll();
    void nap() const;
    [[nodiscard]] tl::unexpected<TransferFailure> failed(TransferFailure failure) const;
    void widen(Clock::duration since_begin);

    VerbsQueues& queues_;
    std::vector<Pair> pairs_;
    unsigned depth_;
    bool naps_;
    std::uint32_t bytes_;         ///< bytes per write
    unsigned window_ = 1;         ///< most writes in flight on all queue pairs
    unsigned in_flight_ = 0;      ///< writes in flight
    std::uint64_t completed_ = 0; ///< completed writes
};

struct Mailboxes {
    std::uint64_t* own = nullptr; ///< the HCA writes it
    std::uint64_t remote = 0;
    std::uint32_t remote_key = 0;
    std::uint64_t* outgoing = nullptr; ///< registered memory to send from if data is not inline
    std::uint32_t outgoing_key = 0;
};

/// Ping-pong between the mailboxes of two ends: each end writes a number into the other's mailbox and waits until the
/// answer is in its own. Uses the first queue pair. One object per connection, because its numbers continue.
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
    bool await_number(const StopAsked& stop);
    bool send(bool last);
    bool poll_completions();
    void drain();

    VerbsQueues& queues_;
    Mailboxes mailboxes_;
    bool yields_;
    std::uint64_t number_ = 0;  ///< number of the current round
    std::uint64_t message_ = 0; ///< source of inline data
    std::uint64_t* outgoing_;   ///< message_, or registered memory
    ibv_sge source_{};
    ibv_send_wr write_{};
    unsigned unsignalled_ = 0, signalled_ = 0; ///< writes posted and not known to be complete
    std::optional<TransferFailure> failure_;
    bool peer_ends_ = false;
};

} // namespace rdma_nccl

#endif
