// SPDX-License-Identifier: Apache-2.0
// A TCP connection with its session. No function blocks.
#pragma once

#include "lib/base/unique_fd.h"
#include "lib/net/session.h"

#include <optional>
#include <string>

namespace rdma_nccl {

class Connection {
public:
    /// `socket` must be non-blocking.
    Connection(UniqueFd socket, Session session) : socket_(std::move(socket)), session_(std::move(session)) {}

    /// Reads what has arrived, up to a limit, so that a fast sender does not delay all others. Returns false when the
    /// connection is over; messages received before that remain available.
    bool read();
    /// Writes what the socket accepts now. Returns false when the connection is over.
    bool write();
    /// Returns the reason why the connection is over.
    [[nodiscard]] const std::string& why_over() const { return why_over_; }

    void send(SharedBody body) { session_.send(std::move(body)); }
    std::optional<std::string> next_message() { return session_.next_message(); }
    [[nodiscard]] bool is_proven() const { return session_.is_proven(); }
    /// Returns true if write() has data to send once the socket accepts more.
    [[nodiscard]] bool wants_to_write() { return !session_.output().empty(); }
    [[nodiscard]] std::size_t unsent() const { return session_.unsent(); }
    [[nodiscard]] int fd() const { return socket_.get(); }
    /// Gives up the socket without closing it: for a process that does not own the descriptor's number.
    void forget() { (void)socket_.release(); }
    UniqueFd take_socket() { return std::move(socket_); }

private:
    bool end(std::string why);

    UniqueFd socket_;
    Session session_;
    std::string why_over_;
};

} // namespace rdma_nccl
