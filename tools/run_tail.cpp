// SPDX-License-Identifier: Apache-2.0
#include "tools/run_tail.h"

#include <algorithm>

namespace rdma_nccl {

namespace {

bool ends_line(char c) {
    return c == '\n' || c == '\r';
}

} // namespace

void StreamTail::take(std::string_view bytes) {
    // One more than `size` tells whether the first line kept is whole.
    constexpr auto most = size + 1;
    bytes.remove_prefix(bytes.size() - std::min(bytes.size(), most));
    const auto kept = std::min(bytes_.size(), most - bytes.size());
    bytes_.erase(0, bytes_.size() - kept);
    bytes_ += bytes;
}

std::vector<std::string> StreamTail::lines(std::size_t count) const {
    std::vector<std::string> result;
    const auto first = bytes_.size() > size ? bytes_.begin() + 1 : bytes_.begin();
    auto end = bytes_.end();
    while (end != first && result.size() < count) {
        auto begin = end;
        while (begin != first && !ends_line(*(begin - 1))) {
            --begin;
        }
        // The beginning of a line that is longer than what is kept is lost: shown only when there is nothing else.
        const bool cut = begin == first && first != bytes_.begin() && !ends_line(bytes_.front());
        if (begin != end && (!cut || result.empty())) {
            result.emplace_back(begin, end);
        }
        end = begin == first ? first : begin - 1;
    }
    std::reverse(result.begin(), result.end());
    return result;
}

} // namespace rdma_nccl
