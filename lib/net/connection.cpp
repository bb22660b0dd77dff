// SPDX-License-Identifier: Apache-2.0
#include "lib/net/connection.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <sys/socket.h>

namespace rdma_nccl {

namespace {

bool is_passing(int code) {
    return code == EAGAIN || code == EINTR;
}

} // namespace

bool Connection::end(std::string why) {
    if (why_over_.empty()) {
        why_over_ = std::move(why);
    }
    return false;
}

bool Connection::read() {
    constexpr int most_reads = 4;
    std::array<char, 65536> bytes; // NOLINT(cppcoreguidelines-pro-type-member-init): recv(2) fills it
    for (int i = 0; i < most_reads; ++i) {
        const ssize_t count = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
        if (count < 0 && is_passing(errno)) {
            return true;
        }
        if (count <= 0) {
            return end(count == 0 ? "it has closed the connection" : std::strerror(errno));
        }
        if (!session_.receive({bytes.data(), static_cast<std::size_t>(count)})) {
            return end(session_.is_proven() ? "it breaks the protocol" : "it does not have the key of this step");
        }
        if (static_cast<std::size_t>(count) < bytes.size()) {
            return true;
        }
    }
    return true;
}

bool Connection::write() {
    for (auto bytes = session_.output(); !bytes.empty(); bytes = session_.output()) {
        const ssize_t count = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (count < 0) {
            return is_passing(errno) || end(std::strerror(errno));
        }
        session_.written(static_cast<std::size_t>(count));
    }
    return true;
}

} // namespace rdma_nccl
