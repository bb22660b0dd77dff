// SPDX-License-Identifier: Apache-2.0
// The table of a step's nodes for programs that want one (`hosts`): a hosts file (hosts(5)) and a DeepSpeed hostfile.
#pragma once

#include "lib/environment.h"
#include "lib/exchange_values.h"
#include "lib/result.h"

#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl {

/// "10.1.0.1\tn01" lines.
std::string hosts_text(const HostsTable& hosts);

/// "n01 slots=8" lines.
std::string hostfile_text(const HostsTable& hosts);

/// hosts=mount: what the tasks see as /etc/hosts, and programs with set-user-ID bits that they start.
struct EtcHosts {
    std::string text;    ///< empty: nothing is mounted
    std::string warning; ///< empty: none
};

/// Decides that. The user may have written any table, by a server of their own: of it come in, behind the site's lines,
/// only nodes of the step that the site's lines do not name, each once, with an address that other nodes can reach.
/// `step_nodes`: by slurmctld; `own`: the node's /etc/hosts; nullopt: not known.
EtcHosts make_etc_hosts(const HostsTable& hosts, const std::optional<std::vector<std::string>>& step_nodes,
                        const std::optional<std::string>& own);

/// Where both were written, in a directory of this step and node alone.
struct HostsFiles {
    std::string directory;

    [[nodiscard]] std::string hosts() const { return directory + "/hosts"; }
    [[nodiscard]] std::string hostfile() const { return directory + "/hostfile"; }
};

/// Below the job's TMPDIR (/tmp when it has none), or where that cannot be written to, the working directory, as
/// rdma-nccl.JOB.STEP.NODE.PID. To be called as the user. Nothing that is there is overwritten: a directory of that
/// name makes it fail.
Result<HostsFiles> write_hosts_files(const HostsTable& hosts, const Environment& environment, const std::string& step,
                                     const std::string& node);

/// As the user, too. What is not ours in the directory stays, and the directory with it.
void remove_hosts_files(const HostsFiles& files);

} // namespace rdma_nccl
