// SPDX-License-Identifier: Apache-2.0
// The reader of NCCL's logs. The input's first byte says how the rest is cut into pieces: however it is, the facts are
// the same; and they are few and fit for a terminal.
#include "lib/evidence/verdict.h"
#include "lib/nccl_log/reader.h"
#include "tests/fuzz/check.h"

#include <cstddef>
#include <cstdint>

using namespace rdma_nccl;
using fuzz::require;

namespace {

/// Pieces of `first` bytes, then more and fewer.
NcclLog read_log(std::string_view text, std::size_t first) {
    NcclLogReader reader;
    for (auto size = first; !text.empty(); size = size * 3 % 17 + 1) {
        reader.read(text.substr(0, size));
        text.remove_prefix(std::min(size, text.size()));
    }
    return reader.finish();
}

bool same(const NcclProcess& a, const NcclProcess& b) {
    return a.host == b.host && a.pid == b.pid && a.version == b.version && a.rank == b.rank && a.ranks == b.ranks &&
           a.nodes == b.nodes && a.networks == b.networks && a.hcas == b.hcas && a.gids == b.gids &&
           a.connections == b.connections && a.causes == b.causes && a.failed == b.failed && a.senders == b.senders &&
           a.receivers == b.receivers;
}

bool same(const NcclLog& a, const NcclLog& b) {
    return a.version == b.version && a.lines == b.lines && a.nccl_lines == b.nccl_lines &&
           a.info_lines == b.info_lines && a.unread_lines == b.unread_lines && a.cut_lines == b.cut_lines &&
           a.repeated_lines == b.repeated_lines && a.truncated == b.truncated && a.notes == b.notes &&
           a.last_warning == b.last_warning &&
           std::equal(a.processes.begin(), a.processes.end(), b.processes.begin(), b.processes.end(),
                      [](const NcclProcess& one, const NcclProcess& other) { return same(one, other); });
}

void check_names(const NcclNames& names) {
    require(names.size() <= NcclLog::most_names_of_a_process, "few names");
    fuzz::require_all_plain(names);
}

void check_process(const NcclProcess& process) {
    fuzz::require_plain(process.host);
    fuzz::require_plain(process.version);
    check_names(process.networks);
    check_names(process.hcas);
    check_names(process.gids);
    for (const auto& [cause, number] : process.causes) {
        fuzz::require_plain(cause);
        require(number > 0, "a cause was there", cause);
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 1) {
        return 0;
    }
    const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
    const auto whole = read_log(text, text.size() + 1);
    require(same(read_log(text, data[0] + 1U), whole), "the same facts from other pieces", text);
    require(whole.lines <= text.size(), "no more lines than bytes");
    require(whole.processes.size() <= whole.info_lines + whole.nccl_lines, "a process has said something");
    std::uint64_t connections = 0;
    for (const auto& process : whole.processes) {
        check_process(process);
    }
    for (const auto number : whole.connections()) {
        connections += number;
    }
    require(connections <= whole.info_lines, "a line is one connection");
    require(whole.unread_lines <= whole.nccl_lines, "what is not understood was there");
    fuzz::require_all_plain(whole.notes);
    fuzz::require_plain(whole.last_warning);
    const auto evidence = summary(whole);
    fuzz::require_all_plain(evidence.networks);
    fuzz::require_all_plain(judge_log(evidence).why);
    return 0;
}
