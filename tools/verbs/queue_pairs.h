// SPDX-License-Identifier: Apache-2.0
// The queue pairs of one end, with a common completion queue, and transfers over them.
#pragma once

#include "tools/verbs/endpoint.h"
#include "tools/verbs/port.h"

#ifdef HAVE_IBVERBS

#include <array>

namespace rdma_nccl {

/// The number of completed writes of a poll, or the first failure.
using Completions = tl::expected<unsigned, TransferFailure>;

class VerbsQueues {
public:
    static constexpr unsigned most_polled = 16;
    static constexpr unsigned inline_bytes = 16; ///< most bytes of a write with IBV_SEND_INLINE, if inlines()

    /// Creates queue pairs in INIT, each for `wanted` writes in flight, or for as many as the device supports.
    static Result<VerbsQueues> make(const VerbsPort& port, unsigned count, unsigned wanted, unsigned pkey_index = 0);

    /// Returns the number of writes in flight per queue pair.
    [[nodiscard]] unsigned depth() const { return depth_; }
    /// Returns true if the device supports inline data; otherwise data comes from registered memory.
    [[nodiscard]] bool inlines() const { return inlines_; }

    [[nodiscard]] std::vector<std::uint32_t> numbers() const;
    [[nodiscard]] const std::vector<std::uint32_t>& packet_numbers() const { return packet_numbers_; }
    [[nodiscard]] std::size_t count() const { return pairs_.size(); }

    /// Moves the queue pairs to RTS. `mtu` is in bytes. Returns 0 or an errno.
    int connect(const VerbsPort& port, const VerbsAddress& peer, unsigned mtu, const VerbsService& service);

    /// Posts a chain of writes. Returns 0 or an errno of the kernel or the library.
    int post(std::size_t pair, ibv_send_wr* writes) {
        ibv_send_wr* bad = nullptr;
        return ::ibv_post_send(pairs_[pair].get(), writes, &bad);
    }

    /// Polls completions, and calls `done(wr_id)` for each. Returns their number.
    template<typename Done>
    Completions poll(Done&& done) {
        const int found = ::ibv_poll_cq(completions_.get(), most_polled, polled_);
        for (int i = 0; i < found; ++i) {
            if (polled_[i].status != IBV_WC_SUCCESS) {
                return tl::unexpected(
                    TransferFailure{.status = polled_[i].status, .vendor_error = polled_[i].vendor_err});
            }
            done(polled_[i].wr_id);
        }
        if (found < 0) {
            return tl::unexpected(TransferFailure{.status = wc_general});
        }
        return static_cast<unsigned>(found);
    }

private:
    unsigned depth_ = 0;
    bool inlines_ = true;
    VerbsCompletions completions_;
    std::vector<VerbsQueuePair> pairs_;
    std::vector<std::uint32_t> packet_numbers_;
    ibv_wc polled_[most_polled]{};
};

/// Returns the number of writes in flight for each of `count` queue pairs with one completion queue; 0 if the device
/// does not support so many queue pairs. A device limit of 0 or less is ignored.
unsigned affordable_depth(const ibv_device_attr& device, unsigned count, unsigned wanted);

/// Returns what the peer must know of this end. It may write `writable` bytes of `memory`, from `offset` on.
VerbsAddress address_of(const VerbsPort& port, const VerbsQueues& queues, const VerbsMemory& memory,
                        const VerbsMemory& mailbox, std::uint64_t offset, std::uint64_t writable);
VerbsLink link_to(const VerbsPort& port, const VerbsAddress& peer, unsigned mtu);

/// Converts between an MTU in bytes and ibv_mtu (1024 is IBV_MTU_1024); nullopt for other sizes.
std::optional<ibv_mtu> mtu_of(unsigned bytes);
unsigned bytes_of(ibv_mtu mtu);

// --- Writes that keep all queue pairs busy, and a ping-pong of small ones ---

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
