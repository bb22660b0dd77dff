// SPDX-License-Identifier: Apache-2.0
#include "lib/nccl_log/directory.h"

#include "lib/base/format.h"
#include "lib/base/unique_fd.h"
#include "lib/nccl_log/reader.h"
#include "lib/sys/sysroot.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace rdma_nccl {

namespace {

constexpr std::size_t most_of_a_log = std::size_t{64} << 20; // per rank; the connections are near its start
constexpr std::size_t most_of_all = std::size_t{256} << 20;  // takes about a second
constexpr std::size_t most_files = 1024;

/// Returns nullopt if the directory does not belong to this user any more: in /tmp another user may have replaced it.
std::optional<UniqueFd> open_own(const std::string& directory) {
    UniqueFd fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    struct stat status {};
    const bool own = fd && ::fstat(fd.get(), &status) == 0 && status.st_uid == ::geteuid();
    return own ? std::optional(std::move(fd)) : std::nullopt;
}

/// Returns the names of the logs that NCCL_DEBUG_FILE produces, and no other files.
std::vector<std::string> logs_in(int directory) {
    std::vector<std::string> names;
    for (const auto& name : Directory(UniqueFd(::dup(directory))).list().value_or(std::vector<std::string>{})) {
        if (name.starts_with("nccl.") && name.ends_with(".log")) {
            names.push_back(name);
        }
    }
    return names;
}

/// Returns the number of bytes read.
std::size_t read_log(int directory, const std::string& name, std::size_t most, NcclLogReader& reader) {
    // The user's programs write here, so this may be any kind of file.
    const UniqueFd file(::openat(directory, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat status {};
    if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
        return 0;
    }
    std::array<char, 65536> buffer{};
    std::size_t total = 0;
    ssize_t count = 0;
    while (total < most && (count = ::read(file.get(), buffer.data(), buffer.size())) > 0) {
        reader.read({buffer.data(), static_cast<std::size_t>(count)});
        total += static_cast<std::size_t>(count);
    }
    reader.end_of_file();
    return total;
}

} // namespace

std::string make_log_directory(std::uint32_t job_id, std::uint32_t step_id) {
    std::string path = format_text("/tmp/rdma-nccl-{}.{}-XXXXXX", job_id, step_id);
    return ::mkdtemp(path.data()) != nullptr ? path : std::string();
}

std::optional<LogEvidence> read_log_directory(const std::string& path) {
    const auto directory = path.empty() ? std::nullopt : open_own(path);
    if (!directory) {
        return std::nullopt;
    }
    NcclLogReader reader;
    std::size_t files = 0;
    std::size_t left = most_of_all;
    for (const auto& name : logs_in(directory->get())) {
        if (files++ == most_files || left == 0) {
            break;
        }
        left -= std::min(left, read_log(directory->get(), name, std::min(left, most_of_a_log), reader));
    }
    auto log = summary(reader.finish());
    return log.ranks > 0 ? std::optional(std::move(log)) : std::nullopt;
}

void remove_log_directory(const std::string& path) {
    const auto directory = open_own(path);
    if (!directory) {
        return;
    }
    for (const auto& name : logs_in(directory->get())) {
        (void)::unlinkat(directory->get(), name.c_str(), 0);
    }
    (void)::rmdir(path.c_str()); // fails if the user has put something else into it
}

} // namespace rdma_nccl
