// SPDX-License-Identifier: Apache-2.0
// HCAs that do not answer. Reading a port's state asks the driver, and a driver whose card hangs may not come back for
// minutes, in a sleep that no signal ends. A step must not wait for that.
#pragma once

#include "lib/result.h"
#include "lib/root.h"

#include <chrono>
#include <set>
#include <string>

namespace rdma_nccl {

using SilentHcas = std::set<std::string, std::less<>>;

/// What came of asking the HCAs.
struct HcaAnswers {
    SilentHcas silent;    ///< did not answer in time
    SilentHcas not_asked; ///< the others took all the time: nothing is known of these
};

/// How long a device may take: a port's state comes in milliseconds where the driver works, also on a busy node.
inline constexpr std::chrono::milliseconds usual_patience(5000);

/// Reads the state of each port in a child of this process, and tells the HCAs that took longer than `limit`. Not
/// the speed of interfaces: whoever hangs there holds a lock that all of the network waits for (RTNL). A child, because
/// a thread that sleeps so would block seteuid(2) of the whole process (nptl(7)), which slurmstepd calls right after
/// us. The child runs no program, holds no file of ours but 0 to 2, and is killed when it does not come back. After
/// four times `limit` in all, the rest is not asked. Fails when there is no child to be had, or it ends early.
Result<HcaAnswers> ask_hcas(const Root& root, std::chrono::milliseconds limit);

/// ask_hcas(), of which what was not asked counts as silent.
Result<SilentHcas> find_silent_hcas(const Root& root, std::chrono::milliseconds limit);

} // namespace rdma_nccl
