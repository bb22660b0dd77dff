// SPDX-License-Identifier: Apache-2.0
// Values are written by RDMA WRITE directly to their destination, slice by slice. After each slice a small write sends
// the number of slices so far. Writes of one queue pair arrive in order, so a rank that sees the number has the slice.
#include "tools/bench/ring/ring.h"

#include "config.h"

#ifdef HAVE_IBVERBS

#include "lib/base/format.h"
#include "tools/verbs/queue_pairs.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <sched.h>
#include <thread>
#include <utility>

namespace rdma_nccl::bench {

namespace {

using Clock = std::chrono::steady_clock;

constexpr unsigned depth = 64;                                   // most writes in flight per queue pair
constexpr std::size_t slice_values = (std::size_t{1} << 20) / 4; // 1 MiB
constexpr std::size_t mailbox_bytes = 4096;
constexpr std::size_t outgoing_bytes = 2 * sizeof(std::uint64_t) * depth; // behind the mailbox: source of the numbers
constexpr std::size_t arrivals_at = 0;   // number of slices, written by the previous rank
constexpr std::size_t consumed_at = 256; // number of steps, written by the next rank
constexpr std::chrono::seconds progress_timeout(30);
/// A rank may be ready seconds before its neighbour, so the ACK timeout is 1 s, not 67 ms, and it is tried 8 times.
constexpr VerbsService service{.timeout = 18};
constexpr unsigned spins = 1024; // idle rounds between readings of the clock
constexpr std::chrono::microseconds nap_time(20);

/// The connection to one neighbour: a queue pair, and a mailbox at its end for numbers.
class Neighbour {
public:
    /// `outgoing`: `depth` numbers of registered memory to send from, for devices without inline data.
    Neighbour(const VerbsPort& port, VerbsQueues queues, VerbsAddress own, std::uint64_t* outgoing, std::uint32_t key)
        : port_(port), queues_(std::move(queues)), own_(std::move(own)), outgoing_(outgoing), outgoing_key_(key) {}

    [[nodiscard]] const VerbsAddress& own() const { return own_; }
    [[nodiscard]] unsigned in_flight() const { return in_flight_; }

    /// `offer`: the neighbour's address.
    Result<void> connect(const Json& offer) {
        auto peer = read_address(offer);
        if (!peer) {
            return tl::unexpected(peer.error());
        }
        if (peer->size != own_.size || peer->queue_pairs.size() != 1) {
            return fail("a neighbour measures other sizes: other versions of rdma-nccl on these nodes?");
        }
        peer_ = std::move(*peer);
        link_ = link_to(port_, peer_, std::min(peer_.mtu, own_.mtu));
        if (const int code = queues_.connect(port_, peer_, link_.path_mtu, service); code != 0) {
            return fail(format_text("{}: {}", port_here(port_.rail), diagnose(code, link_).text), code);
        }
        return {};
    }

    /// Returns whether writes have completed.
    Result<bool> poll() {
        const auto polled = queues_.poll([this](std::uint64_t writes) {
            in_flight_ -= static_cast<unsigned>(writes);
            worked_ = true;
        });
        return polled ? Result<bool>(*polled > 0) : tl::unexpected(failed(polled.error()));
    }

    /// Writes values to the neighbour's memory, from value `place` on, and behind them the number.
    Result<void> post_values(std::span<const float> values, std::uint32_t key, std::size_t place, std::uint64_t number,
                             std::size_t offset) {
        ibv_sge source{reinterpret_cast<std::uintptr_t>(values.data()), // NOLINT
                       static_cast<std::uint32_t>(values.size_bytes()), key};
        ibv_send_wr write{};
        write.opcode = IBV_WR_RDMA_WRITE;
        write.sg_list = &source;
        write.num_sge = 1;
        write.wr.rdma = {peer_.memory + place * sizeof(float), peer_.key};
        return post_number(number, offset, &write);
    }

