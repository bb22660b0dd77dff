// SPDX-License-Identifier: Apache-2.0
// The queue pairs of one end, with one completion queue for all.
#pragma once

#include "tools/verbs_address.h"
#include "tools/verbs_port.h"

#ifdef HAVE_IBVERBS

#include "tools/verbs_errors.h"

#include <cstdint>
#include <optional>
#include <tl/expected.hpp>
#include <vector>

namespace rdma_nccl {

/// How queue pairs behave in the network; as in ibv_qp_attr.
struct VerbsService {
    unsigned traffic_class = 0, service_level = 0, timeout = 14, retries = 7;
};

/// What a look at the completion queue brought: the `wr_id`s of writes that are complete, or the first failure.
using Completions = tl::expected<unsigned, TransferFailure>;

class VerbsQueues {
public:
    static constexpr unsigned most_polled = 16;
    static constexpr unsigned inline_bytes = 16; ///< a write of so few bytes may be IBV_SEND_INLINE, where inlines()

    /// Queue pairs in INIT, each for `wanted` writes at a time, or as many as the device can.
    static Result<VerbsQueues> make(const VerbsPort& port, unsigned count, unsigned wanted, unsigned pkey_index = 0);

    /// Writes at a time on each.
    [[nodiscard]] unsigned depth() const { return depth_; }
    /// Whether the device takes data along with the write; else it comes from registered memory.
    [[nodiscard]] bool inlines() const { return inlines_; }

    [[nodiscard]] std::vector<std::uint32_t> numbers() const;
    [[nodiscard]] const std::vector<std::uint32_t>& packet_numbers() const { return packet_numbers_; }
    [[nodiscard]] std::size_t count() const { return pairs_.size(); }

    /// To RTS. The error is an errno; `mtu` in bytes.
    tl::expected<void, ConnectFailure> connect(const VerbsPort& port, const VerbsAddress& peer, unsigned mtu,
                                               const VerbsService& service);

    /// A chain of writes; the kernel's or the library's errno, 0 when good.
    int post(std::size_t pair, ibv_send_wr* writes) {
        ibv_send_wr* bad = nullptr;
        return ::ibv_post_send(pairs_[pair].get(), writes, &bad);
    }

    /// Calls `done(wr_id)` for each; how many there were.
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

/// Writes at a time on each of so many queue pairs with one completion queue; 0: the device cannot do that. A limit of
/// 0 or less says nothing.
unsigned affordable_depth(const ibv_device_attr& device, unsigned count, unsigned wanted);

/// 1024 to IBV_MTU_1024, and back; nullopt for what is none.
std::optional<ibv_mtu> mtu_of(unsigned bytes);
unsigned bytes_of(ibv_mtu mtu);

} // namespace rdma_nccl

#endif
