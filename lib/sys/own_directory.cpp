// SPDX-License-Identifier: Apache-2.0
#include "lib/sys/own_directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <utility>

namespace rdma_nccl {

std::optional<UniqueFd> open_own_directory(const std::string& path, uid_t owner) {
    UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    struct stat status {};
    const bool own = fd && ::fstat(fd.get(), &status) == 0 && status.st_uid == owner;
    return own ? std::optional(std::move(fd)) : std::nullopt;
}

std::optional<UniqueFd> open_regular_file(int directory, const std::string& name) {
    UniqueFd fd(::openat(directory, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat status {};
    const bool regular = fd && ::fstat(fd.get(), &status) == 0 && S_ISREG(status.st_mode);
    return regular ? std::optional(std::move(fd)) : std::nullopt;
}

} // namespace rdma_nccl
