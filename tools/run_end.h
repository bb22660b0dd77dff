// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/run_arbiter.h"

#include <string>
#include <vector>

namespace rdma_nccl {

/// What is known from all nodes about a job that failed, to be said on stderr. Where `report_file` is not empty, how
/// the job ended is written into that file as JSON, also when it ended well. `code`: the launcher's.
std::vector<std::string> report_end(const Arbiter& arbiter, int code, const std::string& report_file);

} // namespace rdma_nccl
