// SPDX-License-Identifier: Apache-2.0
// What a report of a fault needs to know about this build.
#pragma once

#include <string>

namespace rdma_nccl {

/// Returns the text of --version: "rdma-nccl 0.2.0", then the Slurm release that the plugin was built for, and
/// libraries. Loads none of them.
std::string version_text();

} // namespace rdma_nccl
