// SPDX-License-Identifier: Apache-2.0
// The port block of a step: MASTER_PORT and the three ports after it.
#pragma once

#include "lib/base/unique_fd.h"
#include "lib/settings/settings.h"
#include "lib/slurm/step.h"
#include "lib/sys/sysroot.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace rdma_nccl {

inline constexpr unsigned port_block_size = 4;

struct PortBlock {
    std::uint16_t first = 0;
    std::optional<std::uint16_t> second; ///< JAX's port; absent if Slurm reserved only one
    std::string source{};                ///< "user", "setting", "slurm", "derived"
    std::string why{};
    std::vector<std::string> warnings{};

    friend bool operator==(const PortBlock&, const PortBlock&) = default;
};

/// Reads net.ipv4.ip_local_port_range, from which the kernel takes local ports for outgoing connections.
std::optional<PortRange> read_ephemeral_range(const SysRoot& root);

/// Returns the range for derived blocks if the site names none: outside the ephemeral range, below Kubernetes' node
/// ports.
PortRange default_port_range(const std::optional<PortRange>& ephemeral);

/// Returns the first port of a step's block. As far as the range allows, a job's steps and neighbouring jobs differ.
std::uint16_t derive_port(std::uint32_t job_id, std::uint32_t step_id, const PortRange& range);

/// Takes the first of: the user's MASTER_PORT, the port setting, SLURM_STEP_RESV_PORTS, srun's note, a derived port.
PortBlock choose_port(const Settings& settings, const Step& step, const std::optional<std::string>& users_master_port,
                      const std::optional<PortRange>& ephemeral);

// Holding a step's ports on its head node, so that nothing else takes them before the ranks listen, or afterwards.

/// Ports that are bound but do not listen. They are bound without SO_REUSEADDR, so until open_for_reuse() no bind(2) of
/// any user gets one, whatever its options. connect(2) and bind(2) to port 0 always avoid them, in any process, and a
/// second holder gets EADDRINUSE. (inet_csk_get_port() and inet_csk_bind_conflict(), Linux
/// net/ipv4/inet_connection_sock.c, 5.4 to 6.18.)
struct HeldPorts {
    std::vector<UniqueFd> sockets; ///< empty: no port is held
    PortBlock block;               ///< the block to publish; its warnings say what could not be held
};

/// Movable: another block may be taken if one is busy. Only possible while the nodes can still be told.
enum class BlockChoice { Fixed, Movable };

/// Holds `wanted`. If it is busy, derived and movable, holds the next block of `range` whose ports are all free. Skips
/// busy ones among the ports that Slurm `reserved`. Does not touch the user's own MASTER_PORT.
HeldPorts hold_ports(const PortBlock& wanted, std::span<const std::uint16_t> reserved, const PortRange& range,
                     BlockChoice choice);

/// Lets programs with SO_REUSEADDR bind and listen as if the ports were free. The kernel checks that option but not the
/// user, so call this at the last moment before the step's programs start.
void open_for_reuse(std::span<const UniqueFd> held);

/// Returns the held socket of `port`, or -1 if there is none.
int held_socket(std::span<const UniqueFd> held, std::uint16_t port);

} // namespace rdma_nccl
