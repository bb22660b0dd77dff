// SPDX-License-Identifier: Apache-2.0
// What becomes of a plan in a task's container. A container plugin, such as pyxis, puts the image's variables over
// those of the step, and the task no longer sees the node's /etc/nccl.conf.
#pragma once

#include "lib/fabric/fabric.h"
#include "lib/plan/variables.h"
#include "lib/select/port_selection.h"
#include "lib/sys/environment.h"
#include "lib/sys/sysroot.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl {

struct ContainerVariables {
    std::vector<Variable> variables; ///< the planned ones, with what they have to be in the container
    std::vector<std::string> notes;  ///< on variables of the image
};

/// Decides for each planned variable: ours and the user's replace the image's, what the node's nccl.conf says is
/// restored because the container has another one, and a variable that was left to NCCL is removed where the image sets
/// it. A value of a fabric profile gives way to the image's (and see withdraw_fabric_profile()).
/// `outside`: the step's environment, `now`: the task's.
ContainerVariables settle_in_container(std::vector<Variable> planned, const Environment& outside,
                                       const Environment& now);

/// Takes back what a fabric profile sets and this container decides: variables that its own files of NCCL set, with a
/// note, and paths of files that it lacks. Returns the latter: "NCCL_TOPO_FILE=/opt/topo.xml". `now`: the task's
/// environment.
std::vector<std::string> withdraw_fabric_profile(const SysRoot& root, const Environment& now,
                                                 ContainerVariables& settled);

/// What NCCL needs for RDMA and this container lacks. Only the ports that the node's plan uses count.
struct ContainerFacts {
    std::vector<std::string> unseen_hcas;    ///< not in its /sys/class/infiniband
    std::vector<std::string> closed_files;   ///< device files that are not there or not for this user
    bool has_verbs_library = true;           ///< libibverbs.so.1
    std::vector<std::string> no_provider;    ///< HCAs whose driver has no provider beside libibverbs
    std::vector<std::string> unseen_netdevs; ///< interfaces of the ports that are not in its network
    std::vector<std::string> no_plugins;     ///< for the network, that the environment names: "NCCL_NET_PLUGIN=spcx"
    bool needs_ofi_plugin = false;           ///< EFA's ports are used, and there is no aws-ofi-nccl
    std::vector<std::string> unseen_files;   ///< that variables name, "NCCL_TOPO_FILE=/etc/topo.xml"
    std::optional<std::uint64_t> shm_mib;    ///< size of its own /dev/shm
};

/// Reads what this process sees. `fabric` and `choice` are those of the node, `environment` that of the task.
ContainerFacts inspect_container(const SysRoot& root, const Fabric& fabric, const FabricChoice& choice,
                                 const Environment& environment);

/// Returns the names of the providers ("mlx5") in the folder beside libibverbs, which is where Debian and RHEL have
/// them; nullopt if there is no such folder.
std::optional<std::vector<std::string>> verbs_providers(const SysRoot& root, const std::string& libibverbs);

struct NcclPlugin {
    std::string setting; ///< "NCCL_NET_PLUGIN=spcx"
    std::optional<std::string> path;
};

/// Finds the plugins for network, tuner and profiler that the environment names, as NCCL does: by the name itself, and
/// as libnccl-net-NAME.so (src/plugin/plugin_open.cc of 2.27). Leaves out paths that are relative to a program's
/// directory.
std::vector<NcclPlugin> find_plugins(const SysRoot& root, const Environment& environment);

/// Returns a sentence for each thing that is missing, with its cure.
std::vector<std::string> judge_container(const ContainerFacts& facts);

} // namespace rdma_nccl
