// SPDX-License-Identifier: Apache-2.0
#include "tools/verbs/endpoint.h"

#include "config.h"

#ifdef HAVE_IBVERBS

#include "lib/base/format.h"
#include "lib/sys/resources.h"
#include "tools/common/thread_pin.h"
#include "tools/verbs/queue_pairs.h"

#include <algorithm>
#include <cerrno>

namespace rdma_nccl {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds reach_limit{4000}; // a lost SYN is sent again after 1 and 3 s (RFC 6298, Linux)
constexpr std::uint32_t small_bytes = 8;
// 0.27 s: Soft-RoCE acknowledges when its CPU has time, and early retransmissions would take more of that time.
constexpr unsigned software_timeout = 16;
constexpr std::size_t mailbox_bytes = 4096;                                        // a page of its own
constexpr std::size_t outgoing_offset = mailbox_bytes / 2 / sizeof(std::uint64_t); // its second half

Result<void> check_settings(const VerbsSettings& settings) {
    constexpr std::uint64_t largest = std::uint64_t{1} << 30;
    if (settings.message_size == 0 || settings.message_size > largest || settings.message_size % small_bytes != 0) {
        return fail(
            format_text("a message of {} bytes: it must be a multiple of 8, up to 1 GiB", settings.message_size),
            EINVAL);
    }
    if (settings.queue_pairs == 0 || settings.depth < 2 || settings.rail.gid_index > 255) {
        return fail("at least one queue pair, two writes at a time, and a GID index up to 255", EINVAL);
    }
    if (2 * settings.message_size * settings.queue_pairs > most_pair_memory) {
        return fail(format_text("{} queue pairs with messages of {} bytes need more than {} GiB of memory",
                                settings.queue_pairs, settings.message_size, most_pair_memory >> 30),
                    EINVAL);
    }
    return {};
}

/// The first half of the memory is the source of own writes, the second the destination of the peer's, also at once.
class RcEnd final : public VerbsEndpoint {
public:
    explicit RcEnd(const VerbsSettings& settings) : settings_(settings), pin_(settings.rail.local_cpus) {}

    Result<void> make() {
        return check_settings(settings_)
            .and_then([&] { return keep(port_, VerbsPort::open(settings_.rail)); })
            .and_then([&] {
                return keep(memory_, settings_.gpu
                                         ? VerbsMemory::of_gpu(*port_, 2 * half(), *settings_.gpu)
                                         : VerbsMemory::of_host(*port_, 2 * half(), VerbsMemory::Order::Relaxed));
            })
            .and_then(
                [&] { return keep(mailbox_, VerbsMemory::of_host(*port_, mailbox_bytes, VerbsMemory::Order::Strict)); })
            .and_then([&] {
                return keep(queues_,
                            VerbsQueues::make(*port_, settings_.queue_pairs,
                                              std::max(settings_.depth, VerbsPing::most_writes), settings_.pkey_index));
            })
            .map([&] { address_ = address_of(*port_, *queues_, *memory_, *mailbox_, half(), half()); });
    }

    [[nodiscard]] const VerbsAddress& address() const override { return address_; }
    [[nodiscard]] bool is_distant() const override { return pin_.is_distant(); }
    [[nodiscard]] VerbsCause cause() const override { return cause_; }

    Result<void> connect(const VerbsAddress& peer, unsigned mtu) override {
        if (auto why = mismatch(peer, mtu); !why.empty()) {
            return failed({VerbsCause::Mismatch, std::move(why)}, EINVAL);
        }
        peer_ = peer;
        link_ = link_to(*port_, peer, mtu);
        // RoCE v2 uses IPv4 or IPv6, depending on the GID; the two cannot connect.
        if (address_.ethernet && address_.gid.is_ipv4() != peer.gid.is_ipv4()) {
            return failed(
                {VerbsCause::WrongGid,
                 format_text(
                     "wrong GID: index {} here is {}, and the other side's is {}: IPv4 does not meet IPv6; choose "
                     "entries of one family (see `rdma-nccl gids` on both nodes)",
                     link_.gid_index, link_.gid, link_.peer_gid)},
                EINVAL);
        }
        VerbsService service = settings_.service;
        if (settings_.rail.software) {
            service.timeout = std::max(service.timeout, software_timeout);
        }
        if (const int code = queues_->connect(*port_, peer, mtu, service); code != 0) {
            return failed(diagnose(code, link_), code);
        }
        // Only the HCA writes the mailbox, which is at the start of a page and so aligned.
        auto* const mailbox = reinterpret_cast<std::uint64_t*>(mailbox_->host()); // NOLINT
        // With only one CPU, the other end of a loopback can answer only when this one yields.
        const bool yields = settings_.rail.software || (settings_.loopback && read_affinity().size() == 1);
        ping_.emplace(
            *queues_,
            Mailboxes{mailbox, peer.mailbox, peer.mailbox_key, mailbox + outgoing_offset, mailbox_->local_key()},
            yields);
        return {};
    }

