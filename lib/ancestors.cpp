// SPDX-License-Identifier: Apache-2.0
#include "lib/ancestors.h"

#include "lib/format.h"
#include "lib/text.h"

#include <algorithm>

namespace rdma_nccl {

namespace {

std::optional<pid_t> parent_of(const Root& root, pid_t pid) {
    const auto stat = root.read(format_text("/proc/{}/stat", pid), 4096).value_or("");
    const auto behind_name = stat.rfind(')'); // the name may hold anything
    if (behind_name == std::string::npos) {
        return std::nullopt;
    }
    const auto fields = split_words(std::string_view(stat).substr(behind_name + 1));
    return fields.size() > 1 ? parse_number<pid_t>(fields[1]) : std::nullopt;
}

} // namespace

std::vector<pid_t> ancestors_of(const Root& root, pid_t pid) {
    std::vector<pid_t> found;
    // Processes that end while this looks could make a circle of numbers that were given again.
    for (auto parent = parent_of(root, pid);
         parent && *parent > 0 && std::find(found.begin(), found.end(), *parent) == found.end();
         parent = parent_of(root, *parent)) {
        found.push_back(*parent);
    }
    return found;
}

std::optional<pid_t> process_of(const Root& root, pid_t thread) {
    // The command's name comes first there, with its newlines escaped (proc(5)).
    const auto status = root.read(format_text("/proc/{}/status", thread), 4096).value_or("");
    for (const auto line : split(status, '\n')) {
        if (constexpr std::string_view key = "Tgid:"; line.starts_with(key)) {
            return parse_number<pid_t>(trim(line.substr(key.size())));
        }
    }
    return std::nullopt;
}

std::optional<pid_t> step_daemon_above(const Root& root, pid_t pid) {
    for (const pid_t ancestor : ancestors_of(root, pid)) {
        if (trim(root.read(format_text("/proc/{}/comm", ancestor), 64).value_or("")) == "slurmstepd") {
            return ancestor;
        }
    }
    return std::nullopt;
}

} // namespace rdma_nccl
