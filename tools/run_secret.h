// SPDX-License-Identifier: Apache-2.0
// By what the launchers of one world know each other.
#pragma once

#include "lib/environment.h"

#include <string>
#include <string_view>

namespace rdma_nccl {

/// 32 hexadecimal characters, the same on all nodes of the world. The plugin's random token (RDMA_NCCL_TOKEN) where
/// there is one; else a hash of what names this job (`run_id` is the same on all nodes, and Slurm's job, step and
/// user): that keeps jobs apart, but is no secret.
std::string world_secret(const Environment& environment, std::string_view run_id);

/// Who connects says the first half, who listens the second: so a stranger on the head's port cannot answer.
std::string question_of(std::string_view secret);
std::string answer_of(std::string_view secret);

/// Takes the same time wherever the first difference is.
bool same_secret(std::string_view a, std::string_view b);

} // namespace rdma_nccl
