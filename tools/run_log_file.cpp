// SPDX-License-Identifier: Apache-2.0
#include "tools/run_log_file.h"

#include "lib/format.h"
#include "lib/text.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace rdma_nccl {

Result<LogFile> LogFile::create(std::string path) {
    // Readable too: the end of a file that a rank writes itself is read through it. O_APPEND: a user may cut it short.
    UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666));
    if (!fd) {
        return fail(format_text("cannot create {}: {}", printable(path, 4096), ::strerror(errno)), errno);
    }
    return LogFile(std::move(fd), std::move(path));
}

std::optional<int> LogFile::write(std::string_view bytes) const {
    while (!bytes.empty()) {
        const auto count = ::write(fd_.get(), bytes.data(), bytes.size());
        if (count > 0) {
            bytes.remove_prefix(static_cast<std::size_t>(count));
        } else if (count == 0 || errno != EINTR) {
            return count == 0 ? ENOSPC : errno;
        }
    }
    return std::nullopt;
}

std::uint64_t file_size(int fd) {
    struct stat status {};
    return ::fstat(fd, &status) == 0 ? static_cast<std::uint64_t>(status.st_size) : 0;
}

std::string read_end(int fd, std::size_t count) {
    const auto size = file_size(fd);
    std::string bytes(std::min<std::uint64_t>(size, count), '\0');
    const auto got = ::pread(fd, bytes.data(), bytes.size(), static_cast<off_t>(size - bytes.size()));
    bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return bytes;
}

} // namespace rdma_nccl
