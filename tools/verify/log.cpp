// SPDX-License-Identifier: Apache-2.0
// verify --log: judges by logs only.
#include "lib/base/format.h"
#include "lib/base/json.h"
#include "lib/base/lists.h"
#include "lib/base/result.h"
#include "lib/base/text.h"
#include "lib/base/unique_fd.h"
#include "lib/evidence/verdict.h"
#include "lib/nccl_log/reader.h"
#include "tools/common/print.h"
#include "tools/verify/compression.h"
#include "tools/verify/verify.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <sys/stat.h>
#include <tuple>
#include <unistd.h>
#include <utility>

namespace rdma_nccl {

namespace {

/// The content of the logs, and the verdict.
struct JudgedLog {
    NcclLog log;
    LogEvidence evidence;
    LogVerdict verdict;
    bool all_read = true; ///< all named files were read
};

Json number_or_null(std::uint32_t number) {
    return number == 0 ? Json() : Json(number);
}

Json connections_json(const std::array<std::uint64_t, nccl_transports>& connections) {
    const auto of = [&](NcclTransport transport) { return connections.at(static_cast<std::size_t>(transport)); };
    return {{"rdma", of(NcclTransport::Rdma)},       {"rdma_gdr", of(NcclTransport::RdmaGdr)},
            {"sockets", of(NcclTransport::Socket)},  {"other", of(NcclTransport::OtherNet)},
            {"nvlink", of(NcclTransport::Nvlink)},   {"p2p", of(NcclTransport::PeerToPeer)},
            {"shm", of(NcclTransport::SharedMemory)}};
}

Json process_json(const NcclProcess& process) {
    return {{"host", text_if_any(process.host)},
            {"pid", number_or_null(process.pid)},
            {"rank", process.rank},
            {"ranks", number_or_null(process.ranks)},
            {"nodes", number_or_null(process.nodes)},
            {"nccl", text_if_any(process.version)},
            {"networks", process.networks},
            {"connections", connections_json(process.connections)},
            {"hcas", process.hcas},
            {"gids", process.gids},
            {"causes", mapped(process.causes, [](const auto& cause) {
                 return Json{{"text", cause.first}, {"count", cause.second}};
             })}};
}

Json log_json(const JudgedLog& judged) {
    const auto& evidence = judged.evidence;
    return {{"schema", 1},
            {"verdict", name_of(judged.verdict.verdict)},
            {"grade", "D"},
            {"gpu_direct", name_of(judged.verdict.gpu_direct)},
            {"why", judged.verdict.why},
            {"causes", evidence.causes},
            {"nccl", text_if_any(evidence.version)},
            {"nodes", number_or_null(evidence.nodes)},
            {"networks", evidence.networks},
            {"connections", connections_json(judged.log.connections())},
            {"hcas", evidence.hcas},
            {"lines", judged.log.lines},
            {"nccl_lines", judged.log.nccl_lines},
            {"unread_lines", judged.log.unread_lines},
            {"cut_lines", judged.log.cut_lines},
            {"repeated_lines", judged.log.repeated_lines},
            {"notes", judged.log.notes},
            {"truncated", judged.log.truncated},
            {"processes", mapped(judged.log.processes, process_json)}};
}

constexpr std::size_t most_rows = 16; // most rows of single processes; more are grouped by kind
constexpr std::size_t longest_hosts = 60;

std::string list_of(const NcclNames& names) {
    return or_dash(joined(names, ","));
}

std::string count_or_dash(std::uint64_t number) {
    return number == 0 ? "-" : format_text("{}", number);
}

/// In the order of NcclTransport; all that goes on inside a node is LOCAL.
constexpr std::array count_names = {"RDMA", "RDMA+GDR", "SOCKETS", "OTHER", "NVLINK", "LOCAL"};
using Counts = std::array<std::uint64_t, count_names.size()>;
using Some = std::array<bool, count_names.size()>; // which counts are not 0

Counts counts_of(const NcclProcess& process) {
    Counts counts{};
    for (std::size_t i = 0; i < nccl_transports; ++i) {
        counts.at(std::min(i, counts.size() - 1)) += process.connections.at(i);
    }
    return counts;
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
    return mapped(processes, [](const NcclProcess& process) {
        return CountRow{{or_dash(process.host), count_or_dash(process.pid),
                         process.rank ? format_text("{}", *process.rank) : "-", list_of(process.networks)},
                        counts_of(process),
                        list_of(process.hcas)};
    });
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
        if (!process.host.empty() && (kind.hosts.empty() || kind.hosts.back() != process.host)) {
            kind.hosts.push_back(process.host);
        }
        ++kind.processes;
        std::ranges::transform(sums, counts, sums.begin(), std::plus<>());
    }
    for (std::size_t i = 0; i < rows.size(); ++i) {
        rows[i].start[0] = or_dash(printable(fold_hostlist(kinds[i].hosts), longest_hosts));
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

/// Returns a line like "NCCL 2.28.9, 16 processes on 2 hosts".
std::string heading(const NcclLog& log) {
    std::set<std::string_view> hosts;
    for (const auto& process : log.processes) {
        hosts.insert(process.host);
    }
    const auto number = log.processes.size();
    if (number == 0) {
        return "";
    }
    const auto unnamed = hosts.erase("") == 0 ? 0 : std::ranges::count(log.processes, "", &NcclProcess::host);
    return format_text("NCCL {}, {} process{}{}{}\n", log.version.empty() ? "of unknown version" : log.version, number,
                       number == 1 ? "" : "es", hosts.empty() ? "" : " on " + format_count(hosts.size(), "host"),
                       unnamed == 0 ? "" : format_text(", {} of unknown host", unnamed));
}

/// Returns a line like "RDMA USED: 96 connections over RDMA, GPUDirect on (evidence D: NCCL's logs alone)".
std::string verdict_text(const JudgedLog& judged) {
    const auto& verdict = judged.verdict;
    auto text = format_text("RDMA {}", name_of(verdict.verdict));
    if (verdict.verdict == Verdict::Used) {
        text += format_text(": all {} over RDMA, GPUDirect {}",
                            format_count(judged.evidence.rdma + judged.evidence.rdma_gdr, "connection"),
                            name_of(verdict.gpu_direct));
    }
    return text + " (evidence D: NCCL's logs alone)\n";
}

/// Returns a sentence as lines of at most 100 columns.
std::string folded(std::string_view sentence) {
    constexpr std::size_t columns = 100;
    std::string text;
    std::string line = " ";
    for (const auto word : split(sentence, ' ')) {
        if (line.size() + 1 + word.size() > columns && line.size() > columns / 2) {
            text += line + "\n";
            line = "   ";
        }
        line += format_text(" {}", word);
    }
    return text + line + "\n";
}

/// Says how to get a log that tells more. What NCCL_DEBUG=INFO prints, a log that has it may lack for another reason.
std::string log_hint(const LogEvidence& evidence) {
    if (evidence.info && !evidence.networks.empty() && evidence.other == 0) {
        return "";
    }
    return format_text("to see more: {}NCCL_DEBUG_SUBSYS=INIT,BOOTSTRAP,ENV,NET,GRAPH\n{}",
                       evidence.info ? "" : "NCCL_DEBUG=INFO ",
                       evidence.info ? "" : "             NCCL_DEBUG_FILE=DIR/nccl.%h.%p.log\n");
}

std::string log_text(const JudgedLog& judged, bool all) {
    const auto& [log, evidence, verdict, all_read] = judged;
    std::string text = heading(log) + table_of(log.processes, all) + verdict_text(judged);
    const auto add = [&](std::string_view title, const auto& sentences) {
        for (const auto& sentence : sentences) {
            text += folded(format_text("{}{}", title, sentence));
        }
    };
    add("", verdict.why);
    add("cause: ", evidence.causes);
    add("note: ", log.notes);
    const std::pair<std::uint64_t, std::string_view> counts[] = {
        {log.cut_lines, "longer than 16 KiB: the rest was not read"},
        {log.repeated_lines, "left out by Ray as repetitions: set RAY_DEDUP_LOGS=0 to see all"},
        {log.unread_lines, "of NCCL not understood (cut, mixed with others, or of an unknown form): not counted"}};
    for (const auto& [lines, what] : counts) {
        text += lines == 0 ? "" : folded(format_text("note: {} {}", format_count(lines, "line"), what));
    }
    if (log.truncated) {
        text += folded("the log names more processes or devices than are kept: what is above is not all");
    }
    return text + (verdict.verdict == Verdict::Unknown && all_read ? log_hint(evidence) : "");
}

Error error_of(const std::string& name, int number) {
    const char* const hint = number == EISDIR ? ": name the files in it" : "";
    return {format_text("{}: {}{}", printable(name), std::strerror(number), hint), number};
}

/// Fills the block as far as the file goes. Returns the number of bytes. An error behind them comes again.
Result<std::size_t> read_block(int descriptor, std::string& block) {
    std::size_t size = 0;
    ssize_t count = 1;
    while (count > 0 && size < block.size()) {
        count = ::read(descriptor, block.data() + size, block.size() - size);
        size += count > 0 ? static_cast<std::size_t>(count) : 0;
    }
    return count < 0 && size == 0 ? Result<std::size_t>(fail("", errno)) : size;
}

Result<void> read_descriptor(int descriptor, const std::string& name, NcclLogReader& reader) {
    constexpr std::size_t block_size = std::size_t{256} << 10;
    const auto with_name = [&](const Error& error) {
        return fail(format_text("{}: {}", printable(name), error.message));
    };
    const auto sink = [&](std::string_view bytes) { reader.read(bytes); };
    std::string block(block_size, '\0');
    std::unique_ptr<Decompressor> decompressor;
    for (bool first = true;; first = false) {
        const auto size = read_block(descriptor, block);
        if (!size) {
            return tl::unexpected(error_of(name, size.error().os_error));
        }
        const auto bytes = std::string_view(block).substr(0, *size);
        if (first) {
            auto opened = Decompressor::open(bytes);
            if (!opened) {
                return with_name(opened.error());
            }
            decompressor = std::move(*opened);
        }
        if (!decompressor) {
            reader.read(bytes);
        } else if (const auto done = *size > 0 ? decompressor->read(bytes, sink) : decompressor->finish(); !done) {
            return with_name(done.error());
        }
        if (*size == 0) {
            return {};
        }
    }
}

/// The files that were read. The same file under two names, or as standard input, is read once.
using ReadFiles = std::map<std::pair<dev_t, ino_t>, std::string>;

Result<void> read_file(const std::string& name, NcclLogReader& reader, ReadFiles& files) {
    const bool is_input = name == "-";
    const std::string shown = is_input ? "standard input" : name;
    const UniqueFd file(is_input ? -1 : ::open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
    const int descriptor = is_input ? STDIN_FILENO : file.get();
    struct stat status {};
    if (descriptor < 0 || ::fstat(descriptor, &status) != 0) {
        return tl::unexpected(error_of(shown, errno));
    }
    const auto [known, is_new] = files.emplace(std::pair(status.st_dev, status.st_ino), shown);
    if (!is_new) {
        print_error(
            format_text("warning: {} is given twice{}: read once", printable(shown),
                        known->second == shown ? "" : format_text(" (it is {} too)", printable(known->second))));
        return {};
    }
    return read_descriptor(descriptor, shown, reader);
}

JudgedLog judge(NcclLog log, bool all_read) {
    JudgedLog judged{std::move(log), {}, {}, all_read};
    judged.evidence = summary(judged.log);
    judged.verdict = judge_log(judged.evidence);
    auto& verdict = judged.verdict;
    if (!all_read && judged.log.lines == 0) {
        verdict.why = {"no log could be read"};
    } else if (!all_read) {
        // The unread rest may show the opposite; only MIXED is true in any case.
        verdict.verdict = verdict.verdict == Verdict::Mixed ? Verdict::Mixed : Verdict::Unknown;
        verdict.why.emplace_back("not all of the logs could be read");
    }
    return judged;
}

} // namespace

int verify_log(const VerifyOptions& options) {
    NcclLogReader reader;
    ReadFiles files;
    bool all_read = true;
    for (const auto& name : options.logs) {
        const auto done = read_file(name, reader, files);
        reader.end_of_file();
        if (!done) {
            print_error(done.error().message);
            all_read = false;
        }
    }
    const auto judged = judge(reader.finish(), all_read);
    print_out(options.json ? log_json(judged).dump(2) + "\n" : log_text(judged, options.all));
    return exit_code_of(judged.verdict.verdict);
}

} // namespace rdma_nccl
