// SPDX-License-Identifier: Apache-2.0
#include "lib/alike.h"

#include "lib/format.h"

#include <algorithm>

namespace rdma_nccl {

namespace {

std::string likewise(const std::vector<std::string>& names) {
    constexpr std::size_t most_names = 8;
    if (names.empty()) {
        return {};
    }
    std::string text;
    for (std::size_t i = 0; i < names.size() && i < most_names; ++i) {
        text += (i == 0 ? "" : ", ") + names[i];
    }
    if (names.size() > most_names) {
        text += format_text(" and {} more", names.size() - most_names);
    }
    return format_text(" (likewise {})", text);
}

} // namespace

void AlikeSentences::add(std::string_view key, std::string_view name, std::string sentence) {
    const auto found =
        std::find_if(groups_.begin(), groups_.end(), [key](const Group& group) { return group.key == key; });
    if (found == groups_.end()) {
        groups_.push_back({std::string(key), std::move(sentence), {}});
    } else {
        found->others.emplace_back(name);
    }
}

std::vector<std::string> AlikeSentences::texts() const {
    std::vector<std::string> texts;
    std::transform(groups_.begin(), groups_.end(), std::back_inserter(texts),
                   [](const Group& group) { return group.sentence + likewise(group.others); });
    return texts;
}

} // namespace rdma_nccl