    Result<void> write_pattern(std::uint64_t seed, milliseconds limit) override {
        if (auto filled = memory_->fill(0, half(), seed); !filled) {
            return filled;
        }
        if (auto small = write_small(limit); !small) {
            return small;
        }
        const auto message = static_cast<std::uint32_t>(settings_.message_size);
        if (const auto done = flow(message).write_once(limit + slowest_transfer(half())); !done) {
            return failed(done.error(), message);
        }
        large_passed_ = message > link_.path_mtu;
        return {};
    }

    Result<bool> check_pattern(std::uint64_t seed) override { return memory_->is_filled(half(), half(), seed); }

    Result<VerbsBandwidth> write_for(milliseconds time, const StopAsked& stop) override {
        if (!small_passed_) {
            if (const auto small = write_small(verbs_timeout); !small) {
                return tl::unexpected(small.error());
            }
        }
        const auto message = static_cast<std::uint32_t>(settings_.message_size);
        const auto done = flow(message).write_for(time, stop);
        if (!done) {
            return failed(done.error(), message);
        }
        large_passed_ = large_passed_ || message > link_.path_mtu;
        return *done;
    }

    Result<PairLatency> ping_pong(bool first, std::uint64_t round_trips, milliseconds limit,
                                  const StopAsked& stop) override {
        auto samples = ping_->play(first, round_trips, limit, stop);
        if (!samples) {
            return failed(samples.error(), small_bytes);
        }
        small_passed_ = small_passed_ || !samples->empty();
        return summarize_latencies(std::move(*samples));
    }

private:
    [[nodiscard]] std::uint64_t half() const { return settings_.message_size * settings_.queue_pairs; }

    /// Returns why the two ends do not match, although each is valid alone; empty if they match.
    [[nodiscard]] std::string mismatch(const VerbsAddress& peer, unsigned mtu) const {
        const auto name = peer.gid.text();
        if (peer.ethernet != address_.ethernet) {
            return name + " is on another kind of network: RoCE does not meet InfiniBand";
        }
        if (peer.queue_pairs.size() != address_.queue_pairs.size() || peer.size != address_.size) {
            return name + " measures with other queue pairs or another message size";
        }
        if (!mtu_of(mtu) || mtu > address_.mtu || mtu > peer.mtu) {
            return format_text("{}: a path MTU of {} bytes does not suit both ports: {} here, {} there", name, mtu,
                               address_.mtu, peer.mtu);
        }
        return "";
    }

    /// Returns writes of the first `bytes` of each queue pair's message.
    [[nodiscard]] WriteFlow flow(std::uint32_t bytes) {
        const WriteArea area{.local = memory_->address(),
                             .remote = peer_.memory,
                             .local_key = memory_->local_key(),
                             .remote_key = peer_.key,
                             .stride = settings_.message_size,
                             .bytes = bytes};
        return {*queues_, area, std::min(settings_.depth, queues_->depth()), settings_.rail.software};
    }

    /// Writes a few bytes. If that fails, nothing passes; if only larger writes fail later, their size is the reason.
    Result<void> write_small(milliseconds limit) {
        if (const auto done = flow(small_bytes).write_once(std::min(limit, verbs_timeout)); !done) {
            return failed(done.error(), small_bytes);
        }
        small_passed_ = true;
        return {};
    }

    tl::unexpected<Error> failed(const VerbsDiagnosis& diagnosis, int os_error = 0) {
        cause_ = diagnosis.cause;
        return fail(diagnosis.text, os_error);
    }

    tl::unexpected<Error> failed(TransferFailure failure, std::uint64_t bytes) {
        failure.large = bytes > link_.path_mtu;
        failure.small_passed = failure.small_passed || small_passed_;
        failure.large_passed = large_passed_ || (failure.large && failure.large_passed);
        if (wants_reach(failure, link_)) {
            failure.ip_reaches = ip_reaches(port_->gid, peer_.gid, link_.netdev, reach_limit);
        }
        return failed(diagnose(failure, link_));
    }

    VerbsSettings settings_;
    ThreadPin pin_;
    std::optional<VerbsPort> port_;
    std::optional<VerbsMemory> memory_, mailbox_;
    std::optional<VerbsQueues> queues_;
    std::optional<VerbsPing> ping_;
    VerbsAddress address_, peer_;
    VerbsLink link_;
    VerbsCause cause_ = VerbsCause::Local;
    bool small_passed_ = false, large_passed_ = false;
};

} // namespace

Result<std::unique_ptr<VerbsEndpoint>> VerbsEndpoint::open(const VerbsSettings& settings) {
    auto end = std::make_unique<RcEnd>(settings);
    if (const auto made = end->make(); !made) {
        return tl::unexpected(made.error());
    }
    return std::unique_ptr<VerbsEndpoint>(std::move(end));
}

} // namespace rdma_nccl

#else

namespace rdma_nccl {

Result<std::unique_ptr<VerbsEndpoint>> VerbsEndpoint::open(const VerbsSettings&) {
    return fail("this rdma-nccl was built without libibverbs: install its headers (libibverbs-dev, rdma-core-devel), "
                "then configure and build again");
}

} // namespace rdma_nccl

#endif
