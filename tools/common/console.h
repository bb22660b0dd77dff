// SPDX-License-Identifier: Apache-2.0
// The launcher's stdout or stderr, to which it writes the ranks' lines. Writing never blocks, and never changes the
// flags of the open file, because the user's shell and other processes share it.
#pragma once

#include "lib/base/unique_fd.h"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>

namespace rdma_nccl {

class Console {
public:
    /// `fd` must stay open as long as this object exists; it is not closed.
    explicit Console(int fd);

    /// Returns the pending text; append whole lines to it.
    std::string& lines() { return lines_; }
    [[nodiscard]] bool pending() const { return written_ < lines_.size(); }
    /// Returns true if so much text is pending that no more rank output should be read.
    [[nodiscard]] bool full() const { return lines_.size() - written_ >= most_pending; }
    /// Returns the descriptor to poll for POLLOUT while text is pending.
    [[nodiscard]] int fd() const { return fd_; }

    /// Writes as much as the reader accepts now. Returns the error if a write fails with anything but EAGAIN; then the
    /// pending text is dropped, and the next write begins a new line.
    std::optional<int> write_pending();

private:
    enum class Kind {
        File,        ///< a regular file or /dev/null: accepts everything at once
        NonBlocking, ///< a pipe or terminal, opened again with flags of its own
        Socket,      ///< written with MSG_DONTWAIT, which applies to one call of send(2)
        Polled,      ///< a pipe or terminal that cannot be opened again: accepts PIPE_BUF bytes when poll(2) says it is
                     ///< ready
    };
    static constexpr std::size_t most_pending = 1 << 20;

    [[nodiscard]] std::string_view next_block() const;
    [[nodiscard]] ssize_t write_block(std::string_view block) const;

    Kind kind_ = Kind::File;
    int fd_;
    UniqueFd own_; ///< the descriptor in fd_ if the file was opened again
    std::string lines_;
    std::size_t written_ = 0;  ///< bytes of lines_
    bool within_line_ = false; ///< the last byte written was not a newline
    bool torn_ = false;        ///< the rest of that line was dropped
};

/// Returns true if text written to both ends up in the same place ("2>&1", or a terminal).
bool same_file(int a, int b);

} // namespace rdma_nccl
