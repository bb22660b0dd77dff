// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

/// A JSON string from any bytes: files may hold what is no UTF-8, which nlohmann::json refuses to print.
nlohmann::json json_text(std::string_view text);

/// The text itself, made safe as json_text() does.
std::string json_ascii(std::string_view text);

/// An array of such strings.
nlohmann::ordered_json texts_json(const std::vector<std::string>& texts);

} // namespace rdma_nccl
