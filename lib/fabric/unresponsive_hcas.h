// SPDX-License-Identifier: Apache-2.0
// Finds HCAs that do not respond. Reading a port's state asks the driver, and a driver with a hanging card may take
// minutes, in a sleep that no signal interrupts. A step must not wait for that.
#pragma once

#include "lib/base/result.h"
#include "lib/sys/sysroot.h"

#include <chrono>
#include <set>
#include <string>

namespace rdma_nccl {

using UnresponsiveHcas = std::set<std::string, std::less<>>;

/// The result of asking the HCAs.
struct HcaAnswers {
    UnresponsiveHcas silent;    ///< did not answer in time
    UnresponsiveHcas not_asked; ///< unknown: the others used up the time
};

/// The time limit for a device: a working driver returns a port's state within milliseconds, even on a busy node.
inline constexpr std::chrono::milliseconds usual_timeout(5000);

/// Reads the state of each port in a child process and returns the HCAs that took longer than `limit`. Does not read
/// the speed of interfaces: a process that hangs there holds a lock that all of the network needs (RTNL). Uses a child
/// because a thread in such a sleep would block seteuid(2) of the whole process (nptl(7)), which slurmstepd calls right
/// after us. The child runs no program, has only our descriptors 0 to 2, and is killed if it does not come back. After
/// four times `limit` in total, the remaining HCAs are not asked. Fails if no child can be started or it ends early.
Result<HcaAnswers> ask_hcas(const SysRoot& root, std::chrono::milliseconds limit);

/// Like ask_hcas(), but HCAs that were not asked count as silent.
Result<UnresponsiveHcas> find_unresponsive_hcas(const SysRoot& root, std::chrono::milliseconds limit);

} // namespace rdma_nccl
