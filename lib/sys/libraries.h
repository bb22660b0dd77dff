// SPDX-License-Identifier: Apache-2.0
// Finds libraries as the dynamic loader would, without loading any: those of a container's image may be of another C
// library.
#pragma once

#include "lib/sys/environment.h"
#include "lib/sys/sysroot.h"

#include <optional>
#include <string>

namespace rdma_nccl {

/// Returns the path at which a program with this environment would find a library, "libibverbs.so.1"; nullopt if it
/// would not: in LD_LIBRARY_PATH, ld.so's cache or the usual folders (ld.so(8), FILES). A program's own RPATH is not
/// known.
std::optional<std::string> find_library(const SysRoot& root, const Environment& environment, const std::string& name);

} // namespace rdma_nccl
