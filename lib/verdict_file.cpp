// SPDX-License-Identifier: Apache-2.0
#include "lib/verdict_file.h"

#include "lib/format.h"
#include "lib/unique_fd.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace rdma_nccl {

namespace {

bool write_all(int fd, std::string_view text) {
    while (!text.empty()) {
        const ssize_t count = ::write(fd, text.data(), text.size());
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count <= 0) {
            return false;
        }
        text.remove_prefix(static_cast<std::size_t>(count));
    }
    return true;
}

tl::unexpected<Error> not_saved(const std::string& path, int error) {
    return fail(format_text("{}: {}", path, std::strerror(error)), error);
}

} // namespace

Result<void> save_verdict(const std::string& directory, const std::string& name, std::string_view text) {
    const std::string path = format_text("{}/{}", directory, name);
    std::string draft = format_text("{}/.{}.XXXXXX", directory, name);
    const UniqueFd file(::mkostemp(draft.data(), O_CLOEXEC));
    if (!file) {
        return not_saved(directory, errno);
    }
    const bool written = write_all(file.get(), text) && ::fchmod(file.get(), 0644) == 0;
    const bool linked = written && ::link(draft.c_str(), path.c_str()) == 0; // unlike rename(2), never over a file
    const int error = errno;
    (void)::unlink(draft.c_str());
    return linked ? Result<void>() : not_saved(path, error);
}

} // namespace rdma_nccl
