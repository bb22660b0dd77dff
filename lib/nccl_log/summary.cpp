// SPDX-License-Identifier: Apache-2.0
#include "lib/nccl_log/reader.h"

#include <algorithm>

namespace rdma_nccl {

namespace {

/// Returns the most frequent first, and equally frequent ones sorted by text.
std::vector<std::string> by_number(const std::map<std::string, std::uint64_t, std::less<>>& counts) {
    std::vector<std::pair<std::string, std::uint64_t>> pairs(counts.begin(), counts.end());
    std::ranges::stable_sort(pairs, [](const auto& a, const auto& b) { return a.second > b.second; });
    std::vector<std::string> texts;
    texts.reserve(pairs.size());
    for (auto& pair : pairs) {
        texts.push_back(std::move(pair.first));
    }
    return texts;
}

/// Returns true if the log has all ranks of the largest communicator and all are on one host. NCCL before 2.20 does not
/// log the number of nodes.
bool has_all_ranks_of_one_node(const NcclLog& log) {
    std::uint32_t ranks = 0;
    for (const auto& process : log.processes) {
        ranks = std::max(ranks, process.ranks);
    }
    return ranks > 0 && log.processes.size() >= ranks &&
           std::ranges::all_of(log.processes,
                               [&](const NcclProcess& process) { return process.host == log.processes.front().host; });
}

} // namespace

LogEvidence summary(const NcclLog& log) {
    const auto connections = log.connections();
    const auto of = [&](NcclTransport transport) { return connections.at(static_cast<std::size_t>(transport)); };
    LogEvidence evidence;
    evidence.ranks = static_cast<unsigned>(log.processes.size());
    evidence.version = log.version;
    evidence.rdma = of(NcclTransport::Rdma);
    evidence.rdma_gdr = of(NcclTransport::RdmaGdr);
    evidence.sockets = of(NcclTransport::Socket);
    evidence.nvlink = of(NcclTransport::Nvlink);
    evidence.other = of(NcclTransport::OtherNet);
    evidence.local = of(NcclTransport::PeerToPeer) + of(NcclTransport::SharedMemory);
    evidence.info = log.info_lines > 0;
    NcclNames networks;
    NcclNames hcas;
    std::map<std::string, std::uint64_t, std::less<>> causes;
    for (const auto& process : log.processes) {
        evidence.nodes = std::max(evidence.nodes, process.nodes);
        networks.insert(process.networks.begin(), process.networks.end());
        hcas.insert(process.hcas.begin(), process.hcas.end());
        for (const auto& [cause, number] : process.causes) {
            causes[cause] += number;
        }
    }
    if (evidence.nodes == 0 && has_all_ranks_of_one_node(log)) {
        evidence.nodes = 1;
    }
    evidence.networks.assign(networks.begin(), networks.end());
    evidence.hcas.assign(hcas.begin(), hcas.end());
    evidence.causes = by_number(causes);
    return evidence;
}

} // namespace rdma_nccl
