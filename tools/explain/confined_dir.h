// SPDX-License-Identifier: Apache-2.0
// Writes a tree below one directory, whatever names and links come. Nothing outside can be reached, and no existing
// link is followed (openat2(2): RESOLVE_BENEATH, RESOLVE_NO_SYMLINKS; Linux 5.6).
#pragma once

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

#include <string>
#include <string_view>

namespace rdma_nccl {

class ConfinedDir {
public:
    /// Creates the directory, accessible only to its owner, or takes an empty one that belongs to this user. Fails
    /// otherwise.
    static Result<ConfinedDir> create(const std::string& directory);

    /// These functions take paths relative to the directory, e.g. "sys/class/net", and create missing parents. They
    /// fail with the system's reason.
    [[nodiscard]] Result<bool> make_directory(std::string_view path) const;
    /// Replaces an existing file or empty directory by a new file; does not write into the old file.
    [[nodiscard]] Result<bool> write_file(std::string_view path, std::string_view content) const;
    /// Creates an empty directory; removes a file of that name first.
    [[nodiscard]] Result<bool> replace_by_directory(std::string_view path) const;
    /// Does nothing if the name exists.
    [[nodiscard]] Result<bool> make_link(std::string_view path, const std::string& target) const;
    [[nodiscard]] bool exists(std::string_view path) const;

    /// Removes everything written, and the directory itself if create() made it.
    void remove() const;

private:
    ConfinedDir(std::string path, UniqueFd fd, bool made) : path_(std::move(path)), fd_(std::move(fd)), made_(made) {}
    [[nodiscard]] Result<UniqueFd> open_parent(std::string_view path) const;

    std::string path_;
    UniqueFd fd_;
    bool made_ = false;
};

} // namespace rdma_nccl
