// SPDX-License-Identifier: Apache-2.0
#include "lib/nccl_log/reader.h"

#include "lib/base/text.h"
#include "lib/nccl_log/messages.h"

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

namespace rdma_nccl {

constexpr std::size_t longest_quote = 200; // of a warning
/// In a copy of a terminal's window, blanks up to its edge stand where a line ended. No message has so many.
constexpr std::string_view padding = "                ";

/// Returns where the first padding begins, or the size of the line. Looks only at every 16th character: any 16 blanks
/// in a row include one of these.
static std::size_t find_padding(std::string_view line) {
    for (auto at = padding.size() - 1; at < line.size(); at += padding.size()) {
        const auto begin = line[at] == ' ' ? line.find_last_not_of(' ', at) + 1 : line.size(); // npos + 1 is 0
        if (begin < line.size() && line.substr(begin).starts_with(padding)) {
            return begin;
        }
    }
    return line.size();
}

/// Returns what follows a number that a program printed in front of a host: "n01" of "-1n01"; empty without a number.
static std::string_view behind_number(std::string_view host) {
    host.remove_prefix(host.starts_with('-') ? 1 : 0);
    const auto digits = std::min(host.find_first_not_of("0123456789"), host.size());
    return host.substr(digits > 0 ? digits : host.size());
}

struct NcclLogReader::State {
    NcclLog log;
    std::vector<LogProcess> processes; ///< in the order of first appearance
    /// The index of a process, by pid and host.
    std::map<std::uint32_t, std::map<std::string, std::size_t, std::less<>>> by_pid;
    /// The index of a process whose host begins with a number, by its host without it: the number may be another's.
    std::map<std::pair<std::uint32_t, std::string>, std::size_t> numbered;
    std::size_t last = 0; ///< index of the process of the last message
    NcclNames versions;   ///< of all processes, and from lines that name none
    NameBudget budget;
    std::string pending;              ///< a line whose end has not arrived
    bool overlong = false;            ///< the pending line has exceeded the limit
    std::array<std::string, 3> plain; ///< a line without what was around it: JSON in the JSON of a container's log

