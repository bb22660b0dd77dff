// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/run_arbiter.h"

#include <string>

namespace rdma_nccl {

/// Says on stderr what is known from all nodes about a job that failed; and where `report_file` is not empty, writes
/// how the job ended into that file as JSON. `code`: the launcher's.
void report_end(const Arbiter& arbiter, int code, const std::string& report_file);

} // namespace rdma_nccl
