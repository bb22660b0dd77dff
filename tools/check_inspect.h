// SPDX-License-Identifier: Apache-2.0
// Reads what the checks look at. Nothing here fails as a whole; what cannot be read is absent.
#pragma once

#include "lib/environment.h"
#include "lib/root.h"
#include "tools/check_facts.h"

#include <functional>
#include <string_view>

namespace rdma_nccl {

/// Is told what is read next, "the ports' counters": whoever waits says it when that does not come back.
using StageLog = std::function<void(std::string_view stage)>;

/// All of it; `before` and `has_state_file` are the caller's. Slow devices are left alone, libraries are loaded in a
/// child of this process.
CheckFacts inspect_for_check(const Root& root, const Settings& settings, const Environment& environment,
                             const StageLog& stage);

// Its parts:
void inspect_kernel(const Root& root, CheckFacts& facts);
void inspect_pci(const Root& root, CheckFacts& facts);
void inspect_netdevs(const Root& root, CheckFacts& facts); ///< sysctls, quality
void inspect_counts(const Root& root, CheckFacts& facts);  ///< facts.now, pkeys
void inspect_limits(const Root& root, const Environment& environment, CheckFacts& facts);
void inspect_verbs(CheckFacts& facts);

/// The process whose limits every step of this node has, less what who submits takes away: "slurmd", started by root,
/// as a user may give any process that name. nullopt: none is to be seen.
std::optional<std::string> find_slurmd(const Root& root);
/// /proc/PID/limits: "Max locked memory  8388608  unlimited  bytes".
std::optional<ProcessLimit> parse_limit(std::string_view limits, std::string_view name);
/// /proc/driver/nvidia/version: "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release ...".
void parse_nvidia_version(std::string_view text, KernelFacts& kernel);
/// "16.0 GT/s PCIe", and "8 GT/s" of older kernels; nullopt: "Unknown" and what makes no sense.
std::optional<double> parse_link_speed(std::string_view text);
/// What only a PCI function's configuration space tells (PCI Express Base Specification, 7.5 and 7.7): sets
/// config_known, config_extended, acs_redirects and relaxed_orders from the bytes of the file `config`: 64 of them for
/// users, 256 or 4096 for root. Any bytes may come in.
void read_pci_config(std::string_view bytes, PciFunction& function);
/// Lanes: nullopt for 0, 255 (which some virtual machines show) and what makes no sense.
std::optional<unsigned> parse_link_width(std::string_view text);

} // namespace rdma_nccl
