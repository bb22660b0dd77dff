// SPDX-License-Identifier: Apache-2.0
// Devices that do not answer. Reading a port's state or an interface's speed asks the driver, and a driver whose card
// hangs may not come back for minutes, in a sleep that no signal ends. A step must not wait for that.
#pragma once

#include "lib/result.h"
#include "lib/root.h"

#include <chrono>
#include <set>
#include <string>

namespace rdma_nccl {

struct SilentDevices {
    std::set<std::string, std::less<>> hcas;
    std::set<std::string, std::less<>> netdevs;
};

/// Reads one file that asks the driver for each port and interface, in a child of this process, and gives back those
/// that took longer than `limit`. A child, because a thread that sleeps so would block seteuid(2) of the whole process
/// (nptl(7)), which slurmstepd calls right after us. The child runs no program, holds no file of ours, and is killed
/// when it does not come back. After four times `limit` in all, what has not answered counts as silent.
Result<SilentDevices> find_silent_devices(const Root& root, std::chrono::milliseconds limit);

} // namespace rdma_nccl
