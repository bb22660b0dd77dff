// SPDX-License-Identifier: Apache-2.0
// Where the ranks' files are: torchrun's layout (torch, distributed/elastic), in a directory that is new each time.
#pragma once

#include "lib/result.h"
#include "lib/unique_fd.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace rdma_nccl {

/// Any text as one component of a path: bytes other than letters, digits, '.', '_' and '-' become '_', as a leading '.'
/// or '-' does; 64 bytes at most; "none" for an empty one.
std::string safe_file_name(std::string_view text);

/// Makes PARENT/RUN_ID_HOST_XXXXXX, the X being what no other has, and PARENT itself when it is absent; only this user
/// may read it. Returns its path.
Result<std::string> make_log_directory(const std::string& parent, std::string_view run_id, std::string_view host);

/// Makes LOG_DIRECTORY/attempt_N; 0 is the first start. Returns its path.
Result<std::string> make_attempt_directory(const std::string& log_directory, unsigned attempt);

/// Makes ATTEMPT_DIRECTORY/LOCAL_RANK, or takes the one there is. Returns its path.
Result<std::string> make_rank_directory(const std::string& attempt_directory, unsigned local_rank);

/// A directory of this user's alone, removed with all that is in it.
class PrivateDirectory {
public:
    /// Below `parent`.
    static Result<PrivateDirectory> create(const std::string& parent);
    PrivateDirectory(PrivateDirectory&& other) noexcept : path_(std::exchange(other.path_, {})) {}
    PrivateDirectory(const PrivateDirectory&) = delete;
    PrivateDirectory& operator=(const PrivateDirectory&) = delete;
    PrivateDirectory& operator=(PrivateDirectory&&) = delete;
    ~PrivateDirectory();

    [[nodiscard]] const std::string& path() const { return path_; }

private:
    explicit PrivateDirectory(std::string path) : path_(std::move(path)) {}
    std::string path_;
};

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
