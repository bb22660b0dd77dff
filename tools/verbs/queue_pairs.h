// SPDX-License-Identifier: Apache-2.0
// The queue pairs of one end, with a common completion queue.
#pragma once

#include "tools/verbs/endpoint.h"
#include "tools/verbs/port.h"

#ifdef HAVE_IBVERBS

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

} // namespace rdma_nccl

#endif
