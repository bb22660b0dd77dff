// SPDX-License-Identifier: Apache-2.0
// A connection that carries lines and never blocks.
#pragma once

#include "lib/unique_fd.h"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace rdma_nccl {

class LineSocket {
public:
    /// Non-blocking. No line may be longer than `longest`, with its newline.
    LineSocket(UniqueFd socket, std::size_t longest) : socket_(std::move(socket)), longest_(longest) {}

    [[nodiscard]] int fd() const { return socket_.get(); }
    /// Takes what has come. False when the other side is gone, or says too much in one line; lines that came before
    /// that can still be had.
    bool receive();
    /// The next whole line, without its newline.
    std::optional<std::string> next_line();
    /// Sends what can be sent now and keeps the rest. False when the other side is gone, or takes nothing for long.
    bool send(std::string_view lines);
    bool flush() { return send({}); }
    [[nodiscard]] bool has_unsent() const { return !unsent_.empty(); }

private:
    UniqueFd socket_;
    std::size_t longest_;
    std::string received_;
    std::string unsent_;
};

} // namespace rdma_nccl
