// SPDX-License-Identifier: Apache-2.0
// Writes that keep all queue pairs busy.
#pragma once

#include "tools/verbs_end.h"
#include "tools/verbs_queues.h"

#ifdef HAVE_IBVERBS

#include <array>
#include <chrono>
#include <cstdint>
#include <vector>

namespace rdma_nccl {

/// When nothing completes for so long, and what bytes in flight need, there is no answer any more: more than all
/// retries of an HCA take with timeout 14 (8 times up to 4 x 67 ms), and Soft-RoCE can try for ever.
inline constexpr std::chrono::milliseconds verbs_patience{4000};

/// Where a queue pair's writes come from and go to.
struct WriteSlot {
    std::uint64_t local = 0, remote = 0;
    std::uint32_t local_key = 0, remote_key = 0;
    std::uint32_t bytes = 0;
};

/// Posts writes in chains of up to 16, of which the last one is signalled: one call of the library, one doorbell and
/// one completion for all.
class WriteFlow {
public:
    using Clock = std::chrono::steady_clock;

    /// A slot for each queue pair; `depth`: writes at a time on each. `naps`: while it waits, for devices that are
    /// software: the CPU that would look for completions is the one that brings them.
    WriteFlow(VerbsQueues& queues, const std::vector<WriteSlot>& slots, unsigned depth, bool naps);
    WriteFlow(const WriteFlow&) = delete; // points to itself
    WriteFlow& operator=(const WriteFlow&) = delete;
    ~WriteFlow() = default;

    /// One write on each queue pair, complete.
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
    std::uint32_t bytes_;         ///< of one write
    unsigned window_ = 1;         ///< writes at a time, on all queue pairs
    unsigned in_flight_ = 0;      ///< of these
    std::uint64_t completed_ = 0; ///< writes
};

} // namespace rdma_nccl

#endif
