// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <iterator>
#include <vector>

namespace rdma_nccl {

/// The first of a list whose `member` is `value`; nullptr when there is none.
auto* find_by(auto& list, auto member, const auto& value) {
    const auto found = std::ranges::find(list, value, member);
    return found == list.end() ? nullptr : &*found;
}

/// Adds all of `more` behind what a list has.
template<typename T>
void append(std::vector<T>& list, std::vector<T> more) {
    list.insert(list.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

} // namespace rdma_nccl
