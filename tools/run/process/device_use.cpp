// SPDX-License-Identifier: Apache-2.0
#include "tools/run/process/device_use.h"

#include "lib/base/format.h"
#include "lib/base/text.h"
#include "lib/base/unique_fd.h"
#include "lib/slurm/step_processes.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <fcntl.h>
#include <optional>
#include <set>
#include <string_view>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace rdma_nccl::run {

namespace {

constexpr std::string_view shm = "/dev/shm";
constexpr std::string_view segment_prefix = "nccl-";

UniqueFd open_directory(int parent, const char* name) {
    return UniqueFd(::openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
}

/// Calls `visit` with each name in a directory until it returns false. Uses getdents64(2), because there are thousands
/// of small directories, and opendir(3) allocates 32 KiB for each.
template<typename Visit>
void for_each_name(const UniqueFd& directory, Visit visit) {
    struct Entry { // linux_dirent64
        std::uint64_t inode;
        std::int64_t offset;
        std::uint16_t length;
        std::uint8_t type;
        char name[]; // NOLINT: layout of the kernel
    };
    alignas(Entry) std::array<char, 8192> buffer; // NOLINT(*-member-init): filled before it is read
    for (;;) {
        const auto size = directory ? ::syscall(SYS_getdents64, directory.get(), buffer.data(), buffer.size()) : -1;
        if (size <= 0) {
            return;
        }
        for (long at = 0; at < size;) {
            const auto* const entry = reinterpret_cast<const Entry*>(buffer.data() + at);
            at += entry->length;
            if (!visit(static_cast<const char*>(entry->name))) {
                return;
            }
        }
    }
}

/// Calls `visit` with each pid and its open descriptor directory, which is empty if it may not be read.
template<typename Visit>
void for_each_process_of_user(const SysRoot& root, Visit visit) {
    const auto proc = open_directory(root.descriptor(), "proc");
    const auto user = ::geteuid();
    for_each_name(proc, [&](const char* name) {
        const auto pid = parse_number<pid_t>(name);
        struct stat status {};
        if (pid && ::fstatat(proc.get(), name, &status, AT_SYMLINK_NOFOLLOW) == 0 && status.st_uid == user) {
            visit(*pid, open_directory(proc.get(), format_text("{}/fd", name).c_str()));
        }
        return true;
    });
}

/// Calls `visit` with the target of each descriptor's link until it returns false.
template<typename Visit>
void for_each_open_file(const UniqueFd& descriptors, Visit visit) {
    for_each_name(descriptors, [&](const char* name) {
        std::array<char, 256> target; // NOLINT(*-member-init): filled before it is read
        const auto size = ::readlinkat(descriptors.get(), name, target.data(), target.size());
        return size <= 0 || visit(std::string_view(target.data(), static_cast<std::size_t>(size)));
    });
}

/// Erases the names of the segments that the process has mapped. Lines of the map end in the path, which "(deleted)"
/// may follow.
void erase_mapped(const SysRoot& root, pid_t pid, std::set<std::string>& names) {
    constexpr std::size_t most = 16 << 20;
    const auto maps = root.read(format_text("/proc/{}/maps", pid), most).value_or("");
    const std::string wanted = format_text("{}/{}", shm, segment_prefix);
    for (auto at = maps.find(wanted); at != std::string::npos; at = maps.find(wanted, at + 1)) {
        const auto start = at + shm.size() + 1;
        names.erase(maps.substr(start, maps.find_first_of(" \n", start) - start));
    }
}

void erase_used(const SysRoot& root, std::set<std::string>& names) {
    for_each_process_of_user(root, [&](pid_t pid, const UniqueFd& descriptors) {
        if (names.empty()) {
            return;
        }
        for_each_open_file(descriptors, [&](std::string_view file) {
            if (file.starts_with(shm)) {
                names.erase(std::string(base_name(file)));
            }
            return !names.empty();
        });
        erase_mapped(root, pid, names);
    });
}

} // namespace

std::string process_name(const SysRoot& root, pid_t pid) {
    return printable(root.read(format_text("/proc/{}/comm", pid), 64).value_or(""));
}

std::vector<pid_t> find_device_processes(const SysRoot& root, std::span<const std::string> device_files) {
    std::vector<pid_t> processes;
    if (device_files.empty()) {
        return processes;
    }
    const auto ancestors = ancestors_of(root, ::getpid());
    for_each_process_of_user(root, [&](pid_t pid, const UniqueFd& descriptors) {
        if (pid == ::getpid() || std::ranges::count(ancestors, pid) > 0) {
            return;
        }
        bool holds = false;
        for_each_open_file(descriptors, [&](std::string_view file) {
            holds = std::ranges::count(device_files, file) > 0;
            return !holds;
        });
        if (holds && !process_name(root, pid).starts_with("nvidia-")) {
            processes.push_back(pid);
        }
    });
    std::ranges::sort(processes);
    return processes;
}

LeftSegments find_left_segments(const SysRoot& root) {
    constexpr std::time_t new_seconds = 60; ///< a new segment may not be mapped yet
    const auto directory = open_directory(root.descriptor(), "dev/shm");
    const auto size_of = [&directory](const char* name, std::time_t before) -> std::optional<std::uint64_t> {
        struct stat status {};
        const bool ours = ::fstatat(directory.get(), name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
                          S_ISREG(status.st_mode) && status.st_uid == ::geteuid() && status.st_mtime < before;
        return ours ? std::optional(static_cast<std::uint64_t>(status.st_blocks) * 512) : std::nullopt;
    };
    const auto before = std::time(nullptr) - new_seconds;
    LeftSegments left;
    std::set<std::string> unused;
    std::size_t all = 0;
    for_each_name(directory, [&](const char* name) {
        if (std::string_view(name).starts_with(segment_prefix)) {
            ++all;
            if (size_of(name, before)) {
                unused.emplace(name);
            }
        }
        return true;
    });
    if (!unused.empty()) {
        erase_used(root, unused);
    }
    for (const auto& name : unused) {
        left.bytes += size_of(name.c_str(), before).value_or(0);
        left.names.push_back(name);
    }
    left.others = all > unused.size();
    return left;
}

} // namespace rdma_nccl::run
