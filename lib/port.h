// SPDX-License-Identifier: Apache-2.0
// The port block of a step (doc/design.md, Exchange): MASTER_PORT and the three behind it.
#pragma once

#include "lib/result.h"
#include "lib/root.h"
#include "lib/settings.h"
#include "lib/step.h"
#include "lib/unique_fd.h"

#include <cstdint>
#include <optional>
#include <span>
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

// Holding a step's ports on its head node, so that nothing else takes them before the ranks listen there, or afterwards
// (doc/design.md, Exchange).

/// Ports that are bound and do not listen. They are bound without SO_REUSEADDR, and until open_for_reuse() they are
/// nobody's: no bind(2) of any user gets one, whatever its options. Always connect(2) and bind(2) to port 0 of any
/// process pass them by, and a second holder gets EADDRINUSE. (inet_csk_get_port() and inet_csk_bind_conflict(), Linux
/// net/ipv4/inet_connection_sock.c, 5.4 to 6.18.)
struct HeldPorts {
    std::vector<UniqueFd> sockets; ///< empty: nothing is held
    PortBlock block;               ///< what to publish; its warnings say what could not be held
};

/// Whether another block may be taken when one is busy: only when the nodes can still be told.
enum class BlockChoice { Fixed, Movable };

/// Holds `wanted`, or where it is derived and may move, the next block of `range` of which all ports are free. Of ports
/// that Slurm `reserved` the busy ones are passed over. The user's own MASTER_PORT is not touched.
HeldPorts hold_ports(const PortBlock& wanted, std::span<const std::uint16_t> reserved, const PortRange& range,
                     BlockChoice choice);

/// From now on a program with SO_REUSEADDR binds and listens there as if the ports were free. The kernel asks for that
/// option and not for the user, so this is for the last moment before the step's programs start.
void open_for_reuse(std::span<const UniqueFd> held);

/// The one of them that has `port`; below 0: none has.
int held_socket(std::span<const UniqueFd> held, std::uint16_t port);

} // namespace rdma_nccl
