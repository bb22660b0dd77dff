// SPDX-License-Identifier: Apache-2.0
#include "tools/json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace rdma_nccl {

std::string json_ascii(std::string_view text) {
    std::string safe(text);
    std::replace_if(
        safe.begin(), safe.end(), [](char c) { return static_cast<unsigned char>(c) >= 0x80; }, '?');
    return safe;
}

nlohmann::json json_text(std::string_view text) {
    return json_ascii(text);
}

nlohmann::ordered_json texts_json(const std::vector<std::string>& texts) {
    auto list = nlohmann::ordered_json::array();
    for (const auto& text : texts) {
        list.push_back(json_ascii(text));
    }
    return list;
}

} // namespace rdma_nccl
