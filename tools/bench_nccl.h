// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/environment.h"
#include "lib/result.h"

#include <string>

namespace rdma_nccl {

/// The NCCL that ranks load. `given`: a file; or a directory that holds it, itself, in lib, or as a Python environment
/// does (lib/python*/site-packages/nvidia/nccl/lib); fails when nothing is there. Empty: that of the active Python
/// environment (VIRTUAL_ENV, CONDA_PREFIX) where it has one, else the name that the loader knows, "libnccl.so.2".
Result<std::string> find_nccl(const std::string& given, const Environment& environment);

} // namespace rdma_nccl
