// SPDX-License-Identifier: Apache-2.0
// Where the launchers of this world meet, and with which port its ranks start again.
#pragma once

#include "lib/environment.h"
#include "lib/port.h"
#include "lib/result.h"
#include "lib/unique_fd.h"
#include "tools/run_control.h"
#include "tools/run_options.h"
#include "tools/run_world.h"

#include <cstdint>
#include <memory>
#include <string>

namespace rdma_nccl {

/// A port kept from all others: bound but not listening. With SO_REUSEADDR, as rendezvous servers set it, a rank can
/// still bind it and listen; the kernel gives it to nobody else (measured on Linux 6.18).
struct HeldPort {
    UniqueFd socket;
    std::uint16_t port = 0;
};

/// Any port that is free on this node.
Result<HeldPort> hold_free_port();

/// The last port of the block that begins with MASTER_PORT (doc/design.md, Exchange). Slurm reserves single ports, of
/// which the first two are for rank 0: there it is the last of three or more, else the last of the block that job and
/// step give (`range`: where such blocks are).
std::uint16_t control_port(const Environment& environment, std::uint16_t master_port, const PortRange& range);

/// For attempts behind the first: MASTER_PORT and the third port of its block by turns, as the last listener's
/// connections may linger; another free one of node 0 where both are taken. Where Slurm reserved MASTER_PORT, the port
/// behind it may be another step's: there it is the third of the block that job and step give.
class RestartPorts {
public:
    RestartPorts(const Environment& environment, std::uint16_t master_port, const PortRange& range);
    std::optional<std::uint16_t> next(unsigned attempt);

private:
    std::uint16_t first_;
    std::uint16_t spare_;
    HeldPort held_;
};

/// For this node's launcher. `node`: its name. `ports` lives as long.
std::unique_ptr<Control> start_control(const RunOptions& options, const Environment& environment, const WorldPlan& plan,
                                       const std::string& node, const PortRange& range, RestartPorts& ports);

} // namespace rdma_nccl