    /// Writes a number into the neighbour's mailbox. `in_front`: a write to post before it, or nullptr.
    Result<void> post_number(std::uint64_t number, std::size_t offset, ibv_send_wr* in_front = nullptr) {
        const bool in_line = queues_.inlines();
        // No write in flight reads from this slot: there are as many slots as writes in flight.
        auto* const from = in_line ? &number : outgoing_ + numbers_++ % depth;
        *from = number;
        ibv_sge source{reinterpret_cast<std::uintptr_t>(from), sizeof number, in_line ? 0 : outgoing_key_};
        ibv_send_wr write{};
        write.wr_id = in_front == nullptr ? 1 : 2; // number of writes that complete with it
        write.opcode = IBV_WR_RDMA_WRITE;
        write.sg_list = &source;
        write.num_sge = 1;
        write.send_flags = in_line ? IBV_SEND_INLINE | IBV_SEND_SIGNALED : IBV_SEND_SIGNALED;
        write.wr.rdma = {peer_.mailbox + offset, peer_.mailbox_key};
        if (in_front != nullptr) {
            in_front->next = &write;
        }
        in_flight_ += static_cast<unsigned>(write.wr_id);
        if (queues_.post(0, in_front == nullptr ? &write : in_front) != 0) {
            return tl::unexpected(failed({.status = wc_general}));
        }
        return {};
    }

private:
    [[nodiscard]] Error failed(TransferFailure failure) const {
        failure.small_passed = failure.large_passed = worked_;
        return {format_text("{}: {}", port_here(port_.rail), diagnose(failure, link_).text), 0};
    }

    const VerbsPort& port_;
    VerbsQueues queues_;
    VerbsAddress own_, peer_;
    VerbsLink link_;
    std::uint64_t* outgoing_;
    std::uint32_t outgoing_key_;
    unsigned in_flight_ = 0;
    bool worked_ = false;     ///< at least one write has completed
    std::size_t numbers_ = 0; ///< numbers sent so far
};

class VerbsRing final : public RingLink {
public:
    VerbsRing(VerbsPort port, const RingSize& size) : port_(std::move(port)), size_(size) {}

    Result<void> make() {
        const std::size_t values = 2 * size_.most_values + 2 * size_.most_part;
        auto kept = keep(memory_, VerbsMemory::of_host(port_, values * sizeof(float), VerbsMemory::Order::Relaxed));
        if (kept) {
            kept =
                keep(mailbox_, VerbsMemory::of_host(port_, mailbox_bytes + outgoing_bytes, VerbsMemory::Order::Strict));
        }
        if (!kept) {
            return kept;
        }
        for (std::size_t i = 0; auto* neighbour : {&next_, &previous_}) {
            auto queues = VerbsQueues::make(port_, 1, depth);
            if (!queues) {
                return tl::unexpected(queues.error());
            }
            if (queues->depth() < depth) {
                return fail(format_text("the device takes no {} writes at a time", depth));
            }
            // Neighbours may write the receive buffer, and behind it the staging memory for values to be added.
            auto own = address_of(port_, *queues, *memory_, *mailbox_, size_.most_values * sizeof(float),
                                  (size_.most_values + 2 * size_.most_part) * sizeof(float));
            neighbour->emplace(port_, std::move(*queues), std::move(own), number(mailbox_bytes) + depth * i++,
                               mailbox_->local_key());
        }
        return {};
    }

    [[nodiscard]] Json offer() const override {
        return {{"to_next", address_json(next_->own())}, {"to_previous", address_json(previous_->own())}};
    }

    Result<void> connect(const Json& next, const Json& previous) override {
        return next_->connect(next.value("to_previous", Json())).and_then([&] {
            return previous_->connect(previous.value("to_next", Json()));
        });
    }

    [[nodiscard]] std::span<float> send_buffer() override { return {values(0), size_.most_values}; }
    [[nodiscard]] std::span<float> receive_buffer() override { return {values(size_.most_values), size_.most_values}; }

