// SPDX-License-Identifier: Apache-2.0
// Slurm's compressed lists, read without libslurm: the tools run where it is not installed.
#pragma once

#include "lib/result.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

/// "n[01-03,7]-ib,login" to its names in order; several brackets in one name multiply (Slurm's multi-dimensional
/// names). Fails on malformed text and on more than 65,536 names (slurm.conf's own limit).
Result<std::vector<std::string>> expand_hostlist(std::string_view text);

/// The reverse, for messages: names that differ in their last number share a bracket, "n[01-03,07]-ib,login"; sorted by
/// the text around the number, each name once.
std::string fold_hostlist(std::vector<std::string> names);

/// SLURM_*_TASKS_PER_NODE, "2(x3),1" to 2,2,2,1. Fails like expand_hostlist().
Result<std::vector<unsigned>> expand_task_counts(std::string_view text);

/// SLURM_STEP_RESV_PORTS, "12000-12003,12007" to its ports in order. Fails on text that is no list of ports 1..65535.
Result<std::vector<std::uint16_t>> expand_ports(std::string_view text);

} // namespace rdma_nccl
