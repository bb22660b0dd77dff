// SPDX-License-Identifier: Apache-2.0
#include "lib/base/format.h"
#include "lib/base/text.h"
#include "lib/net/child_value.h"
#include "tools/check/inspect.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <sys/statvfs.h>

namespace rdma_nccl::check {

std::optional<ProcessLimit> parse_limit(std::string_view limits, std::string_view name) {
    for (const auto line : split(limits, '\n')) {
        if (!line.starts_with(name)) {
            continue;
        }
        const auto words = split_words(line.substr(name.size()));
        if (words.size() < 2) {
            return std::nullopt;
        }
        return ProcessLimit{parse_number<std::uint64_t>(words[0]), parse_number<std::uint64_t>(words[1])};
    }
    return std::nullopt;
}

namespace {

constexpr std::size_t limits_size = 8192;

/// Checks the real user, the first number of "Uid:  0  0  0  0" (proc_pid_status(5)). The effective user does not
/// suffice: a user may start a set-user-ID program under any name; its effective user is 0, and root owns its files in
/// /proc.
bool is_started_by_root(const SysRoot& root, std::string_view process) {
    const auto text = root.read(format_text("/proc/{}/status", process)).value_or("");
    for (const auto line : split(text, '\n')) {
        if (line.starts_with("Uid:")) {
            const auto words = split_words(line);
            return words.size() > 1 && words[1] == "0";
        }
    }
    return false;
}

} // namespace

std::optional<std::string> find_slurmd(const SysRoot& root) {
    for (const auto& name : root.list("/proc").value_or(std::vector<std::string>{})) {
        if (parse_number<unsigned>(name) &&
            root.read(format_text("/proc/{}/comm", name), 32).value_or("") == "slurmd" &&
            is_started_by_root(root, name)) {
            return name;
        }
    }
    return std::nullopt;
}

namespace {

void read_limits_of(const SysRoot& root, const std::string& process, std::string whose, LimitFacts& facts) {
    const auto text = root.read(format_text("/proc/{}/limits", process), limits_size);
    if (!text) {
        return;
    }
    const auto memlock = parse_limit(*text, "Max locked memory");
    const auto files = parse_limit(*text, "Max open files");
    if (memlock && files) {
        facts.known = true;
        facts.whose = std::move(whose);
        facts.memlock = *memlock;
        facts.open_files = *files;
    }
}

/// Runs statvfs() in a child, because the file system may hang.
void inspect_shm(LimitFacts& facts) {
    constexpr std::chrono::milliseconds limit(1000);
    const auto free_mib = []() -> std::string { // empty: not mounted; else the number, or the error
        struct statvfs status {};
        if (::statvfs("/dev/shm", &status) != 0) {
            return errno == ENOENT ? "" : std::strerror(errno);
        }
        return status.f_blocks > 0
                   ? format_text("{}", static_cast<std::uint64_t>(status.f_bavail) * status.f_frsize >> 20U)
                   : "";
    };
    auto child = ChildText::start(free_mib, {}, Inherit::Few);
    const auto text = child ? child->finish(std::chrono::steady_clock::now() + limit) : std::nullopt;
    if (!text) {
        facts.shm_problem = format_text("does not answer within {} ms", limit.count());
        return;
    }
    facts.shm_mib = parse_number<std::uint64_t>(*text);
    facts.shm_known = text->empty() || facts.shm_mib;
    facts.shm_problem = facts.shm_known ? "" : *text;
}

} // namespace

void inspect_limits(const SysRoot& root, const Environment& environment, Facts& facts) {
    if (!root.is_live()) {
        return;
    }
    facts.limits.of_step = environment.get("SLURM_STEP_ID").has_value();
    if (facts.limits.of_step) {
        read_limits_of(root, "self", "this step", facts.limits);
    } else {
        const auto slurmd = find_slurmd(root);
        if (slurmd) {
            read_limits_of(root, *slurmd, "slurmd", facts.limits);
        }
        if (!facts.limits.known) {
            read_limits_of(root, "self", "this process", facts.limits);
        }
    }
    inspect_shm(facts.limits);
}

} // namespace rdma_nccl::check
