// SPDX-License-Identifier: Apache-2.0
// A launcher in two processes that watch each other, so that nothing outlives a SIGKILL of either. PR_SET_PDEATHSIG
// ends the ranks of a dead launcher, but not what they forked: a daemon would be adopted by init and live on.
#pragma once

#include "tools/run_signals.h"

#include <functional>
#include <string>

namespace rdma_nccl {

/// Forks. The child calls `work` with a descriptor that becomes readable when the calling process, the guard, is gone.
/// The guard hands its signals on to the child and adopts what the child leaves when it dies of a signal, and kills
/// that. Returns in the guard only, when the child has ended, with the code to exit with: what `work` returned in the
/// child, or 128 + the signal that killed it.
int run_guarded(const BlockedSignals& signals, const std::function<int(int guard_fd)>& work);

} // namespace rdma_nccl
