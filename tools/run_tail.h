// SPDX-License-Identifier: Apache-2.0
// The end of a stream, kept for the report of a failure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

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
