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

} // namespace rdma_nccl
