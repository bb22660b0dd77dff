// SPDX-License-Identifier: Apache-2.0
// Writes: the bytes go at once, what the sender is told comes when a real port would have sent them.
#include "fake_verbs.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <mutex>
#include <sys/uio.h>

namespace fake {

namespace {

constexpr std::uint64_t count_after = 8U << 20U; ///< counters are files: not for each write

std::uint64_t size_of(const ibv_send_wr& work) {
    std::uint64_t size = 0;
    for (int i = 0; i < work.num_sge; ++i) {
        size += work.sg_list[i].length;
    }
    return size;
}

bool copy(pid_t pid, const ibv_send_wr& work, std::uint64_t size, bool corrupt) {
    std::vector<iovec> from;
    for (int i = 0; i < work.num_sge; ++i) {
        from.push_back({reinterpret_cast<void*>(work.sg_list[i].addr), work.sg_list[i].length});
    }
    iovec to{reinterpret_cast<void*>(work.wr.rdma.remote_addr), size};
    if (::process_vm_writev(pid, from.data(), from.size(), &to, 1, 0) != static_cast<ssize_t>(size)) {
        return false;
    }
    if (corrupt && size > 4096) {
        char wrong = 0x5a;
        iovec last{&wrong, 1};
        iovec place{reinterpret_cast<void*>(work.wr.rdma.remote_addr + size - 1), 1};
        return ::process_vm_writev(pid, &last, 1, &place, 1, 0) == 1;
    }
    return true;
}

ibv_wc_status carry(QueuePair& pair, const ibv_send_wr& work, std::uint64_t size) {
    const bool too_large = std::min<std::uint64_t>(pair.path_mtu, size) > pair.path.mtu;
    if (!pair.peer || pair.path.drop || too_large) {
        return IBV_WC_RETRY_EXC_ERR;
    }
    auto& memory = pair.keys[work.wr.rdma.rkey];
    if (memory.pid == 0) {
        memory = find_memory(work.wr.rdma.rkey).value_or(PeerMemory{});
    }
    const std::uint64_t offset = work.wr.rdma.remote_addr - memory.address;
    if (memory.pid != pair.peer->pid || offset > memory.size || size > memory.size - offset) {
        return find_queue_pair(pair.peer_number) ? IBV_WC_REM_ACCESS_ERR : IBV_WC_RETRY_EXC_ERR;
    }
    return copy(memory.pid, work, size, pair.path.corrupt) ? IBV_WC_SUCCESS : IBV_WC_RETRY_EXC_ERR;
}

} // namespace

Clock::time_point reserve(const std::string& port, std::uint64_t bytes, double share) {
    static std::mutex mutex;
    static std::map<std::string, Clock::time_point> busy_until;
    const std::lock_guard lock(mutex);
    auto& until = busy_until[port];
    const std::chrono::duration<double, std::nano> time(static_cast<double>(bytes) * 8 / (gbps() * share));
    until = std::max(until, Clock::now()) + std::chrono::duration_cast<Clock::duration>(time);
    return until;
}

void count_rest(QueuePair& pair) {
    if (pair.uncounted > 0 && pair.peer) {
        count(pair.port, "port_xmit_data", pair.uncounted);
        count(pair.peer->port, "port_rcv_data", pair.uncounted);
        pair.uncounted = 0;
    }
}

int post_send(ibv_qp* qp, ibv_send_wr* work, ibv_send_wr** bad) {
    auto& pair = *static_cast<QueuePair*>(qp);
    auto& completions = *static_cast<Completions*>(qp->send_cq);
    for (; work != nullptr; work = work->next) {
        auto& waiting = completions.items[pair.number];
        const bool in_line = (work->send_flags & IBV_SEND_INLINE) != 0;
        const bool from_nowhere = in_line ? size_of(*work) > pair.most.max_inline_data : work->sg_list->lkey == 0;
        const int error = work->opcode != IBV_WR_RDMA_WRITE || qp->state != IBV_QPS_RTS || from_nowhere ? EINVAL
                          : waiting.size() >= pair.most.max_send_wr                                     ? ENOMEM
                                                                                                        : 0;
        if (error != 0) {
            *bad = work;
            return error;
        }
        const std::uint64_t size = size_of(*work);
        ibv_wc completion{};
        completion.wr_id = work->wr_id;
        completion.qp_num = pair.number;
        completion.opcode = IBV_WC_RDMA_WRITE;
        completion.status = pair.broken ? IBV_WC_WR_FLUSH_ERR : carry(pair, *work, size);
        completion.byte_len = static_cast<std::uint32_t>(size);
        auto due = Clock::now();
        if (completion.status == IBV_WC_SUCCESS) {
            due = reserve(pair.port, size, pair.path.share);
            pair.uncounted += size;
            if (pair.uncounted >= count_after) {
                count_rest(pair);
            }
        } else if (!pair.broken) {
            due += pair.timeout;
        }
        if (!waiting.empty()) {
            due = std::max(due, waiting.back().due);
        }
        const bool failed = completion.status != IBV_WC_SUCCESS;
        pair.broken = pair.broken || failed;
        const bool signalled = pair.all_signalled || (work->send_flags & IBV_SEND_SIGNALED) != 0;
        waiting.push_back({due, completion, signalled || failed});
    }
    return 0;
}

int poll(ibv_cq* cq, int most, ibv_wc* completions) {
    auto& queue = *static_cast<Completions*>(cq);
    const auto now = Clock::now();
    int count = 0;
    for (auto& [number, waiting] : queue.items) {
        while (count < most && !waiting.empty() && waiting.front().due <= now) {
            if (waiting.front().visible) {
                completions[count++] = waiting.front().completion;
            }
            waiting.pop_front();
        }
    }
    return count;
}

} // namespace fake
