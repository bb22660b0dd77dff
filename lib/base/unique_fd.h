// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <fcntl.h>
#include <optional>
#include <poll.h>
#include <span>
#include <string_view>
#include <unistd.h>
#include <utility>

namespace rdma_nccl {

/// Owns one file descriptor.
class UniqueFd {
public:
    UniqueFd() = default;
    explicit UniqueFd(int fd) : fd_(fd) {}
    UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    UniqueFd& operator=(UniqueFd&& other) noexcept {
        if (this != &other) {
            reset(std::exchange(other.fd_, -1));
        }
        return *this;
    }
    UniqueFd(const UniqueFd&) = delete;
    UniqueFd& operator=(const UniqueFd&) = delete;
    ~UniqueFd() { reset(); }

    [[nodiscard]] int get() const { return fd_; }
    [[nodiscard]] int release() { return std::exchange(fd_, -1); }
    explicit operator bool() const { return fd_ >= 0; }
    void reset(int fd = -1) {
        if (fd_ >= 0) {
            ::close(fd_);
        }
        fd_ = fd;
    }

private:
    int fd_ = -1;
};

/// Writes all of `text` with write(2). Returns false, with errno, on failure.
inline bool write_all(int fd, std::string_view text) {
    while (!text.empty()) {
        const ssize_t count = ::write(fd, text.data(), text.size());
        if (count > 0) {
            text.remove_prefix(static_cast<std::size_t>(count));
        } else if (count == 0 || errno != EINTR) {
            errno = count == 0 ? ENOSPC : errno;
            return false;
        }
    }
    return true;
}

/// Returns the time left for poll(2), but a minute at most: the caller looks at the time again. -1 without a deadline.
inline int milliseconds_until(std::optional<std::chrono::steady_clock::time_point> deadline) {
    if (!deadline) {
        return -1;
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline - std::chrono::steady_clock::now());
    return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60'000));
}

/// Like poll(2), until milliseconds_until() has passed.
inline int poll_until(std::span<pollfd> waiting, std::optional<std::chrono::steady_clock::time_point> deadline) {
    return ::poll(waiting.data(), waiting.size(), milliseconds_until(deadline));
}

struct Pipe {
    UniqueFd reader;
    UniqueFd writer;
};

/// Opens a pipe with pipe2(2) and these flags. Returns nullopt, with errno, on failure.
inline std::optional<Pipe> open_pipe(int flags = O_CLOEXEC) {
    std::array<int, 2> ends{};
    return ::pipe2(ends.data(), flags) == 0 ? std::optional(Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])}) : std::nullopt;
}

} // namespace rdma_nccl
