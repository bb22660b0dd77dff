// SPDX-License-Identifier: Apache-2.0
#include "lib/evidence/verdict.h"

#include "lib/base/format.h"
#include "lib/base/text.h"

namespace rdma_nccl {

namespace {

/// Returns "3 of 8 connections". Both numbers count only connections that need a network.
std::string part(std::uint64_t some, std::uint64_t all) {
    return some == all ? format_text("{} connection{}", all, all == 1 ? "" : "s")
                       : format_text("{} of {} connections", some, all);
}

void judge_gpu_direct(const LogEvidence& log, LogVerdict& verdict) {
    const auto all = log.rdma + log.rdma_gdr;
    if (all == 0) {
        return;
    }
    verdict.gpu_direct = log.rdma_gdr > 0 ? GpuDirect::On : GpuDirect::Off;
    if (log.rdma > 0) {
        const bool one = log.rdma == 1;
        verdict.why.push_back(format_text("{} over RDMA {} without GPUDirect, through the host's memory",
                                          part(log.rdma, all), one ? "goes" : "go"));
    }
}

/// Judges a log without any connection over a network.
LogVerdict judge_without_network(const LogEvidence& log) {
    if (log.nvlink > 0) {
        return {
            Verdict::Idle, GpuDirect::Unknown, {"the nodes' GPUs are connected over NVLink: no network was needed"}};
    }
    if (log.nodes == 1) {
        return {Verdict::Idle, GpuDirect::Unknown, {"all ranks are on one node: no network was needed"}};
    }
    std::string known = log.networks.empty() ? "" : format_text("NCCL chose {}", joined(log.networks));
    if (log.nodes > 1) {
        known += format_text("{}a communicator spans {} nodes", known.empty() ? "" : "; ", log.nodes);
    }
    return {Verdict::Unknown,
            GpuDirect::Unknown,
            {format_text("no connection between nodes is in the log{}: they come with the first collective, or the log "
                         "is not whole",
                         known.empty() ? "" : format_text(" ({})", known))}};
}

} // namespace

LogVerdict judge_log(const LogEvidence& log) {
    if (!log.info) {
        return {Verdict::Unknown,
                GpuDirect::Unknown,
                {log.ranks == 0 ? "the log has no line of NCCL: NCCL_DEBUG=INFO makes it write some"
                                : "the log has warnings of NCCL alone: it needs NCCL_DEBUG=INFO"}};
    }
    const auto rdma = log.rdma + log.rdma_gdr;
    const auto all = rdma + log.sockets + log.other;
    LogVerdict verdict;
    if (all == 0) {
        return judge_without_network(log);
    }
    if (rdma > 0 && log.sockets > 0) {
        verdict.verdict = Verdict::Mixed;
        verdict.why.push_back(part(log.sockets, all) + " over sockets");
    } else if (log.other > 0) {
        verdict.why.push_back(format_text("{} over {}, which may be RDMA or not", part(log.other, all),
                                          log.networks.empty() ? "an unknown network" : joined(log.networks)));
    } else if (rdma > 0) {
        verdict.verdict = Verdict::Used;
    } else {
        verdict.verdict = Verdict::NotUsed;
        verdict.why.push_back(part(log.sockets, all) + " over sockets, none over RDMA");
    }
    judge_gpu_direct(log, verdict);
    return verdict;
}

} // namespace rdma_nccl
