// SPDX-License-Identifier: Apache-2.0
#include "lib/base/format.h"
#include "lib/base/hostlist.h"
#include "lib/base/table.h"
#include "lib/base/text.h"
#include "tools/verify/log.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>

namespace rdma_nccl {

namespace {

constexpr std::size_t most_rows = 16; // most rows of single processes; more are grouped by kind
constexpr std::size_t longest_hosts = 60;

std::string list_of(const NcclNames& names) {
    return or_dash(joined(names, ","));
}

std::uint64_t of(const NcclProcess& process, NcclTransport transport) {
    return process.connections.at(static_cast<std::size_t>(transport));
}

std::string count_or_dash(std::uint64_t number) {
    return number == 0 ? "-" : format_text("{}", number);
}

using Counts = std::array<std::uint64_t, 6>; // in the order of the columns after NETWORK

Counts counts_of(const NcclProcess& process) {
    return {of(process, NcclTransport::Rdma),
            of(process, NcclTransport::RdmaGdr),
            of(process, NcclTransport::Socket),
            of(process, NcclTransport::OtherNet),
            of(process, NcclTransport::Nvlink),
            of(process, NcclTransport::PeerToPeer) + of(process, NcclTransport::SharedMemory)};
}

using Some = std::array<bool, std::tuple_size_v<Counts>>; // which counts are not 0

/// Processes that differ only in numbers.
struct Kind {
    std::string network;
    std::string hcas;
    Some some{};
    std::vector<std::string> hosts;
    std::uint64_t processes = 0;
    Counts sums{};
};

Kind kind_of(const NcclProcess& process) {
    Kind kind{list_of(process.networks), list_of(process.hcas), {}, {process.host}, 1, counts_of(process)};
    std::transform(kind.sums.begin(), kind.sums.end(), kind.some.begin(), [](std::uint64_t n) { return n > 0; });
    return kind;
}

std::vector<Kind> kinds_of(const std::vector<NcclProcess>& processes) {
    std::vector<Kind> kinds;
    std::map<std::tuple<std::string, std::string, Some>, std::size_t> places;
    for (const auto& process : processes) {
        auto kind = kind_of(process);
        const auto [place, is_new] = places.emplace(std::tuple(kind.network, kind.hcas, kind.some), kinds.size());
        if (is_new) {
            kinds.push_back(std::move(kind));
            continue;
        }
        auto& sum = kinds[place->second];
        if (sum.hosts.back() != process.host) {
            sum.hosts.push_back(process.host);
        }
        ++sum.processes;
        std::transform(sum.sums.begin(), sum.sums.end(), kind.sums.begin(), sum.sums.begin(), std::plus<>());
    }
    return kinds;
}

const std::array<const char*, std::tuple_size_v<Counts>> count_names = {"RDMA",  "RDMA+GDR", "SOCKETS",
                                                                        "OTHER", "NVLINK",   "LOCAL"};

/// Sockets and RDMA always have a column, the others only if a count is not 0.
Some columns_of(const std::vector<NcclProcess>& processes) {
    Some columns = {true, true, true};
    for (const auto& process : processes) {
        const auto some = kind_of(process).some;
        std::transform(columns.begin(), columns.end(), some.begin(), columns.begin(), std::logical_or<>());
    }
    return columns;
}

TableRow header(TableRow row, const Some& columns) {
    for (std::size_t i = 0; i < columns.size(); ++i) {
        if (columns.at(i)) {
            row.emplace_back(count_names.at(i));
        }
    }
    row.emplace_back("HCAS");
    return row;
}

TableRow filled(TableRow row, const Counts& counts, const Some& columns, std::string hcas) {
    for (std::size_t i = 0; i < columns.size(); ++i) {
        if (columns.at(i)) {
            row.push_back(count_or_dash(counts.at(i)));
        }
    }
    row.push_back(std::move(hcas));
    return row;
}

std::string table_of_processes(const std::vector<NcclProcess>& processes, const Some& columns) {
    std::vector<TableRow> rows = {header({"HOST", "PID", "RANK", "NETWORK"}, columns)};
    for (const auto& process : processes) {
        rows.push_back(filled({process.host, format_text("{}", process.pid),
                               process.rank ? format_text("{}", *process.rank) : "-", list_of(process.networks)},
                              counts_of(process), columns, list_of(process.hcas)));
    }
    return aligned_table(rows);
}

std::string table_of_kinds(const std::vector<Kind>& kinds, const Some& columns) {
    std::vector<TableRow> rows = {header({"HOSTS", "PROCESSES", "NETWORK"}, columns)};
    for (const auto& kind : kinds) {
        rows.push_back(filled(
            {printable(fold_hostlist(kind.hosts), longest_hosts), format_text("{}", kind.processes), kind.network},
            kind.sums, columns, kind.hcas));
    }
    return aligned_table(rows);
}

std::string table_of(const NcclLog& log, bool all) {
    const auto& processes = log.processes;
    if (processes.empty()) {
        return "";
    }
    const auto columns = columns_of(processes);
    return (all || processes.size() <= most_rows ? table_of_processes(processes, columns)
                                                 : table_of_kinds(kinds_of(processes), columns)) +
           "\n";
}

std::string many(std::uint64_t number, const char* one, const char* several) {
    return format_text("{} {}", number, number == 1 ? one : several);
}

/// Returns a line like "NCCL 2.28.9, 16 processes on 2 hosts".
std::string heading(const NcclLog& log) {
    if (log.processes.empty()) {
        return "";
    }
    std::set<std::string_view> hosts;
    for (const auto& process : log.processes) {
        hosts.insert(process.host);
    }
    return format_text("NCCL {}, {} on {}\n", log.version.empty() ? "of unknown version" : log.version,
                       many(log.processes.size(), "process", "processes"), many(hosts.size(), "host", "hosts"));
}

/// Returns a line like "RDMA USED: 96 connections over RDMA, GPUDirect on (evidence D: NCCL's logs alone)".
std::string verdict_text(const JudgedLog& judged) {
    const auto& verdict = judged.verdict;
    auto text = format_text("RDMA {}", name_of(verdict.verdict));
    if (verdict.verdict == Verdict::Used) {
        text += format_text(": all {} over RDMA, GPUDirect {}",
                            many(judged.evidence.rdma + judged.evidence.rdma_gdr, "connection", "connections"),
                            name_of(verdict.gpu_direct));
    }
    return text + " (evidence D: NCCL's logs alone)\n";
}

} // namespace

std::string verify_log_text(const JudgedLog& judged, bool all) {
    std::string text = heading(judged.log) + table_of(judged.log, all);
    text += verdict_text(judged);
    for (const auto& why : judged.verdict.why) {
        text += "  " + why + "\n";
    }
    for (const auto& cause : judged.evidence.causes) {
        text += "  cause: " + cause + "\n";
    }
    if (judged.log.truncated) {
        text += "  the log names more processes or devices than are kept: what is above is not all\n";
    }
    if (judged.verdict.verdict == Verdict::Unknown && judged.all_read) {
        text += "to see more: NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,BOOTSTRAP,ENV,NET,GRAPH "
                "NCCL_DEBUG_FILE=DIR/nccl.%h.%p.log\n";
    }
    return text;
}

} // namespace rdma_nccl
