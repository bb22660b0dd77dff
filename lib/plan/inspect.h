// SPDX-License-Identifier: Apache-2.0
// Inspection: reads everything that this node's plan depends on, once, into plain values.
#pragma once

#include "lib/fabric/fabric.h"
#include "lib/fabric_profile/profile.h"
#include "lib/placement/placement.h"
#include "lib/plan/variables.h"
#include "lib/settings/settings.h"
#include "lib/slurm/step.h"
#include "lib/sys/environment.h"
#include "lib/sys/resources.h"
#include "lib/sys/sysroot.h"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl {

/// A host name's addresses, or the reason why there are none.
struct Resolution {
    static constexpr std::string_view message_name = "resolution";
    std::string name;
    std::vector<IpAddress> addresses; ///< in the resolver's order
    std::string problem;              ///< set when `addresses` is empty
};

/// Asks the system's resolver (getaddrinfo(3)), which may take seconds when DNS is down. A numeric address resolves to
/// itself.
Resolution resolve_host(const std::string& name);

/// Returns the host name that choose_head() needs resolved; nullopt if it needs none.
std::optional<std::string> name_to_resolve(const Settings& settings, const Step& step, const HeadNode& node);

struct NodeFacts {
    std::string host_name;
    Environment environment; ///< the step's environment, before any change
    Step step;
    HeadNode head_node;
    std::optional<Resolution> head_resolution;
    Program program;
    Fabric fabric;
    NcclConf nccl_conf;
    std::optional<FoundFabricProfile> fabric_profile; ///< not read where it only advises, but by `explain`
    std::vector<std::string> fabric_profile_faults; ///< FabricProfiles::faults, and why no file that it names was found
    std::optional<PortRange> ephemeral_ports;
    VisibleGpus visible_gpus;
    unsigned allowed_cpus = 1;         ///< CPUs of this process's affinity mask
    Limits limits;                     ///< the tasks' limits; filled in only by slurmstepd, which can read them
    bool head_is_to_be_agreed = false; ///< srun offers an exchange: do not resolve an automatic head before it
};

/// Reads the node below `settings.root`. Fails only if that directory cannot be opened. With `timeout` above 0, skips a
/// device, home directory or name service that does not respond within it (lib/fabric/fabric.h).
/// `head_is_to_be_agreed`: the nodes of the step will agree on the head, so it is not resolved here unless the setting
/// names it. `tables`: use Whole to print the GID tables; plans are the same with both. `directory`: of the
/// program's relative scripts; empty: this process's.
Result<NodeFacts> inspect_node(const Settings& settings, const Environment& environment,
                               std::vector<std::string> program,
                               std::chrono::milliseconds timeout = std::chrono::milliseconds(0),
                               bool head_is_to_be_agreed = false, GidTables tables = GidTables::Expected,
                               const std::string& directory = {});

/// Resolves the addresses of facts.head_node if they are needed. With `timeout` above 0, gives up after that time.
void resolve_head(NodeFacts& facts, const Settings& settings,
                  std::chrono::milliseconds timeout = std::chrono::milliseconds(0));

/// Reads the part of NodeFacts that comes from files, below an open root; and the scripts that the step's program is
/// and starts, of this machine whatever the root is, which decide `facts.program`.
void inspect_files(const SysRoot& root, NodeFacts& facts, std::chrono::milliseconds timeout,
                   GidTables tables = GidTables::Whole, const std::string& directory = {});

/// Finds the fabric profile of facts.fabric, and which of its files this node lacks. Waits for a file, which may be on
/// a dead network file system, at most `timeout`, if that is above 0; it then counts as absent, with a fault.
void inspect_fabric_profile(const SysRoot& root, NodeFacts& facts, const Settings& settings,
                            std::chrono::milliseconds timeout);

/// Reads NCCL's configuration files of this process's user. Waits as long as the home directory and passwd do.
NcclConf inspect_nccl_conf(const SysRoot& root, const Environment& environment);

/// Returns the number of CPUs in the calling thread's affinity mask, at least 1.
unsigned count_allowed_cpus();

} // namespace rdma_nccl
