// SPDX-License-Identifier: Apache-2.0
// Parses Slurm's compressed lists without libslurm: the tools also run where it is not installed.
#pragma once

#include "lib/base/result.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

/// Expands "n[01-03,7]-ib,login" to its names in order. Several brackets in a name multiply (Slurm's multi-dimensional
/// names). Fails on malformed text and on more than 65,536 names (slurm.conf's own limit).
Result<std::vector<std::string>> expand_hostlist(std::string_view text);

/// Does the reverse, for messages: names that differ only in their last number share a bracket, "n[01-03,07]-ib,login".
/// Sorts by the text around the number and drops duplicates.
std::string fold_hostlist(std::vector<std::string> names);

/// Writes sorted numbers, of at least `width` digits, as ranges: "01-03,07".
std::string fold_numbers(const std::vector<unsigned>& numbers, std::size_t width = 0);

/// Expands SLURM_*_TASKS_PER_NODE: "2(x3),1" gives 2,2,2,1. Fails like expand_hostlist().
Result<std::vector<unsigned>> expand_task_counts(std::string_view text);

/// Expands SLURM_STEP_RESV_PORTS, "12000-12003,12007", to its ports in order. Fails unless all ports are in 1..65535.
Result<std::vector<std::uint16_t>> expand_ports(std::string_view text);

} // namespace rdma_nccl
