// SPDX-License-Identifier: Apache-2.0
// Splits the bytes of a stream into whole lines, each with a prefix, and keeps the last lines.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl::run {

/// The result depends only on the bytes, not on the blocks in which they arrive. A line is held back until its newline
/// or the end of the stream. The text before a carriage return that no newline follows (a progress bar) is also a line:
/// it is shown with a newline instead of the return, or dropped if it is empty. "\r\n" is kept.
class LineSplitter {
public:
    /// A longer line is split into pieces of this many bytes, each a line of its own.
    static constexpr std::size_t longest_line = 1 << 20;

    explicit LineSplitter(std::size_t longest = longest_line) : longest_(longest) {}

    /// Appends the lines that `bytes` completes to `out`.
    void take(std::string_view bytes, std::string_view prefix, std::string& out);
    /// Ends the stream: appends the held text with a newline.
    void end(std::string_view prefix, std::string& out);

private:
    void add(std::string_view text, std::string_view prefix, std::string& out);
    void emit_held(std::string_view line_end, std::string_view prefix, std::string& out);
    void decide_return(bool is_line_end, std::string_view prefix, std::string& out);

    std::size_t longest_;
    std::string held_;            ///< the unfinished line, at most `longest_` bytes
    bool return_pending_ = false; ///< a '\r' followed the held text; its meaning depends on the next byte
};

/// Keeps the end of a stream for the report of a failure.
class StreamTail {
public:
    static constexpr std::size_t size = 4096; ///< number of bytes kept

    void take(std::string_view bytes);
    /// Returns the last lines, at most `count`, oldest first. An unfinished line at the end counts.
    [[nodiscard]] std::vector<std::string> lines(std::size_t count) const;

private:
    std::string bytes_; ///< the last `size` bytes, and the one before them if any
};

} // namespace rdma_nccl::run
