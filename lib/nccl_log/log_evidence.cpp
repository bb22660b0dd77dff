// SPDX-License-Identifier: Apache-2.0
#include "lib/nccl_log/reader.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/unique_fd.h"
#include "lib/nccl_log/messages.h"
#include "lib/profile/profile.h"
#include "lib/sys/own_directory.h"
#include "lib/sys/sysroot.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <unistd.h>
#include <utility>

namespace rdma_nccl {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t most_of_a_log = std::size_t{64} << 20; // per rank; the connections are near its start
constexpr std::size_t most_of_all = std::size_t{256} << 20;  // takes about a second
constexpr std::size_t most_files = 1024;

/// Returns the names of the logs that NCCL_DEBUG_FILE produces, and no other files.
std::vector<std::string> logs_in(int directory) {
    auto names = Directory(UniqueFd(::dup(directory))).list().value_or(std::vector<std::string>{});
    std::erase_if(names, [](const auto& name) { return !name.starts_with("nccl.") || !name.ends_with(".log"); });
    return names;
}

/// Returns the number of bytes read.
std::size_t read_log(int directory, const std::string& name, std::size_t most, Clock::time_point deadline,
                     NcclLogReader& reader) {
    const auto file = open_regular_file(directory, name);
    if (!file) {
        return 0;
    }
    std::array<char, 65536> buffer{};
    std::size_t total = 0;
    ssize_t count = 0;
    while (total < most && Clock::now() < deadline && (count = ::read(file->get(), buffer.data(), buffer.size())) > 0) {
        reader.read({buffer.data(), static_cast<std::size_t>(count)});
        total += static_cast<std::size_t>(count);
    }
    reader.end_of_file();
    return total;
}

/// Returns the most frequent first, and equally frequent ones sorted by text. What was counted 0 times comes last. A
/// plugin that failed comes first: a setting such as NCCL_IB_DISABLE is often there because the plugin should be used.
std::vector<std::string> by_number(const NcclCauses& counts) {
    auto texts = mapped(counts, &NcclCauses::value_type::first);
    std::ranges::stable_sort(texts, std::ranges::greater(), [&](const std::string& text) {
        const auto number = counts.at(text);
        return std::pair(number > 0 && text.find(" plugin ") != std::string::npos, number);
    });
    return texts;
}

/// Returns the number of nodes of the largest communicator, as far as the log's processes tell: there is one for each
/// of its ranks, or a ring of connections inside a node closes over them; 0: they do not. NCCL before 2.20 does not log
/// the number, and a log without the lines of communicators not that of ranks: then the ring counts only if no
/// connection goes over a network, of another communicator.
unsigned nodes_of(const NcclLog& log, bool has_network) {
    std::uint32_t ranks = 0;
    std::size_t named = 0;
    std::set<std::uint32_t> known;
    std::set<std::string_view> hosts;
    std::set<unsigned> senders;
    std::set<unsigned> receivers;
    for (const auto& process : log.processes) {
        if (process.ranks > ranks) {
            ranks = process.ranks;
            known.clear();
        }
        if (process.rank && process.ranks == ranks) {
            known.insert(*process.rank);
        }
        senders.insert(process.senders.begin(), process.senders.end());
        receivers.insert(process.receivers.begin(), process.receivers.end());
        if (!process.host.empty()) {
            hosts.insert(process.host);
            ++named;
        }
    }
    const bool ring_closes =
        senders.size() > 1 && senders.size() >= ranks && senders == receivers && (ranks > 0 || !has_network);
    if (hosts.size() > 1) { // more processes than ranks are those of several jobs
        return named == ranks && known.size() == ranks ? static_cast<unsigned>(hosts.size()) : 0;
    }
    return hosts.empty() ? ranks > 0 && ring_closes : ring_closes || (ranks > 0 && named >= ranks);
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
    evidence.unread = log.unread_lines;
    NcclNames networks;
    NcclNames hcas;
    NcclCauses causes;
    for (const auto& process : log.processes) {
        evidence.nodes = std::max(evidence.nodes, process.nodes);
        evidence.failed = evidence.failed || process.failed;
        networks.insert(process.networks.begin(), process.networks.end());
        hcas.insert(process.hcas.begin(), process.hcas.end());
        for (const auto& [cause, number] : process.causes) {
            causes[cause] += number;
        }
    }
    const bool has_network = evidence.rdma + evidence.rdma_gdr + evidence.sockets + evidence.other > 0;
    // Containers of one node count as several, as NCCL counts them by their hosts (getHostHash in src/misc/utils.cc).
    evidence.nodes = evidence.nodes == 0 ? nodes_of(log, has_network) : evidence.nodes;
    evidence.networks.assign(networks.begin(), networks.end());
    evidence.hcas.assign(hcas.begin(), hcas.end());
    if (!log.last_warning.empty()) {
        causes.emplace(format_text("NCCL's last warning: {}", log.last_warning), 0);
    }
    drop_consequences(causes);
    if (evidence.rdma == 0 && (evidence.nodes == 1 || evidence.nvlink > 0)) { // nothing goes through host memory
        drop_mild(causes);
    }
    evidence.causes = by_number(causes);
    return evidence;
}

std::string make_log_directory(std::uint32_t job_id, std::uint32_t step_id, std::string_view parent) {
    std::string path = format_text("{}/rdma-nccl-{}.{}-XXXXXX", parent, job_id, step_id);
    return ::mkdtemp(path.data()) != nullptr ? path : std::string();
}

std::optional<LogEvidence> read_log_directory(const std::string& path, Clock::time_point deadline) {
    const auto directory = path.empty() ? std::nullopt : open_own_directory(path);
    if (!directory) {
        return std::nullopt;
    }
    NcclLogReader reader;
    std::size_t files = 0;
    std::size_t left = most_of_all;
    for (const auto& name : logs_in(directory->get())) {
        if (files++ == most_files || left == 0 || Clock::now() >= deadline) {
            break;
        }
        left -= std::min(left, read_log(directory->get(), name, std::min(left, most_of_a_log), deadline, reader));
    }
    auto log = summary(reader.finish());
    return log.ranks > 0 ? std::optional(std::move(log)) : std::nullopt;
}

void remove_log_directory(const std::string& path) {
    const auto directory = open_own_directory(path);
    if (!directory) {
        return;
    }
    auto names = logs_in(directory->get());
    append(names, profile::profiles_in(directory->get()));
    for (const auto& name : names) {
        (void)::unlinkat(directory->get(), name.c_str(), 0);
    }
    (void)::rmdir(path.c_str()); // fails if the user has put something else into it
}

} // namespace rdma_nccl
