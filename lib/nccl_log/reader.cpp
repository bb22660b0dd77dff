// SPDX-License-Identifier: Apache-2.0
#include "lib/nccl_log/reader.h"

#include "lib/nccl_log/messages.h"

#include <algorithm>
#include <cstring>
#include <functional>

namespace rdma_nccl {

struct NcclLogReader::State {
    NcclLog log;
    std::vector<LogProcess> processes; ///< in the order of first appearance
    /// The index of a process, by pid and host.
    std::map<std::uint32_t, std::map<std::string, std::size_t, std::less<>>> by_pid;
    std::size_t last = 0; ///< index of the process of the last message
    NcclNames versions;   ///< of all processes, and from lines that name none
    NameBudget budget;
    std::string pending;   ///< a line whose end has not arrived
    bool overlong = false; ///< the pending line has exceeded the limit
    std::string plain;     ///< a line with the colours removed

    LogProcess* find(std::string_view host, std::uint32_t pid);
    LogProcess* find_or_add(const NcclMessage& message);
    void take_line(std::string_view line, bool cut);
    void take_message(const NcclMessage& message, bool cut);
    void take_pending(bool cut);
};

LogProcess* NcclLogReader::State::find(std::string_view host, std::uint32_t pid) {
    if (last >= processes.size() || !processes[last].is(host, pid)) {
        const auto hosts = by_pid.find(pid);
        if (hosts == by_pid.end() || !hosts->second.contains(host)) {
            return nullptr;
        }
        last = hosts->second.find(host)->second;
    }
    return &processes[last];
}

/// Returns the process of a message, or nullptr if it is unknown and cannot be added. A message that follows another
/// one on its line may show too long a host name. It counts only for a known process.
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
    if (processes.size() >= NcclLog::most_processes) {
        log.truncated = true;
        return nullptr;
    }
    last = processes.size();
    by_pid[message.pid].emplace(message.host, last);
    return &processes.emplace_back(message.host, message.pid);
}

void NcclLogReader::State::take_message(const NcclMessage& message, bool cut) {
    const auto version = cut ? std::nullopt : parse_version(message.text);
    if (message.host.empty() && version) {
        budget.add(versions, *version);
        return;
    }
    ++log.nccl_lines;
    log.info_lines += message.warning ? 0 : 1;
    LogProcess* const process = message.host.empty() ? nullptr : find_or_add(message);
    if (process == nullptr) {
        return;
    }
    if (version) {
        budget.add(versions, *version);
        process->take_version(*version);
    } else {
        process->take(message, cut, budget);
    }
}

/// `cut`: the end of the line is missing.
void NcclLogReader::State::take_line(std::string_view line, bool cut) {
    ++log.lines;
    auto rest = line;
    auto message = next_nccl_message(rest, true);
    if (message && std::memchr(line.data(), '\x1b', line.size()) != nullptr) {
        rest = without_colours(line, plain);
        message = next_nccl_message(rest, true);
    }
    while (message) {
        take_message(*message, message->torn || cut);
        message = next_nccl_message(rest, false);
    }
}

void NcclLogReader::State::take_pending(bool cut) {
    if (!pending.empty()) {
        take_line(pending, cut);
        pending.clear();
        overlong = false;
    }
}

NcclLogReader::NcclLogReader() : state_(std::make_unique<State>()) {}
NcclLogReader::~NcclLogReader() = default;

void NcclLogReader::read(std::string_view bytes) {
    auto& pending = state_->pending;
    while (!bytes.empty()) {
        const auto size = std::min(bytes.find('\n'), bytes.size());
        const bool whole = size < bytes.size();
        const auto part = bytes.substr(0, size);
        if (whole && pending.empty()) {
            state_->take_line(part.substr(0, NcclLog::longest_line), part.size() > NcclLog::longest_line);
        } else {
            const auto free = NcclLog::longest_line - pending.size();
            state_->overlong = state_->overlong || part.size() > free;
            pending.append(part.substr(0, free));
            if (whole) {
                state_->take_pending(state_->overlong);
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
    log.processes.reserve(state_->processes.size());
    for (auto& process : state_->processes) {
        log.processes.push_back(process.finish(log.version));
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
