// SPDX-License-Identifier: Apache-2.0
// The bytes of a stream as whole lines, each behind a prefix, and the last of them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

/// What comes out depends on the bytes alone, not on the blocks they come in. A line is held back until its newline or
/// the stream's end. The text before a carriage return without a newline behind it (a progress bar) is a line too:
/// shown with a newline in the return's place, or not at all when it is empty. "\r\n" stays as it is.
class LineSplitter {
public:
    /// A longer line comes in pieces of this many bytes, each a line of its own.
    static constexpr std::size_t longest_line = 1 << 20;

    explicit LineSplitter(std::size_t longest = longest_line) : longest_(longest) {}

    /// Appends the lines that `bytes` complete to `out`.
    void take(std::string_view bytes, std::string_view prefix, std::string& out);
    /// The stream's end: what is held back, with a newline.
    void end(std::string_view prefix, std::string& out);

private:
    void add(std::string_view text, std::string_view prefix, std::string& out);
    void decide_return(bool is_line_end, std::string_view prefix, std::string& out);

    std::size_t longest_;
    std::string held_;            ///< the unfinished line, at most `longest_` bytes
    bool return_pending_ = false; ///< a '\r' came behind it: what it means depends on the next byte
};

/// The end of a stream, kept for the report of a failure.
class StreamTail {
public:
    static constexpr std::size_t size = 4096; ///< bytes kept

    void take(std::string_view bytes);
    /// The last lines, at most `count`, oldest first; an unfinished one at the end counts.
    [[nodiscard]] std::vector<std::string> lines(std::size_t count) const;

private:
    std::string bytes_; ///< the last `size`, and one before them where there is one
};

} // namespace rdma_nccl
