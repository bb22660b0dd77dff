// SPDX-License-Identifier: Apache-2.0
// The launcher's stdout or stderr as the ranks' lines go there. Writing never blocks, and never changes the file's
// flags: the user's shell and others have the same open file.
#pragma once

#include "lib/unique_fd.h"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>

namespace rdma_nccl {

class Console {
public:
    /// `fd` is used as long as this lives, and not closed.
    explicit Console(int fd);

    /// To be appended to: whole lines.
    std::string& lines() { return lines_; }
    [[nodiscard]] bool pending() const { return written_ < lines_.size(); }
    /// So much waits to be written that its readers' writers should wait too.
    [[nodiscard]] bool full() const { return lines_.size() - written_ >= most_pending; }
    /// To be polled for POLLOUT while something is pending.
    [[nodiscard]] int fd() const { return fd_; }

    /// Writes what the reader takes now. Returns the error where that is another one than "not now"; what was pending
    /// is dropped then, and the next try begins a new line.
    std::optional<int> write_pending();

private:
    enum class Kind {
        File,        ///< takes all at once: a regular file, /dev/null
        NonBlocking, ///< a pipe or terminal, opened again: flags of its own
        Socket,      ///< send(2) has a flag that is for one call
        Polled,      ///< a pipe or terminal that cannot be opened again: takes PIPE_BUF bytes when poll(2) says so
    };
    static constexpr std::size_t most_pending = 1 << 20;

    [[nodiscard]] std::string_view next_block() const;
    [[nodiscard]] ssize_t write_block(std::string_view block) const;
    void drop_written();

    Kind kind_ = Kind::File;
    int fd_;
    UniqueFd own_; ///< fd_ where it was opened again
    std::string lines_;
    std::size_t written_ = 0;  ///< bytes of lines_
    bool within_line_ = false; ///< the last byte that was taken is no newline
    bool torn_ = false;        ///< the rest of that line was dropped
};

/// Whether what is written to both ends up in one place ("2>&1", a terminal).
bool same_file(int a, int b);

} // namespace rdma_nccl
