// SPDX-License-Identifier: Apache-2.0
#include "tools/run_line_socket.h"

#include <array>
#include <cerrno>
#include <sys/socket.h>

namespace rdma_nccl {

namespace {

/// More than a world of launchers says in the time that a connection may be silent.
constexpr std::size_t most_unsent = std::size_t{16} << 20;

/// In one call: whoever sends fast must not keep all others waiting.
constexpr int most_reads = 16;

} // namespace

bool LineSocket::receive() {
    std::array<char, 65536> bytes{};
    for (int i = 0; i < most_reads; ++i) {
        const auto count = ::recv(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
        if (count < 0) {
            return errno == EAGAIN || errno == EINTR;
        }
        if (count == 0) {
            return false;
        }
        received_.append(bytes.data(), static_cast<std::size_t>(count));
        if (received_.size() - (received_.rfind('\n') + 1) > longest_) { // npos + 1 is 0
            return false;
        }
    }
    return true;
}

std::optional<std::string> LineSocket::next_line() {
    const auto end = received_.find('\n');
    if (end == std::string::npos) {
        return std::nullopt;
    }
    std::string line = received_.substr(0, end);
    received_.erase(0, end + 1);
    return line;
}

bool LineSocket::send(std::string_view lines) {
    unsent_ += lines;
    while (!unsent_.empty()) {
        const auto count = ::send(socket_.get(), unsent_.data(), unsent_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
        if (count < 0) {
            return (errno == EAGAIN || errno == EINTR) && unsent_.size() <= most_unsent;
        }
        unsent_.erase(0, static_cast<std::size_t>(count));
    }
    return true;
}

} // namespace rdma_nccl
