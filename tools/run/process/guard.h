// SPDX-License-Identifier: Apache-2.0
// A launcher of two processes that watch each other, so that nothing survives a SIGKILL of either. PR_SET_PDEATHSIG
// ends the ranks of a dead launcher, but not what they forked: init would adopt a daemon, and it would keep running.
#pragma once

#include "lib/sys/signal_fd.h"

#include <functional>
#include <string>

namespace rdma_nccl::run {

/// Forks. The child calls `work` with a descriptor that becomes readable when the calling process, the guard, is gone.
/// The guard passes its signals on to the child. When the child has ended, the guard adopts the processes that it left
/// behind and kills them. Returns in the guard only, with the exit code: the result of `work` in the child, or 128 +
/// the signal that killed the child.
int run_guarded(const BlockedSignals& signals, const std::function<int(int guard_fd)>& work);

} // namespace rdma_nccl::run
