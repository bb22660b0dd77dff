// SPDX-License-Identifier: Apache-2.0
// The directories and files of the ranks, in torchrun's layout (torch, distributed/elastic), below a directory that is
// new for each job.
#pragma once

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

#include <string>
#include <string_view>
#include <utility>

namespace rdma_nccl::run {

/// Returns `text` as one component of a path: bytes other than letters, digits, '.', '_' and '-' become '_', and so
/// does a leading '.' or '-'; at most 64 bytes; "none" for an empty text.
std::string safe_file_name(std::string_view text);

/// Creates PARENT/RUN_ID_HOST_XXXXXX with a unique XXXXXX, and PARENT if it is absent. Only this user may read it.
/// Returns its path.
Result<std::string> make_log_directory(const std::string& parent, std::string_view run_id, std::string_view host);

/// Creates PARENT/NAME, or uses an existing one: LOG_DIRECTORY/attempt_N (0 is the first start), and in that
/// LOCAL_RANK. Returns its path.
Result<std::string> make_subdirectory(const std::string& parent, std::string_view name);

/// A directory that only this user can access. The destructor removes it with its content.
class PrivateDirectory {
public:
    /// Creates it below `parent`.
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
struct LogFile {
    UniqueFd fd;
    std::string path;

    /// Creates the file; fails if it exists.
    static Result<LogFile> create(std::string path);
};

} // namespace rdma_nccl::run
