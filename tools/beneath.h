// SPDX-License-Identifier: Apache-2.0
// Writing a tree below a directory of our own, whatever names and links come: nothing outside can be reached, nothing
// that is there is followed or overwritten (openat2(2): RESOLVE_BENEATH, RESOLVE_NO_SYMLINKS; Linux 5.6).
#pragma once

#include "lib/result.h"
#include "lib/unique_fd.h"

#include <string>
#include <string_view>

namespace rdma_nccl {

class Beneath {
public:
    /// Makes the directory, for its owner alone, or takes an empty one that is this user's. Fails otherwise.
    static Result<Beneath> create(const std::string& directory);

    /// These take paths from the directory on, "sys/class/net"; what is above is made. Fail with the system's reason.
    [[nodiscard]] Result<bool> make_directory(std::string_view path) const;
    /// A file that was there is replaced, not written to; a directory that is empty, too.
    [[nodiscard]] Result<bool> write_file(std::string_view path, std::string_view content) const;
    /// A file gives way to an empty directory.
    [[nodiscard]] Result<bool> replace_by_directory(std::string_view path) const;
    /// Nothing happens where there is something already.
    [[nodiscard]] Result<bool> make_link(std::string_view path, const std::string& target) const;
    [[nodiscard]] bool exists(std::string_view path) const;

    /// Removes what was written, and the directory, if create() made it.
    void remove() const;

private:
    Beneath(std::string path, UniqueFd fd, bool made) : path_(std::move(path)), fd_(std::move(fd)), made_(made) {}
    [[nodiscard]] Result<UniqueFd> open_parent(std::string_view path) const;

    std::string path_;
    UniqueFd fd_;
    bool made_ = false;
};

} // namespace rdma_nccl
