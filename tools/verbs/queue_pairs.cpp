// SPDX-License-Identifier: Apache-2.0
#include "tools/verbs/queue_pairs.h"

#ifdef HAVE_IBVERBS

#include "lib/base/format.h"
#include "lib/base/lists.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <random>

namespace rdma_nccl {

namespace {

constexpr std::uint32_t packet_number_mask = 0xff'ff'ff;
constexpr std::uint8_t most_hops = 64;   // routed RoCE v2 fails with 1
constexpr std::uint8_t most_retries = 7; // of lost packets: the field's maximum
constexpr std::uint8_t rnr_timer = 12;   // 0.64 ms; never used, because writes need no receive request
constexpr std::uint8_t rnr_for_ever = 7; // never used either

static_assert(wc_retry_exc == IBV_WC_RETRY_EXC_ERR && wc_rem_access == IBV_WC_REM_ACCESS_ERR &&
              wc_flushed == IBV_WC_WR_FLUSH_ERR && wc_general == IBV_WC_GENERAL_ERR && wc_fatal == IBV_WC_FATAL_ERR &&
              wc_rem_op == IBV_WC_REM_OP_ERR && wc_rnr_retry_exc == IBV_WC_RNR_RETRY_EXC_ERR &&
              wc_rem_abort == IBV_WC_REM_ABORT_ERR && wc_resp_timeout == IBV_WC_RESP_TIMEOUT_ERR &&
              wc_loc_prot == IBV_WC_LOC_PROT_ERR && wc_rem_inv_req == IBV_WC_REM_INV_REQ_ERR);

constexpr unsigned fewest_writes = 32; // a ping-pong has up to 16 unsignalled writes in flight

/// Clears `inlines` if the device does not support inline data.
Result<VerbsQueuePair> make_pair(const VerbsPort& port, ibv_cq* completions, unsigned depth, bool& inlines) {
    for (;; inlines = false) {
        ibv_qp_init_attr wanted{};
        wanted.send_cq = completions;
        wanted.recv_cq = completions;
        wanted.qp_type = IBV_QPT_RC;
        wanted.cap = {.max_send_wr = depth,
                      .max_recv_wr = 1,
                      .max_send_sge = 1,
                      .max_recv_sge = 1,
                      .max_inline_data = inlines ? VerbsQueues::inline_bytes : 0};
        if (auto* const pair = port.library.create_qp(port.domain.get(), &wanted)) {
            return VerbsQueuePair{pair, {port.library.destroy_qp}};
        }
        if (!inlines) {
            break;
        }
    }
    const int code = errno;
    return fail(format_text("no queue pair for {} writes: {}{}", depth, std::strerror(code),
                            code == ENOMEM ? "; raise the limit of locked memory (`ulimit -l`)" : ""),
                code);
}

Result<void> to_init(const VerbsPort& port, ibv_qp* pair, unsigned pkey_index) {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_INIT;
    attributes.port_num = static_cast<std::uint8_t>(port.rail.port);
    attributes.pkey_index = static_cast<std::uint16_t>(pkey_index);
    attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    const int code =
        port.library.modify_qp(pair, &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    return code == 0 ? Result<void>() : os_failure("no queue pair on this port", code);
}

/// Whether the path needs a global header: on InfiniBand only between subnets, and for ports without a LID.
bool needs_global(const VerbsPort& port, const VerbsAddress& peer) {
    return port.rail.ethernet || peer.lid == 0 ||
           !std::equal(peer.gid.bytes().begin(), peer.gid.bytes().begin() + 8, port.gid.bytes().begin());
}

ibv_ah_attr path_to(const VerbsPort& port, const VerbsAddress& peer, const VerbsService& service) {
    ibv_ah_attr path{};
    path.port_num = static_cast<std::uint8_t>(port.rail.port);
    path.dlid = peer.lid;
    path.sl = static_cast<std::uint8_t>(service.service_level);
    if (needs_global(port, peer)) {
        path.is_global = 1;
        std::ranges::copy(peer.gid.bytes(), path.grh.dgid.raw);
        path.grh.sgid_index = static_cast<std::uint8_t>(port.rail.gid_index);
        path.grh.hop_limit = most_hops;
        path.grh.traffic_class = static_cast<std::uint8_t>(service.traffic_class);
    }
    return path;
}

} // namespace

std::optional<ibv_mtu> mtu_of(unsigned bytes) {
    constexpr std::array all{IBV_MTU_256, IBV_MTU_512, IBV_MTU_1024, IBV_MTU_2048, IBV_MTU_4096};
    const auto* const found = std::ranges::find(all, bytes, bytes_of);
    return found != all.end() ? std::optional(*found) : std::nullopt;
}

unsigned bytes_of(ibv_mtu mtu) {
    return 128U << static_cast<unsigned>(mtu);
}

unsigned affordable_depth(const ibv_device_attr& device, unsigned count, unsigned wanted) {
    unsigned depth = std::max(wanted, fewest_writes);
    if (device.max_qp_wr > 0) {
        depth = std::min(depth, static_cast<unsigned>(device.max_qp_wr));
    }
    if (device.max_cqe > 0) {
        depth = std::min(depth, static_cast<unsigned>(device.max_cqe) / std::max(count, 1U));
    }
    return depth < fewest_writes ? 0 : depth;
}

VerbsAddress address_of(const VerbsPort& port, const VerbsQueues& queues, const VerbsMemory& memory,
                        const VerbsMemory& mailbox, std::uint64_t offset, std::uint64_t writable) {
    return {.gid = port.gid,
            .lid = port.attributes.lid,
            .ethernet = port.rail.ethernet,
            .mtu = bytes_of(port.attributes.active_mtu),
            .queue_pairs = queues.numbers(),
            .packet_numbers = queues.packet_numbers(),
            .memory = memory.address() + offset,
            .key = memory.remote_key(),
            .size = writable,
            .mailbox = mailbox.address(),
            .mailbox_key = mailbox.remote_key()};
}

VerbsLink link_to(const VerbsPort& port, const VerbsAddress& peer, unsigned mtu) {
    return {.ethernet = port.rail.ethernet,
            .gid_index = port.rail.gid_index,
            .gid = port.gid.text(),
            .peer_gid = peer.gid.text(),
            .netdev = port.rail.netdev,
            .netdev_mtu = port.rail.netdev_mtu,
            .path_mtu = mtu};
}

Result<VerbsQueues> VerbsQueues::make(const VerbsPort& port, unsigned count, unsigned wanted, unsigned pkey_index) {
    VerbsQueues queues;
    ibv_device_attr device{};
    if (port.library.query_device(port.context.get(), &device) != 0) {
        device = {};
    }
    const unsigned depth = affordable_depth(device, count, wanted);
    if (depth == 0) {
        return fail(format_text("{} queue pairs are more than this device can have on one completion queue ({} "
                                "entries); take fewer",
                                count, device.max_cqe),
                    EINVAL);
    }
    queues.depth_ = depth;
    auto& library = port.library;
    queues.completions_ = {library.create_cq(port.context.get(), static_cast<int>(count * depth), nullptr, nullptr, 0),
                           {library.destroy_cq}};
    if (!queues.completions_) {
        const int code = errno;
        return os_failure(format_text("no completion queue for {} writes", count * depth), code);
    }
    std::random_device random;
    for (unsigned i = 0; i < count; ++i) {
        auto pair = make_pair(port, queues.completions_.get(), depth, queues.inlines_);
        const auto ready = pair ? to_init(port, pair->get(), pkey_index) : tl::unexpected(pair.error());
        if (!ready) {
            return tl::unexpected(ready.error());
        }
        queues.pairs_.push_back(std::move(*pair));
        queues.packet_numbers_.push_back(random() & packet_number_mask);
    }
    return queues;
}

std::vector<std::uint32_t> VerbsQueues::numbers() const {
    return mapped(pairs_, [](const VerbsQueuePair& pair) { return pair->qp_num; });
}

int VerbsQueues::connect(const VerbsPort& port, const VerbsAddress& peer, unsigned mtu, const VerbsService& service) {
    for (std::size_t i = 0; i < pairs_.size(); ++i) {
        ibv_qp_attr attributes{};
        attributes.qp_state = IBV_QPS_RTR;
        attributes.ah_attr = path_to(port, peer, service);
        attributes.path_mtu = mtu_of(mtu).value_or(IBV_MTU_256);
        attributes.dest_qp_num = peer.queue_pairs[i];
        attributes.rq_psn = peer.packet_numbers[i];
        attributes.max_dest_rd_atomic = 1;
        attributes.min_rnr_timer = rnr_timer;
        constexpr int ready_to_receive = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
        if (const int code = port.library.modify_qp(pairs_[i].get(), &attributes, ready_to_receive); code != 0) {
            return code;
        }
        attributes = {};
        attributes.qp_state = IBV_QPS_RTS;
        attributes.sq_psn = packet_numbers_[i];
        attributes.timeout = static_cast<std::uint8_t>(service.timeout);
        attributes.retry_cnt = most_retries;
        attributes.rnr_retry = rnr_for_ever;
        attributes.max_rd_atomic = 1;
        constexpr int ready_to_send = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                      IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
        if (const int code = port.library.modify_qp(pairs_[i].get(), &attributes, ready_to_send); code != 0) {
            return code;
        }
    }
    return 0;
}

} // namespace rdma_nccl

#endif
