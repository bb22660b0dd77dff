// SPDX-License-Identifier: Apache-2.0
// The recorder of this process and its file.
#pragma once

#include "tools/profiler/recorder.h"

namespace rdma_nccl::profiler {

/// Names the directory of the files, one for each process: "profile.PID.XXXXXX". Without it, or if it cannot be
/// written, the counters stay in the process's memory.
inline constexpr const char* directory_variable = "RDMA_NCCL_PROFILES";

/// Returns the recorder of this process, made at the first call and after a fork(2), and never destroyed: NCCL unloads
/// and loads the library as communicators come and go. `version`: of NCCL's interface.
Recorder& recorder(int version);

/// Returns the one that recorder(version) made last. Fast.
Recorder& recorder();

} // namespace rdma_nccl::profiler
