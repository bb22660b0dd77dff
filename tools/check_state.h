// SPDX-License-Identifier: Apache-2.0
// The file that keeps what one check saw, for the next one.
#pragma once

#include "lib/result.h"
#include "tools/check_facts.h"

#include <optional>
#include <string>
#include <string_view>

namespace rdma_nccl {

std::string state_text(const CheckState& state);
/// nullopt: no such text. Any bytes may come in.
std::optional<CheckState> parse_state(std::string_view text);

/// What was kept, of this boot or an earlier one; nullopt: nothing. Fails when the file cannot be read, or, with
/// os_error 0, when that is a regular file that holds no state.
Result<std::optional<CheckState>> read_state(const std::string& path);

/// Writes a file as a whole or not at all, also when the power fails: a new one in the same directory takes its place.
/// `mode`: of the new file.
Result<void> replace_file(const std::string& path, std::string_view text, unsigned mode);

} // namespace rdma_nccl
