// SPDX-License-Identifier: Apache-2.0
// Values are written by RDMA WRITE directly to their destination, slice by slice. After each slice a small write sends
// the number of slices so far. Writes of one queue pair arrive in order, so a rank that sees the number has the slice.
#include "lib/base/json.h"
#include "tools/bench/ring/neighbours.h"

#include "config.h"

#ifdef HAVE_IBVERBS

#include "lib/base/format.h"
#include "tools/verbs/memory.h"
#include "tools/verbs/queue_pairs.h"
#include "tools/verbs/rail.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <sched.h>
#include <thread>
#include <utility>

namespace rdma_nccl {

namespace {

using Clock = std::chrono::steady_clock;

constexpr unsigned depth = 64;                                   // most writes in flight per queue pair
constexpr std::size_t slice_values = (std::size_t{1} << 20) / 4; // 1 MiB
constexpr std::size_t mailbox_bytes = 4096;
constexpr std::size_t outgoing_bytes = 2 * sizeof(std::uint64_t) * depth; // behind the mailbox: source of the numbers
constexpr std::size_t arrivals_at = 0;   // number of slices, written by the previous rank
constexpr std::size_t consumed_at = 256; // number of steps, written by the next rank
constexpr std::chrono::seconds silence_limit(30);
/// A rank may be ready seconds before its neighbour, so the ACK timeout is 1 s instead of 67 ms, and it is tried 8
/// times.
constexpr VerbsService service{.timeout = 18};
constexpr unsigned spins = 1024; // idle rounds between looks at the clock
constexpr std::chrono::microseconds nap_time(20);

/// The connection to one neighbour.
struct Side {
    VerbsQueues queues;
    VerbsAddress own, peer;
    VerbsLink link;
    unsigned in_flight = 0;
    bool worked = false;     ///< at least one write has completed
    std::size_t numbers = 0; ///< numbers sent so far
};

class VerbsRing final : public RingLink {
public:
    VerbsRing(PairRail rail, const RingSize& size) : rail_(std::move(rail)), size_(size) {}

    Result<void> make() {
        auto port = VerbsPort::open(rail_);
        if (!port) {
            return tl::unexpected(port.error());
        }
        port_ = std::move(*port);
        const std::size_t values = 2 * size_.most_values + 2 * size_.most_part;
        auto memory = VerbsMemory::of_host(*port_, values * sizeof(float), VerbsMemory::Order::Relaxed);
        auto mailbox = memory ? VerbsMemory::of_host(*port_, mailbox_bytes + outgoing_bytes, VerbsMemory::Order::Strict)
                              : tl::unexpected(memory.error());
        if (!mailbox) {
            return tl::unexpected(mailbox.error());
        }
        memory_ = std::move(*memory);
        mailbox_ = std::move(*mailbox);
        for (auto* side : {&next_, &previous_}) {
            auto queues = VerbsQueues::make(*port_, 1, depth);
            if (!queues) {
                return tl::unexpected(queues.error());
            }
            if (queues->depth() < depth) {
                return fail(format_text("the device takes no {} writes at a time", depth));
            }
            side->emplace(Side{std::move(*queues), {}, {}, {}, 0, false, 0});
            (*side)->own = address_of((*side)->queues);
        }
        return {};
    }

    [[nodiscard]] Json offer() const override {
        return {{"to_next", address_json(next_->own)}, {"to_previous", address_json(previous_->own)}};
    }

    Result<void> connect(const Json& next, const Json& previous) override {
        return connect(*next_, next, "to_previous").and_then([&] { return connect(*previous_, previous, "to_next"); });
    }

    [[nodiscard]] std::span<float> send_buffer() override { return {values(0), size_.most_values}; }
    [[nodiscard]] std::span<float> receive_buffer() override { return {values(size_.most_values), size_.most_values}; }

