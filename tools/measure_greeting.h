// SPDX-License-Identifier: Apache-2.0
// The first words between a member and the head, and how messages are written.
#pragma once

#include "tools/measure_world.h"

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace rdma_nccl {

/// What a member says first: half of the secret, and its number. The head answers with the other half.
std::string greeting_of(const MeasureWorld& world);
/// The member; nullopt for a stranger, and for a number that the world does not have.
std::optional<unsigned> member_of(std::string_view greeting, const MeasureWorld& world);

/// On one line; bytes that are no UTF-8 are replaced.
std::string measure_text(const nlohmann::json& message);

} // namespace rdma_nccl
