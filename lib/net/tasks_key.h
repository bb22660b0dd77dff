// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/environment.h"
#include "lib/net/key.h"
#include "lib/result.h"

namespace rdma_nccl {

/// The key that the plugin gave the step's tasks, or a user all processes of a run (RDMA_NCCL_TOKEN); from it come
/// those of the launchers, of pairs and of bench. Fails when there is none, and says what to do.
Result<Key> tasks_key(const Environment& environment);

} // namespace rdma_nccl
