// SPDX-License-Identifier: Apache-2.0
// The ports on which the launchers of this world connect, and on which its ranks restart.
#pragma once

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"
#include "lib/plan/port_block.h"
#include "lib/sys/environment.h"
#include "tools/run/control/control.h"
#include "tools/run/options/options.h"
#include "tools/run/world/world.h"

#include <cstdint>
#include <memory>
#include <string>

namespace rdma_nccl::run {

/// A port that is bound but not listening, so that no other process gets it. A rank can still bind it with
/// SO_REUSEADDR, as rendezvous servers do, and listen; the kernel gives it to nobody else (measured on Linux 6.18).
struct HeldPort {
    UniqueFd socket;
    std::uint16_t port = 0;
};

/// Binds any free port of this node. Fails if there is none.
Result<HeldPort> hold_free_port();

/// Returns the port on which the head listens: the last one of the block that begins with MASTER_PORT. If MASTER_PORT
/// is a port that Slurm reserved, the block does not exist, and the first two reserved ports are for rank 0: then it is
/// the last of three or more reserved ports, or else the last port of the block derived from job and step (`range`: the
/// range of such blocks).
std::uint16_t control_port(const Environment& environment, std::uint16_t master_port, const PortRange& range);

/// Chooses the master port of each attempt after the first. It alternates between MASTER_PORT and the third port of its
/// block, because connections of the last listener may linger, and takes another free port of node 0 if both are in
/// use. If Slurm reserved MASTER_PORT, the ports after it may belong to another step: then the third port is that of
/// the block derived from job and step.
class RestartPorts {
public:
    RestartPorts(const Environment& environment, std::uint16_t master_port, const PortRange& range);
    std::optional<std::uint16_t> next(unsigned attempt);

private:
    std::uint16_t first_;
    std::uint16_t spare_;
    HeldPort held_;
};

/// Creates the control of this node's launcher. `node`: its name. `ports` must live as long as the control.
std::unique_ptr<Control> start_control(const Options& options, const Environment& environment, const WorldPlan& plan,
                                       const std::string& node, const PortRange& range, RestartPorts& ports);

} // namespace rdma_nccl::run
