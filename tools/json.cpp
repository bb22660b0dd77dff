// SPDX-License-Identifier: Apache-2.0
#include "tools/json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace rdma_nccl {

nlohmann::json json_text(std::string_view text) {
    std::string safe(text);
    std::replace_if(
        safe.begin(), safe.end(), [](char c) { return static_cast<unsigned char>(c) >= 0x80; }, '?');
    return safe;
}

} // namespace rdma_nccl
