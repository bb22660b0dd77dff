// SPDX-License-Identifier: Apache-2.0
#include "lib/base/format.h"
#include "lib/base/hostlist.h"
#include "lib/base/table.h"
#include "lib/base/text.h"
#include "tools/verify/verify.h"

#include <algorithm>
#include <array>
#include <functional>
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

std::string count_or_dash(std::uint64_t number) {
    return number == 0 ? "-" : format_text("{}", number);
}

constexpr std::array count_names = {"RDMA", "RDMA+GDR", "SOCKETS", "OTHER", "NVLINK", "LOCAL"};
using Counts = std::array<std::uint64_t, count_names.size()>;
using Some = std::array<bool, count_names.size()>; // which counts are not 0

Counts counts_of(const NcclProcess& process) {
    const auto of = [&](NcclTransport transport) {
        return process.connections.at(static_cast<std::size_t>(transport));
    };
    return {of(NcclTransport::Rdma),   of(NcclTransport::RdmaGdr),
            of(NcclTransport::Socket), of(NcclTransport::OtherNet),
            of(NcclTransport::Nvlink), of(NcclTransport::PeerToPeer) + of(NcclTransport::SharedMemory)};
}

Some some_of(const Counts& counts) {
    Some some{};
    std::ranges::transform(counts, some.begin(), [](std::uint64_t count) { return count > 0; });
    return some;
}

/// A row of the table: columns at its start, counts, HCAs.
struct CountRow {
    TableRow start;
    Counts counts{};
    std::string hcas;
};

std::vector<CountRow> rows_of_processes(const std::vector<NcclProcess>& processes) {
    std::vector<CountRow> rows;
    for (const auto& process : processes) {
        rows.push_back({{process.host, format_text("{}", process.pid),
                         process.rank ? format_text("{}", *process.rank) : "-", list_of(process.networks)},
                        counts_of(process),
                        list_of(process.hcas)});
    }
    return rows;
}

/// Returns a row for all processes that differ only in numbers.
std::vector<CountRow> rows_of_kinds(const std::vector<NcclProcess>& processes) {
    struct Kind {
        std::vector<std::string> hosts;
        std::uint64_t processes = 0;
    };
    std::vector<Kind> kinds;
    std::vector<CountRow> rows;
    std::map<std::tuple<std::string, std::string, Some>, std::size_t> numbers; // of the kinds
    for (const auto& process : processes) {
        const auto counts = counts_of(process);
        const auto network = list_of(process.networks);
        const auto hcas = list_of(process.hcas);
        const auto [number, is_new] = numbers.emplace(std::tuple(network, hcas, some_of(counts)), kinds.size());
        if (is_new) {
            kinds.emplace_back();
            rows.push_back({{"", "", network}, {}, hcas});
        }
        auto& kind = kinds[number->second];
        auto& sums = rows[number->second].counts;
        if (kind.hosts.empty() || kind.hosts.back() != process.host) {
            kind.hosts.push_back(process.host);
        }
        ++kind.processes;
        std::ranges::transform(sums, counts, sums.begin(), std::plus<>());
    }
    for (std::size_t i = 0; i < rows.size(); ++i) {
        rows[i].start[0] = printable(fold_hostlist(kinds[i].hosts), longest_hosts);
        rows[i].start[1] = format_text("{}", kinds[i].processes);
    }
    return rows;
}

/// Sockets and RDMA always have a column, the others only if a count is not 0.
std::string count_table(const TableRow& start, const std::vector<CountRow>& rows) {
    Some columns = {true, true, true};
    for (const auto& row : rows) {
        std::ranges::transform(columns, some_of(row.counts), columns.begin(), std::logical_or<>());
    }
    std::vector<TableRow> lines;
    const auto add = [&](TableRow line, const auto& cell, const std::string& hcas) {
        for (std::size_t i = 0; i < columns.size(); ++i) {
            if (columns.at(i)) {
                line.push_back(cell(i));
            }
        }
        line.push_back(hcas);
        lines.push_back(std::move(line));
    };
    add(
        start, [](std::size_t i) { return std::string(count_names.at(i)); }, "HCAS");
    for (const auto& row : rows) {
        add(
            row.start, [&row](std::size_t i) { return count_or_dash(row.counts.at(i)); }, row.hcas);
    }
    return aligned_table(lines) + "\n";
}

std::string table_of(const std::vector<NcclProcess>& processes, bool all) {
    if (processes.empty()) {
        return "";
    }
    return all || processes.size() <= most_rows
               ? count_table({"HOST", "PID", "RANK", "NETWORK"}, rows_of_processes(processes))
               : count_table({"HOSTS", "PROCESSES", "NETWORK"}, rows_of_kinds(processes));
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
    std::string text = heading(judged.log) + table_of(judged.log.processes, all);
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
