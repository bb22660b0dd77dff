// SPDX-License-Identifier: Apache-2.0
// The file that keeps the state of one check for the next one (--state).
#pragma once

#include "lib/base/result.h"
#include "tools/check/check.h"
#include "tools/check/facts.h"
#include "tools/check/result.h"

#include <optional>
#include <string>
#include <string_view>

namespace rdma_nccl::check {

std::string state_text(const State& state);
/// Parses state_text(). Returns nullopt for other text; accepts any bytes.
std::optional<State> parse_state(std::string_view text);

/// Reads the state, which may be from before a reboot. Returns nullopt if there is no file. Fails if the file cannot be
/// read, or, with os_error 0, if it is a regular file that holds no state.
Result<std::optional<State>> read_state(const std::string& path);

/// Compares with the state that the last check wrote, and determines whether this check can write its own. Renames a
/// broken file, so that the next check finds a good one.
void compare_with_last(const Options& options, Facts& facts, Findings& results);

/// Writes facts.now. Reports an error and returns false if that fails.
bool write_state(const Options& options, const Facts& facts);

} // namespace rdma_nccl::check
