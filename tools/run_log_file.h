// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/result.h"
#include "lib/unique_fd.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rdma_nccl {

/// A rank's stdout.log or stderr.log.
class LogFile {
public:
    /// Makes it; fails when there is one.
    static Result<LogFile> create(std::string path);

    /// Appends all bytes. Returns the error when it does not take them; the next try may succeed.
    [[nodiscard]] std::optional<int> write(std::string_view bytes) const;
    [[nodiscard]] int fd() const { return fd_.get(); }
    [[nodiscard]] const std::string& path() const { return path_; }

private:
    LogFile(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
    UniqueFd fd_;
    std::string path_;
};

/// The last bytes of an open file, at most `count`.
std::string read_end(int fd, std::size_t count);
/// Its bytes; 0 where that cannot be told.
std::uint64_t file_size(int fd);

} // namespace rdma_nccl
