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

/// Creates the control of this node's launcher. `node`: its name. `range`: that of ports derived from job and step.
std::unique_ptr<Control> start_control(const Options& options, const Environment& environment, const WorldPlan& plan,
                                       const std::string& node, const PortRange& range);

} // namespace rdma_nccl::run
