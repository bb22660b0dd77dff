// SPDX-License-Identifier: Apache-2.0
// Writes that keep all queue pairs busy.
#pragma once

#include "tools/verbs/endpoint.h"
#include "tools/verbs/queue_pairs.h"

#ifdef HAVE_IBVERBS

#include <array>
#include <chrono>
#include <cstdint>
#include <vector>

namespace rdma_nccl {

/// Time after which a peer counts as silent if nothing completes, in addition to the time of the bytes in flight. It is
/// longer than all retries of an HCA with timeout 14 (8 times up to 4 x 67 ms). Soft-RoCE can retry forever.
inline constexpr std::chrono::milliseconds verbs_timeout{4000};

/// Asks whether to stop, but not at each poll.
class StopCheck {
public:
    using Clock = std::chrono::steady_clock;

    explicit StopCheck(const StopAsked& stop, Clock::time_point asked = {}) : stop_(stop), asked_(asked) {}
    bool is_asked(Clock::time_point now) {
        constexpr std::chrono::milliseconds interval{20};
        if (now - asked_ <= interval) {
            return false;
        }
        asked_ = now;
        return stop_ && stop_();
    }

private:
    const StopAsked& stop_;
    Clock::time_point asked_;
};

/// Source and destination of a queue pair's writes.
struct WriteSlot {
    std::uint64_t local = 0, remote = 0;
    std::uint32_t local_key = 0, remote_key = 0;
    std::uint32_t bytes = 0;
};

/// Posts writes in chains of up to 16. Only the last write of a chain is signalled, so a chain needs one library call,
/// one doorbell and one completion.
class WriteFlow {
public:
    using Clock = std::chrono::steady_clock;

    /// `slots`: one for each queue pair. `depth`: writes in flight per queue pair. `naps`: sleep while waiting, for
    /// software devices, which need the CPU that would poll to make progress.
    WriteFlow(VerbsQueues& queues, const std::vector<WriteSlot>& slots, unsigned depth, bool naps);
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

} // namespace rdma_nccl

#endif