    LogProcess* find(std::string_view host, std::uint32_t pid);
    LogProcess* find_or_add(const NcclMessage& message);
    void take_line(std::string_view line, bool cut, std::size_t wrappers = 0);
    void take_messages(std::string_view line, bool cut);
    void take_message(const NcclMessage& message, bool cut);
    void append_pending(std::string_view part);
    void take_pending(bool cut);
};

LogProcess* NcclLogReader::State::find(std::string_view host, std::uint32_t pid) {
    if (last >= processes.size() || !processes[last].is(host, pid)) {
        const auto hosts = by_pid.find(pid);
        if (hosts == by_pid.end()) {
            return nullptr;
        }
        const auto found = hosts->second.find(host);
        if (found == hosts->second.end()) {
            return nullptr;
        }
        last = found->second;
    }
    return &processes[last];
}

/// Returns the process of a message, or nullptr if it is unknown and cannot be added. A message that follows another
/// one on its line may show too long a host name. It counts only for a known process. A number in front of the host of
/// a known process is what a program printed before NCCL's line. Messages that name no process are those of one
/// without host and pid.
LogProcess* NcclLogReader::State::find_or_add(const NcclMessage& message) {
    if (LogProcess* const found = find(message.host, message.pid)) {
        return found;
    }
    if (!message.first) {
        for (auto host = message.host; host.size() > 1;) {
            host.remove_prefix(1);
            if (LogProcess* const found = find(host, message.pid)) {
                return found;
            }
        }
        return nullptr;
    }
    const std::pair behind(message.pid, std::string(behind_number(message.host)));
    if (LogProcess* const found = behind.second.empty() ? nullptr : find(behind.second, message.pid)) {
        return found;
    }
    if (const auto earlier = numbered.find({message.pid, std::string(message.host)}); earlier != numbered.end()) {
        last = earlier->second;
        by_pid[message.pid].emplace(message.host, last);
        processes[last].rename(message.host);
        return &processes[last];
    }
    if (processes.size() >= NcclLog::most_processes) {
        log.truncated = true;
        return nullptr;
    }
    last = processes.size();
    by_pid[message.pid].emplace(message.host, last);
    if (!behind.second.empty()) {
        numbered.emplace(behind, last);
    }
    return &processes.emplace_back(message.host, message.pid);
}

void NcclLogReader::State::take_message(const NcclMessage& message, bool cut) {
    const auto version = cut ? std::nullopt : parse_version(message.text);
    if (version) {
        budget.add(versions, *version);
    }
    if (message.version) {
        return;
    }
    ++log.nccl_lines;
    log.info_lines += message.warning ? 0 : 1;
    LogProcess* const process = message.quoted ? nullptr : find_or_add(message);
    if (process == nullptr) {
        ++log.unread_lines;
    } else if (version) {
        process->take_version(*version);
    } else if (!process->take(message, cut, budget) && (log.last_warning.empty() || !is_of_proxy(message.text))) {
        log.last_warning = printable(trim(message.text), longest_quote);
    }
}

/// `cut`: the end of the line is missing. `wrappers`: how many were removed from it.
void NcclLogReader::State::take_line(std::string_view line, bool cut, std::size_t wrappers) {
    log.lines += wrappers == 0 ? 1 : 0;
    if (!may_have_message(line)) {
        return;
    }
    if (wrappers < plain.size() && may_be_wrapped(line)) {
        do {
            const auto parts = split(take_plain(line, plain.at(wrappers)), '\n');
            for (const auto& part : parts) {
                take_line(part, cut && &part == &parts.back(), wrappers + 1);
            }
        } while (may_have_message(line));
        return;
    }
    log.repeated_lines += take_repetition(line);
    cut = take_frame(line) || cut;
    for (bool more = true; more;) {
        const auto end = find_padding(line);
        more = end < line.size();
        take_messages(line.substr(0, end), cut && !more);
        line.remove_prefix(std::min(line.find_first_not_of(' ', end), line.size()));
    }
}

void NcclLogReader::State::take_messages(std::string_view line, bool cut) {
    auto message = next_nccl_message(line, true);
    while (message) {
        take_message(*message, message->torn || cut);
        message = next_nccl_message(line, false);
    }
}

/// Of a line beyond the limit, each part that a CR ends is a line: a progress bar writes itself anew after it.
void NcclLogReader::State::append_pending(std::string_view part) {
    while (!overlong && pending.size() + part.size() > NcclLog::longest_line) {
        const auto free = NcclLog::longest_line - pending.size();
        pending.append(part.substr(0, free));
        part.remove_prefix(free);
        const auto end = pending.rfind('\r', pending.size() - 2); // what is pending is not empty
        if (end == std::string::npos) {
            overlong = true;
            ++log.cut_lines;
        } else {
            take_line(std::string_view(pending).substr(0, end), false);
            pending.erase(0, end + 1);
        }
    }
    pending.append(overlong ? std::string_view() : part);
}

void NcclLogReader::State::take_pending(bool cut) {
    if (!pending.empty()) {
        take_line(pending, cut || overlong);
        pending.clear();
        overlong = false;
    }
}

NcclLogReader::NcclLogReader() : state_(std::make_unique<State>()) {}
NcclLogReader::~NcclLogReader() = default;

void NcclLogReader::read(std::string_view bytes) {
    while (!bytes.empty()) {
        const auto size = std::min(bytes.find('\n'), bytes.size());
        const bool whole = size < bytes.size();
        if (whole && state_->pending.empty() && size <= NcclLog::longest_line) {
            state_->take_line(bytes.substr(0, size), false);
        } else {
            state_->append_pending(bytes.substr(0, size));
            if (whole) {
                state_->take_pending(false);
            }
        }
        bytes.remove_prefix(size + (whole ? 1 : 0));
    }
}

void NcclLogReader::end_of_file() {
    state_->take_pending(true);
}

NcclLog NcclLogReader::finish() {
    end_of_file();
    NcclLog& log = state_->log;
    log.truncated = log.truncated || state_->budget.exhausted;
    log.version = state_->versions.size() == 1 ? *state_->versions.begin() : std::string();
    JobSigns job;
    for (const auto& process : state_->processes) {
        process.add_signs(job);
    }
    log.processes.reserve(state_->processes.size());
    for (auto& process : state_->processes) {
        log.processes.push_back(process.finish(log.version, job, log.notes));
        log.unread_lines += log.processes.back().unread_lines;
    }
    return std::move(log);
}

std::array<std::uint64_t, nccl_transports> NcclLog::connections() const {
    std::array<std::uint64_t, nccl_transports> sum{};
    for (const auto& process : processes) {
        std::ranges::transform(sum, process.connections, sum.begin(), std::plus<>());
    }
    return sum;
}

} // namespace rdma_nccl