    Result<void> exchange(const RingStep& step) override {
        const std::size_t staging = steps_ % 2 * size_.most_part;
        std::size_t posted = 0;
        std::size_t arrived = 0;
        const auto in_slices = slices_of(step.in_count);
        auto last_news = Clock::now();
        unsigned idle = 0;
        // A slice may be written only when the next rank has read the staging memory that was used two steps ago.
        while (posted < step.out.size() || next_->in_flight > 0 || arrived < in_slices) {
            bool news = false;
            if (posted < step.out.size() && next_->in_flight + 2 <= depth && number_at(consumed_at) + 2 > steps_) {
                const auto count = std::min(slice_values, step.out.size() - posted);
                // The next rank's staging memory lies behind its receive buffer.
                const std::size_t place = step.out_place ? *step.out_place : next_values_ + staging;
                if (auto done = post_slice(step.out.subspan(posted, count), place + posted); !done) {
                    return done;
                }
                posted += count;
                news = true;
            }
            const auto polled = poll(*next_);
            if (!polled) {
                return tl::unexpected(polled.error());
            }
            news = news || *polled > 0;
            for (; arrived < in_slices && number_at(arrivals_at) > slices_; ++arrived, ++slices_, news = true) {
                take_slice(step, staging, arrived);
            }
            if (news) {
                last_news = Clock::now();
                idle = 0;
            } else if (auto waited = wait(++idle, last_news); !waited) {
                return waited;
            }
        }
        ++steps_;
        return tell_consumed();
    }

private:
    [[nodiscard]] float* values(std::size_t at) const {
        return reinterpret_cast<float*>(memory_->host()) + at; // NOLINT: pages are aligned to anything
    }

    [[nodiscard]] std::uint64_t number_at(std::size_t offset) const {
        auto* const number = reinterpret_cast<std::uint64_t*>(mailbox_->host() + offset); // NOLINT: as above
        return std::atomic_ref(*number).load(std::memory_order_acquire);
    }

    static std::size_t slices_of(std::size_t count) { return (count + slice_values - 1) / slice_values; }

    /// Returns the address of the memory that neighbours may write: the receive buffer, and behind it the staging
    /// memory for values to be added.
    [[nodiscard]] VerbsAddress address_of(const VerbsQueues& queues) const {
        VerbsAddress address;
        address.gid = port_->gid.bytes();
        address.lid = port_->attributes.lid;
        address.ethernet = rail_.ethernet;
        address.mtu = bytes_of(port_->attributes.active_mtu);
        address.queue_pairs = queues.numbers();
        address.packet_numbers = queues.packet_numbers();
        address.memory = memory_->address() + size_.most_values * sizeof(float);
        address.key = memory_->remote_key();
        address.size = (size_.most_values + 2 * size_.most_part) * sizeof(float);
        address.mailbox = mailbox_->address();
        address.mailbox_key = mailbox_->remote_key();
        return address;
    }

    Result<void> connect(Side& side, const Json& offer, const char* which) {
        const auto peer = read_address(offer.value(which, Json()));
        if (!peer) {
            return tl::unexpected(peer.error());
        }
        if (peer->size != side.own.size || peer->queue_pairs.size() != 1) {
            return fail("a neighbour measures other sizes: other versions of rdma-nccl on these nodes?");
        }
        next_values_ = size_.most_values;
        side.peer = *peer;
        side.link.ethernet = rail_.ethernet;
        side.link.gid_index = rail_.gid_index;
        side.link.gid = port_->gid.text();
        side.link.peer_gid = IpAddress(peer->gid).text();
        side.link.netdev = rail_.netdev;
        side.link.netdev_mtu = rail_.netdev_mtu;
        side.link.path_mtu = std::min(peer->mtu, side.own.mtu);
        if (const auto done = side.queues.connect(*port_, side.peer, side.link.path_mtu, service); !done) {
            return fail(format_text("{}: {}", port_here(rail_), diagnose(done.error(), side.link).text),
                        done.error().os_error);
        }
        return {};
    }

    [[nodiscard]] Error failed(const Side& side, TransferFailure failure) const {
        failure.small_passed = failure.large_passed = side.worked;
        return {format_text("{}: {}", port_here(rail_), diagnose(failure, side.link).text), 0};
    }

    Result<unsigned> poll(Side& side) {
        const auto polled = side.queues.poll([&side](std::uint64_t writes) {
            side.in_flight -= static_cast<unsigned>(writes);
            side.worked = true;
        });
        return polled ? Result<unsigned>(*polled) : tl::unexpected(failed(side, polled.error()));
    }

    /// Returns a slot that no write in flight reads from: there are as many slots as writes in flight.
    std::uint64_t* outgoing(Side& side) {
        const std::size_t index = (&side == &*next_ ? 0 : depth) + side.numbers++ % depth;
        return reinterpret_cast<std::uint64_t*>(mailbox_->host() + mailbox_bytes) + index; // NOLINT: aligned to pages
    }

