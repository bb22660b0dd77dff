// SPDX-License-Identifier: Apache-2.0
#include "lib/nccl_log_directory.h"

#include "lib/format.h"
#include "lib/nccl_log.h"
#include "lib/root.h"
#include "lib/unique_fd.h"

#include <array>
#include <cstdlib>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace rdma_nccl {

namespace {

constexpr std::size_t most_of_a_log = std::size_t{64} << 20; // of one rank; its connections come first

void read_log(const std::string& path, NcclLogReader& reader) {
    // The user's directory: what lies there may be anything.
    const UniqueFd file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat status {};
    if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
        return;
    }
    std::array<char, 65536> buffer{};
    std::size_t total = 0;
    ssize_t count = 0;
    while (total < most_of_a_log && (count = ::read(file.get(), buffer.data(), buffer.size())) > 0) {
        reader.read({buffer.data(), static_cast<std::size_t>(count)});
        total += static_cast<std::size_t>(count);
    }
    reader.end_of_file();
}

std::vector<std::string> files_in(const std::string& directory) {
    const auto root = Root::open("/");
    std::vector<std::string> paths;
    for (const auto& name : root ? root->list(directory).value_or(std::vector<std::string>{}) : paths) {
        paths.push_back(format_text("{}/{}", directory, name));
    }
    return paths;
}

} // namespace

std::string make_log_directory(std::uint32_t job_id, std::uint32_t step_id) {
    std::string path = format_text("/tmp/rdma-nccl-{}.{}-XXXXXX", job_id, step_id);
    return ::mkdtemp(path.data()) != nullptr ? path : std::string();
}

std::optional<LogEvidence> read_log_directory(const std::string& directory) {
    if (directory.empty()) {
        return std::nullopt;
    }
    NcclLogReader reader;
    for (const auto& path : files_in(directory)) {
        read_log(path, reader);
    }
    auto log = summary(reader.finish());
    return log.ranks > 0 ? std::optional(std::move(log)) : std::nullopt;
}

void remove_log_directory(const std::string& path) {
    for (const auto& file : files_in(path)) {
        (void)::unlink(file.c_str());
    }
    (void)::rmdir(path.c_str());
}

} // namespace rdma_nccl
