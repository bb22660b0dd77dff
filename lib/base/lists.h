// SPDX-License-Identifier: Apache-2.0
// Searches and selections in lists. They are loops, as std::ranges takes time to compile in each of 200 files.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <type_traits>
#include <utility>
#include <vector>

namespace rdma_nccl {

/// Returns the first item of a list whose `member` equals `value`, or nullptr if there is none.
auto* find_by(auto& list, auto member, const auto& value) {
    for (auto& item : list) {
        if (std::invoke(member, item) == value) {
            return &item;
        }
    }
    return static_cast<decltype(&*list.begin())>(nullptr);
}

bool contains(const auto& list, const std::remove_cvref_t<decltype(*std::begin(list))>& value) {
    return std::find(std::begin(list), std::end(list), value) != std::end(list);
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
    for (const auto& item : list) {
        results.push_back(std::invoke(make, item));
    }
    return results;
}

/// Returns the items of a list for which `wanted`, a function or a member, is true.
template<typename T>
std::vector<T> selected(const std::vector<T>& list, auto wanted) {
    std::vector<T> results;
    for (const auto& item : list) {
        if (std::invoke(wanted, item)) {
            results.push_back(item);
        }
    }
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
    auto other = others.begin();
    for (auto item = items.begin(); item != items.end() && other != others.end(); ++item, ++other) {
        results.push_back(function(*item, *other));
    }
    return results;
}

/// Returns the entry of a map whose value, a list in ascending order, is the longest; in a tie the one with the least
/// first item. The map has an entry.
auto most_common(const auto& lists_by_key) {
    return std::max_element(lists_by_key.begin(), lists_by_key.end(), [](const auto& a, const auto& b) {
        return a.second.size() != b.second.size() ? a.second.size() < b.second.size()
                                                  : a.second.front() > b.second.front();
    });
}

/// Appends all of `more` to a list.
template<typename T>
void append(std::vector<T>& list, std::vector<T> more) {
    list.insert(list.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

} // namespace rdma_nccl
