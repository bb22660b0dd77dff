// SPDX-License-Identifier: Apache-2.0
// Reads the facts that the checks judge. No function fails; facts that cannot be read are absent.
#pragma once

#include "lib/sys/environment.h"
#include "lib/sys/sysroot.h"
#include "tools/check/facts.h"

#include <functional>
#include <string_view>

namespace rdma_nccl::check {

/// Receives the next stage, e.g. "libibverbs". If the check hangs, the parent process reports it.
using StageLog = std::function<void(std::string_view stage)>;

/// Reads all facts except `before` and `has_state_file`, which the caller sets. Skips slow devices, and loads libraries
/// in a child process.
Facts inspect(const SysRoot& root, const Settings& settings, const Environment& environment, const StageLog& stage);

// Parts of inspect():
void inspect_limits(const SysRoot& root, const Environment& environment, Facts& facts);
void inspect_verbs(Facts& facts);

/// Returns the process whose limits all steps of this node inherit, unless the user lowers them: "slurmd", started by
/// root, because a user may give any process that name. Returns nullopt if none is visible.
std::optional<std::string> find_slurmd(const SysRoot& root);
/// Parses /proc/PID/limits: "Max locked memory  8388608  unlimited  bytes".
std::optional<ProcessLimit> parse_limit(std::string_view limits, std::string_view name);
/// Parses /proc/driver/nvidia/version: "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release
/// ...".
void parse_nvidia_version(std::string_view text, KernelFacts& kernel);
/// Parses "16.0 GT/s PCIe", and "8 GT/s" of older kernels. Returns nullopt for "Unknown" and for invalid text.
std::optional<double> parse_link_speed(std::string_view text);
/// Sets config_known, config_extended, acs_redirects and relaxed_orders, which only a PCI function's configuration
/// space shows (PCI Express Base Specification, 7.5 and 7.7). `bytes` is the content of the file `config`: 64 bytes for
/// users, 256 or 4096 for root. Accepts any bytes.
void read_pci_config(std::string_view bytes, PciFunction& function);
/// Returns the number of lanes; nullopt for 0, 255 (which some virtual machines show) and invalid text.
std::optional<unsigned> parse_link_width(std::string_view text);

} // namespace rdma_nccl::check
