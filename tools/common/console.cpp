// SPDX-License-Identifier: Apache-2.0
#include "tools/common/console.h"

#include "lib/base/format.h"

#include <cerrno>
#include <climits>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

namespace rdma_nccl {

Console::Console(int fd) : fd_(fd) {
    struct stat status {};
    if (::fstat(fd, &status) != 0) {
        return;
    }
    if (S_ISSOCK(status.st_mode)) {
        kind_ = Kind::Socket;
    } else if (S_ISFIFO(status.st_mode) || ::isatty(fd) == 1) {
        own_.reset(::open(format_text("/proc/self/fd/{}", fd).c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
        kind_ = own_ ? Kind::NonBlocking : Kind::Polled;
        fd_ = own_ ? own_.get() : fd;
    }
}

/// Returns the next bytes to write. For a pipe these are as many whole lines as fit into one atomic write (PIPE_BUF,
/// pipe(7)), so that lines stay whole if other processes also write to the pipe.
std::string_view Console::next_block() const {
    const auto rest = std::string_view(lines_).substr(written_);
    if (kind_ == Kind::File || kind_ == Kind::Socket || rest.size() <= PIPE_BUF) {
        return rest;
    }
    const auto end = rest.rfind('\n', PIPE_BUF - 1);
    return rest.substr(0, end == std::string_view::npos ? PIPE_BUF : end + 1);
}

ssize_t Console::write_block(std::string_view block) const {
    if (kind_ == Kind::Socket) {
        return ::send(fd_, block.data(), block.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    pollfd entry{fd_, POLLOUT, 0};
    if (kind_ == Kind::Polled && ::poll(&entry, 1, 0) <= 0) {
        errno = EAGAIN;
        return -1;
    }
    return ::write(fd_, block.data(), block.size());
}

std::optional<int> Console::write_pending() {
    if (torn_ && pending()) {
        lines_.insert(lines_.begin(), '\n'); // nothing of lines_ has been written yet
        torn_ = false;
    }
    while (pending()) {
        const auto count = write_block(next_block());
        if (count > 0) {
            written_ += static_cast<std::size_t>(count);
            within_line_ = lines_[written_ - 1] != '\n';
        } else if (count < 0 && errno == EAGAIN) {
            break;
        } else if (count < 0 && errno != EINTR) {
            const int error = errno;
            torn_ = within_line_;
            lines_.clear();
            written_ = 0;
            return error;
        }
    }
    if (!pending() || written_ >= most_pending) {
        lines_.erase(0, written_);
        written_ = 0;
    }
    return std::nullopt;
}

bool same_file(int a, int b) {
    struct stat first {};
    struct stat second {};
    return ::fstat(a, &first) == 0 && ::fstat(b, &second) == 0 && first.st_dev == second.st_dev &&
           first.st_ino == second.st_ino;
}

} // namespace rdma_nccl
