// SPDX-License-Identifier: Apache-2.0
// The file that keeps the state of one check for the next one.
#pragma once

#include "lib/base/result.h"
#include "tools/check/facts.h"

#include <optional>
#include <string>
#include <string_view>

namespace rdma_nccl {

std::string state_text(const CheckState& state);
/// Parses state_text(). Returns nullopt for other text; accepts any bytes.
std::optional<CheckState> parse_state(std::string_view text);

/// Reads the state, which may be from before a reboot. Returns nullopt if there is no file. Fails if the file cannot be
/// read, or, with os_error 0, if it is a regular file that holds no state.
Result<std::optional<CheckState>> read_state(const std::string& path);

} // namespace rdma_nccl
