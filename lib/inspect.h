// SPDX-License-Identifier: Apache-2.0
// The inspect half of the house: everything a plan for this node depends on, read once into plain values.
#pragma once

#include "lib/environment.h"
#include "lib/exchange_values.h"
#include "lib/fabric.h"
#include "lib/head.h"
#include "lib/layout.h"
#include "lib/limits.h"
#include "lib/root.h"
#include "lib/settings.h"
#include "lib/step.h"
#include "lib/variables.h"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl {

struct NodeFacts {
    std::string host_name;
    Environment environment; ///< of the step, before anything is changed
    Step step;
    HeadNode head_node;
    std::optional<Resolution> head_resolution;
    Program program;
    Fabric fabric;
    NcclConf nccl_conf;
    std::optional<PortRange> ephemeral_ports;
    unsigned visible_gpus = 0;
    std::string visible_gpus_source;          ///< "CUDA_VISIBLE_DEVICES", ...
    std::vector<std::string> visible_gpu_ids; ///< as the source names them
    unsigned allowed_cpus = 1;                ///< CPUs of this process's affinity mask
    Limits limits;                            ///< of the tasks; read by slurmstepd alone, who can tell
    bool head_is_to_be_agreed = false;        ///< srun offers an exchange: nothing is asked about the head before
    std::optional<PortBlock> held_ports;      ///< by this node, for the step
    std::optional<Agreement> agreement;       ///< with the other nodes of the step
    bool unequal_gpus = false;                ///< no agreement, and nodes have different numbers of GPUs
};

/// Reads the node below `settings.root`. Fails only when that directory cannot be opened. With `timeout` above 0, a
/// device, a user's directory or a name service that does not answer for so long is left alone (lib/silent_devices.h).
/// `head_is_to_be_agreed`: the nodes of the step will agree on it, so nothing is asked about it. `tables`: Whole to
/// print them; plans do not differ.
Result<NodeFacts> inspect_node(const Settings& settings, const Environment& environment,
                               std::vector<std::string> program,
                               std::chrono::milliseconds timeout = std::chrono::milliseconds(0),
                               bool head_is_to_be_agreed = false, GidTables tables = GidTables::Expected);

/// The addresses of facts.head_node by the resolver, where they are needed. With `timeout` above 0, no longer than
/// that.
void resolve_head(NodeFacts& facts, const Settings& settings,
                  std::chrono::milliseconds timeout = std::chrono::milliseconds(0));

/// The files of the node, from an open root: what of NodeFacts comes from files at all.
void inspect_files(const Root& root, NodeFacts& facts, std::chrono::milliseconds timeout,
                   GidTables tables = GidTables::Whole);

/// CPUs in the calling thread's affinity mask, at least 1.
unsigned count_allowed_cpus();

} // namespace rdma_nccl
