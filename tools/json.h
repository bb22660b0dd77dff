// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace rdma_nccl {

/// A JSON string from any bytes: files may hold what is no UTF-8, which nlohmann::json refuses to print.
nlohmann::json json_text(std::string_view text);

/// The text itself, made safe as json_text() does.
std::string json_ascii(std::string_view text);

/// An array of such strings.
template<typename Texts, typename Json = nlohmann::ordered_json>
Json texts_json(const Texts& texts) {
    auto list = Json::array();
    for (const auto& text : texts) {
        list.push_back(json_ascii(text));
    }
    return list;
}

/// Such a string, null for an empty one.
template<typename Json = nlohmann::ordered_json>
Json text_or_null(std::string_view text) {
    return text.empty() ? Json() : Json(json_ascii(text));
}

/// What is not known is null.
template<typename T, typename Json = nlohmann::ordered_json>
Json or_null(const std::optional<T>& value) {
    return value ? Json(*value) : Json();
}

} // namespace rdma_nccl
