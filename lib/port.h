// SPDX-License-Identifier: Apache-2.0
// The port block of a step (design section 5): MASTER_PORT and the three behind it.
#pragma once

#include "lib/result.h"
#include "lib/root.h"
#include "lib/settings.h"
#include "lib/step.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl {

inline constexpr unsigned port_block_size = 4;

struct PortBlock {
    std::uint16_t first = 0;
    std::optional<std::uint16_t> second; ///< JAX's; absent when Slurm reserved one port only
    std::string source;                  ///< "user", "setting", "slurm", "derived"
    std::string why;
    std::vector<std::string> warnings;

    friend bool operator==(const PortBlock&, const PortBlock&) = default;
};

/// net.ipv4.ip_local_port_range: the kernel hands out local ports of outgoing connections from it.
std::optional<PortRange> read_ephemeral_range(const Root& root);

/// Where blocks are derived from when the site names no range: outside the ephemeral range, below Kubernetes' node
/// ports.
PortRange default_port_range(const std::optional<PortRange>& ephemeral);

/// The block of a step: different for all steps of a job and, within the range's size, for neighbouring jobs.
std::uint16_t derive_port(std::uint32_t job_id, std::uint32_t step_id, const PortRange& range);

/// User's MASTER_PORT > port setting > SLURM_STEP_RESV_PORTS > srun's note > derived here.
PortBlock choose_port(const Settings& settings, const Step& step, const std::optional<std::string>& users_master_port,
                      const std::optional<PortRange>& ephemeral);

} // namespace rdma_nccl
