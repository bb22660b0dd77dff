// SPDX-License-Identifier: Apache-2.0
// Files whose open(2) never returns, as of a driver that hangs: made with fanotify(7), which needs root.
#pragma once

#include "lib/base/unique_fd.h"

#include <fcntl.h>
#include <string>
#include <sys/fanotify.h>
#include <vector>

namespace rdma_nccl::test {

/// Whoever opens one of the files waits as long as this lives.
class Hang {
public:
    explicit Hang(const std::vector<std::string>& paths)
        : fd_(::fanotify_init(FAN_CLASS_CONTENT | FAN_CLOEXEC | FAN_NONBLOCK, O_RDONLY)) {
        for (const auto& path : paths) {
            works_ = fd_ && ::fanotify_mark(fd_.get(), FAN_MARK_ADD, FAN_OPEN_PERM, AT_FDCWD, path.c_str()) == 0;
            if (!works_) {
                return;
            }
        }
    }
    [[nodiscard]] bool works() const { return works_; }

private:
    UniqueFd fd_;
    bool works_ = false;
};

} // namespace rdma_nccl::test
