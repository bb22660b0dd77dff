// SPDX-License-Identifier: Apache-2.0
// The variables of NCCL and of the libraries beside it. Values set by the user or in one of NCCL's files always stay,
// and we report their effects. And the ports that NCCL uses with them, one rule for the plan, the evidence and the live
// view.
#pragma once

#include "lib/plan/plan.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

/// Returns the user's value of an NCCL variable, from the environment or from one of NCCL's files; nullopt if the value
/// is ours or there is none.
std::optional<std::string> nccl_override(const NodeFacts& facts, std::string_view name);

/// Parses a number as NCCL does (strtoll with base 0; src/misc/param.cc): "0x1" and "1 " are 1, text without a number
/// is 0. Returns nullopt where NCCL takes its default: for empty text, and for numbers beyond 64 bits.
std::optional<long> nccl_number(const std::optional<std::string>& text);

/// Returns the first GID variable that the user has set. NCCL may then take any entry of a GID table.
std::optional<std::string_view> gid_override(const NodeFacts& facts);

/// Sets PortChoice::nccl_effective of the used RoCE ports to the GID index that NCCL takes with the user's variables
/// and, where the user sets none, with ours.
void model_effective(const NodeFacts& facts, const Settings& settings, FabricChoice& choice);

/// Returns the problems that the user's variables cause: a GID other than the chosen one, ports that cannot or should
/// not be used, an interface that does not exist, RDMA disabled.
std::vector<std::string> judge_nccl_overrides(const NodeFacts& facts, const FabricChoice& choice);

/// Returns whether a list in the form of NCCL_IB_HCA and NCCL_SOCKET_IFNAME, [^][=]NAME[:PORT[:RAIL[:PLANE]]][,...],
/// matches (parseStringList() and matchIfList() of NCCL 2.30.7, src/misc/utils.cc). Accepts any text; an empty list
/// matches everything. Names are prefixes unless the list begins with '='. A name without a port, or with an empty one
/// (port 0 for NCCL 2.30.4 and older), matches every port.
bool nccl_list_matches(std::string_view list, std::string_view name, std::optional<unsigned> port = std::nullopt);

struct PortInUse {
    const Hca* hca = nullptr;
    const Port* port = nullptr;

    /// "mlx5_1:1"
    [[nodiscard]] std::string name() const { return port_name(hca->name, port->number); }
};

/// NCCL opens every ACTIVE port of InfiniBand or Ethernet (ncclIbInitDevices, NCCL 2.28 src/transport/net_ib.cc).
bool nccl_opens(const Port& port);

/// The ports of `choice`; where the user has set NCCL_IB_HCA, the ports that NCCL opens and that value matches. An
/// empty value matches all of them. Pointers into `facts`, in the order of its HCAs.
std::vector<PortInUse> ports_in_use(const NodeFacts& facts, const FabricChoice& choice);

/// Adds the variables of NCCL, Gloo, UCX and NVSHMEM that name the ports, GIDs and interfaces to use, following the
/// decisions in `plan` so far.
void add_nccl(VariableList& variables, const Plan& plan, const NodeFacts& facts, const Settings& settings);

inline constexpr std::string_view failover_variable = "NCCL_IB_RESILIENCY_PORT_FAILOVER";

/// Returns the value of failover_variable that NCCL reads in the tasks, ours or the user's; its default is "0".
std::string failover_of(const NodeFacts& facts, const Plan& plan);

/// Returns which ports have no other to which NCCL could fail over, if the user asks for that (failover=on). By itself
/// NCCL fuses the ports of one PCI bus (NCCL_NET_MERGE_LEVEL=PORT), or none with our NCCL_IB_MERGE_NICS=0; what the
/// user's variables fuse is not known.
std::vector<std::string> judge_failover(const NodeFacts& facts, const FabricChoice& choice, const Settings& settings);

/// Adds NCCL_DEBUG, NCCL_DEBUG_SUBSYS and NCCL_DEBUG_FILE, for logs from which a step can be judged (verify=full).
/// `directory` is an absolute path that each rank can write to. Returns why there will be no log, or what it will lack.
std::vector<std::string> add_nccl_debug(VariableList& variables, const NodeFacts& facts, std::string_view directory);

/// Adds NCCL_PROFILER_PLUGIN, with the plugin's installed file, and the directory for its counters (profile=on).
/// Returns why they will not be there.
std::optional<std::string> add_nccl_profiler(VariableList& variables, const NodeFacts& facts,
                                             std::string_view directory);

/// The file name of NVIDIA's Inspector (plugins/profiler/inspector of NCCL's source, ext-profiler/inspector
/// before 2.29.7).
inline constexpr const char* inspector_library = "libnccl-profiler-inspector.so";

/// Makes NCCL load the Inspector from `path`, and the Inspector write to `directory` (profile=inspector). Without a
/// path, or where no profiler plugin is loaded, adds nothing and returns why.
std::optional<std::string> add_nccl_inspector(VariableList& variables, const NodeFacts& facts,
                                              const std::optional<std::string>& path, std::string_view directory);

} // namespace rdma_nccl