    Result<void> exchange(const RingStep& step) override {
        std::size_t posted = 0;
        std::size_t arrived = 0;
        const std::size_t in_slices = (step.in_count + slice_values - 1) / slice_values;
        auto last_progress = Clock::now();
        unsigned idle = 0;
        while (posted < step.out.size() || next_->in_flight() > 0 || arrived < in_slices) {
            const auto sent = post_slice(step, posted);
            const auto completed = sent ? next_->poll() : tl::unexpected(sent.error());
            if (!completed) {
                return tl::unexpected(completed.error());
            }
            posted += *sent;
            bool progress = *sent > 0 || *completed;
            for (; arrived < in_slices && number_at(arrivals_at) > slices_; ++arrived, ++slices_, progress = true) {
                take_slice(step, arrived);
            }
            if (progress) {
                last_progress = Clock::now();
                idle = 0;
            } else if (auto waited = wait(++idle, last_progress); !waited) {
                return waited;
            }
        }
        ++steps_;
        // The previous rank may overwrite the staging memory of this step.
        return previous_->poll().and_then([this](bool) { return previous_->post_number(steps_, consumed_at); });
    }

private:
    [[nodiscard]] float* values(std::size_t at) const {
        return reinterpret_cast<float*>(memory_->host()) + at; // NOLINT: pages are aligned to anything
    }

    [[nodiscard]] std::uint64_t* number(std::size_t offset) const {
        return reinterpret_cast<std::uint64_t*>(mailbox_->host() + offset); // NOLINT: as above
    }
    [[nodiscard]] std::uint64_t number_at(std::size_t offset) const {
        return std::atomic_ref(*number(offset)).load(std::memory_order_acquire);
    }

    /// Two steps use the staging memory in turn.
    [[nodiscard]] std::size_t staging() const { return steps_ % 2 * size_.most_part; }

    /// Posts the next slice if it may be written: the next rank must have read the staging memory that was used two
    /// steps ago. Returns the number of values.
    Result<std::size_t> post_slice(const RingStep& step, std::size_t posted) {
        const auto count = std::min(slice_values, step.out.size() - posted);
        if (count == 0 || next_->in_flight() + 2 > depth || number_at(consumed_at) + 2 <= steps_) {
            return 0;
        }
        // The next rank's staging memory lies behind its receive buffer.
        const std::size_t place = step.places ? step.places->out : size_.most_values + staging();
        return next_
            ->post_values(step.out.subspan(posted, count), memory_->local_key(), place + posted, ++sent_slices_,
                          arrivals_at)
            .map([count] { return count; });
    }

    void take_slice(const RingStep& step, std::size_t slice) const {
        if (step.places) {
            return; // the write has put it in its final place
        }
        const std::size_t first = slice * slice_values;
        const float* const from = values(2 * size_.most_values + staging() + first);
        step.arrived({from, std::min(slice_values, step.in_count - first)}, first);
    }

    Result<void> wait(unsigned idle, Clock::time_point last_progress) {
        if (port_.rail.software) {
            std::this_thread::sleep_for(nap_time); // a software device needs this CPU to receive the data
        } else if (idle % 16 == 0) {
            ::sched_yield();
        }
        if (idle % spins != 0) {
            return {};
        }
        if (const auto polled = previous_->poll(); !polled) {
            return tl::unexpected(polled.error());
        }
        if (Clock::now() - last_progress > progress_timeout) {
            return fail(format_text("{}: nothing moved for {} s: the other ranks stand still", port_here(port_.rail),
                                    progress_timeout.count()));
        }
        return {};
    }

    VerbsPort port_;
    RingSize size_;
    std::optional<VerbsMemory> memory_, mailbox_;
    std::optional<Neighbour> next_, previous_;
    std::uint64_t steps_ = 0, slices_ = 0, sent_slices_ = 0;
};

} // namespace

Result<std::unique_ptr<RingLink>> open_verbs_ring(const PairRail& rail, const RingSize& size) {
    auto port = VerbsPort::open(rail);
    auto ring = port ? std::make_unique<VerbsRing>(std::move(*port), size) : nullptr;
    const auto made = ring ? ring->make() : tl::unexpected(port.error());
    if (!made) {
        return fail(format_text("{}: {}", port_here(rail), made.error().message), made.error().os_error);
    }
    return ring;
}

#else

namespace rdma_nccl::bench {

Result<std::unique_ptr<RingLink>> open_verbs_ring(const PairRail&, const RingSize&) {
    return fail("built without libibverbs' headers (configure says so): no RDMA");
}

#endif

} // namespace rdma_nccl::bench
