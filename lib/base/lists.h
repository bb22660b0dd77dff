// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <ranges>
#include <type_traits>
#include <utility>
#include <vector>

namespace rdma_nccl {

/// Returns the first item of a list whose `member` equals `value`, or nullptr if there is none.
auto* find_by(auto& list, auto member, const auto& value) {
    const auto found = std::ranges::find(list, value, member);
    return found == list.end() ? nullptr : &*found;
}

template<typename List>
bool contains(const List& list, const std::ranges::range_value_t<List>& value) {
    return std::ranges::find(list, value) != std::ranges::end(list);
}

/// Appends a value unless the list contains it.
template<typename T>
void add_once(std::vector<T>& list, T value) {
    if (!contains(list, value)) {
        list.push_back(std::move(value));
    }
}

/// Returns what `make`, a function or a member, gives for each item of a list.
auto mapped(const auto& list, auto make) {
    std::vector<std::remove_cvref_t<decltype(std::invoke(make, *list.begin()))>> results;
    results.reserve(list.size());
    std::ranges::transform(list, std::back_inserter(results), make);
    return results;
}

/// Returns the items of a list for which `wanted`, a function or a member, is true.
template<typename T>
std::vector<T> selected(const std::vector<T>& list, auto wanted) {
    std::vector<T> results;
    std::ranges::copy_if(list, std::back_inserter(results), wanted);
    return results;
}

/// Returns the positions of the items of a list for which `wanted`, a function or a member, is true.
std::vector<std::size_t> positions_where(const auto& list, auto wanted) {
    std::vector<std::size_t> positions;
    for (std::size_t i = 0; i < list.size(); ++i) {
        if (std::invoke(wanted, list[i])) {
            positions.push_back(i);
        }
    }
    return positions;
}

/// Returns what `function` gives for each item with the other one in its place, as far as there are both.
auto mapped(const auto& items, const auto& others, auto function) {
    std::vector<std::remove_cvref_t<decltype(function(*items.begin(), *others.begin()))>> results;
    results.reserve(items.size());
    std::ranges::transform(items, others, std::back_inserter(results), function);
    return results;
}

/// Appends all of `more` to a list.
template<typename T>
void append(std::vector<T>& list, std::vector<T> more) {
    list.insert(list.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

} // namespace rdma_nccl