    /// Posts the write of a number into a neighbour's mailbox. `in_front`: a write to post before it, or nullptr.
    Result<void> post_number(Side& side, std::uint64_t number, std::size_t offset, ibv_send_wr* in_front) {
        const bool in_line = side.queues.inlines();
        auto* const from = in_line ? &number : outgoing(side);
        *from = number;
        ibv_sge source{reinterpret_cast<std::uintptr_t>(from), sizeof number, in_line ? 0 : mailbox_->local_key()};
        ibv_send_wr write{};
        write.wr_id = in_front == nullptr ? 1 : 2; // number of writes that complete with it
        write.opcode = IBV_WR_RDMA_WRITE;
        write.sg_list = &source;
        write.num_sge = 1;
        write.send_flags = in_line ? IBV_SEND_INLINE | IBV_SEND_SIGNALED : IBV_SEND_SIGNALED;
        write.wr.rdma = {side.peer.mailbox + offset, side.peer.mailbox_key};
        if (in_front != nullptr) {
            in_front->next = &write;
        }
        side.in_flight += static_cast<unsigned>(write.wr_id);
        if (side.queues.post(0, in_front == nullptr ? &write : in_front) != 0) {
            return tl::unexpected(failed(side, {.status = wc_general}));
        }
        return {};
    }

    Result<void> post_slice(std::span<const float> out, std::size_t place) {
        ibv_sge source{reinterpret_cast<std::uintptr_t>(out.data()), // NOLINT
                       static_cast<std::uint32_t>(out.size_bytes()), memory_->local_key()};
        ibv_send_wr write{};
        write.opcode = IBV_WR_RDMA_WRITE;
        write.sg_list = &source;
        write.num_sge = 1;
        write.wr.rdma = {next_->peer.memory + place * sizeof(float), next_->peer.key};
        return post_number(*next_, ++sent_slices_, arrivals_at, &write);
    }

    void take_slice(const RingStep& step, std::size_t staging, std::size_t slice) const {
        if (step.in_place) {
            return; // the write has put it in its final place
        }
        const std::size_t first = slice * slice_values;
        const float* const from = values(2 * size_.most_values + staging + first);
        step.arrived({from, std::min(slice_values, step.in_count - first)}, first);
    }

    /// Tells the previous rank that this step is complete: it may overwrite the staging memory.
    Result<void> tell_consumed() {
        if (const auto polled = poll(*previous_); !polled) {
            return tl::unexpected(polled.error());
        }
        return post_number(*previous_, steps_, consumed_at, nullptr);
    }

    Result<void> wait(unsigned idle, Clock::time_point last_news) {
        if (rail_.software) {
            std::this_thread::sleep_for(nap_time); // a software device needs this CPU to receive the data
        } else if (idle % 16 == 0) {
            ::sched_yield();
        }
        if (idle % spins != 0) {
            return {};
        }
        if (const auto polled = poll(*previous_); !polled) {
            return tl::unexpected(polled.error());
        }
        if (Clock::now() - last_news > silence_limit) {
            return fail(format_text("{}: nothing moved for {} s: the other ranks stand still", port_here(rail_),
                                    silence_limit.count()));
        }
        return {};
    }

    PairRail rail_;
    RingSize size_;
    std::optional<VerbsPort> port_;
    std::optional<VerbsMemory> memory_, mailbox_;
    std::optional<Side> next_, previous_;
    std::size_t next_values_ = 0; ///< number of values in the next rank's receive buffer
    std::uint64_t steps_ = 0, slices_ = 0, sent_slices_ = 0;
};

} // namespace

Result<std::unique_ptr<RingLink>> open_verbs_ring(const PairRail& rail, const RingSize& size) {
    auto ring = std::make_unique<VerbsRing>(rail, size);
    if (auto made = ring->make(); !made) {
        return fail(format_text("{}: {}", port_here(rail), made.error().message), made.error().os_error);
    }
    return ring;
}

} // namespace rdma_nccl

#else

namespace rdma_nccl {

Result<std::unique_ptr<RingLink>> open_verbs_ring(const PairRail&, const RingSize&) {
    return fail("built without libibverbs' headers (configure says so): no RDMA");
}

} // namespace rdma_nccl

#endif
