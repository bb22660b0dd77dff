// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <iterator>
#include <vector>

namespace rdma_nccl {

/// Returns the first item of a list whose `member` equals `value`, or nullptr if there is none.
auto* find_by(auto& list, auto member, const auto& value) {
    const auto found = std::ranges::find(list, value, member);
    return found == list.end() ? nullptr : &*found;
}

/// Appends all of `more` to a list.
template<typename T>
void append(std::vector<T>& list, std::vector<T> more) {
    list.insert(list.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

} // namespace rdma_nccl
