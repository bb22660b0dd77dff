// SPDX-License-Identifier: Apache-2.0
// Writes the table of a step's nodes for programs that need one (`hosts`): a hosts file (hosts(5)) and a DeepSpeed
// hostfile.
#pragma once

#include "lib/base/result.h"
#include "lib/exchange/messages.h"
#include "lib/sys/environment.h"

#include <functional>
#include <optional>
#include <set>
#include <string>

namespace rdma_nccl {

/// hosts=mount: the /etc/hosts that the tasks see, and that any set-user-ID programs that they start see too.
struct EtcHosts {
    std::string text;    ///< empty: nothing is mounted
    std::string warning; ///< empty: none
};

/// Makes the text from the site's lines, followed by lines of the table. The table is untrusted: a user may run a
/// server of their own that sends any table. So a line is added only for a node of the step that the site's lines do
/// not name, once per node, and with an address that other nodes can reach. `step_nodes`: from slurmctld; empty:
/// unknown. `own`: the node's /etc/hosts; nullopt: unknown.
EtcHosts make_etc_hosts(const HostsTable& hosts, std::set<std::string, std::less<>> step_nodes,
                        const std::optional<std::string>& own);

/// Both written files, in a directory that belongs to this step and node only.
struct HostsFiles {
    std::string directory;

    [[nodiscard]] std::string hosts() const { return directory + "/hosts"; }
    [[nodiscard]] std::string hostfile() const { return directory + "/hostfile"; }
};

/// Writes both files to a new directory rdma-nccl.JOB.STEP.NODE.PID below the job's TMPDIR (/tmp if unset). If it
/// exists or cannot be created, uses the working directory instead. Must run as the user. Never overwrites a file.
Result<HostsFiles> write_hosts_files(const HostsTable& hosts, const Environment& environment, const std::string& step,
                                     const std::string& node);

/// Removes the files; must run as the user too. Leaves other files, and then the directory itself, in place.
void remove_hosts_files(const HostsFiles& files);

} // namespace rdma_nccl
