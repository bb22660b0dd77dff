// SPDX-License-Identifier: Apache-2.0
// The facts that the checks judge, read once into plain values. The judgements (tools/check/judge.h) use nothing else.
#pragma once

#include "lib/fabric/fabric.h"
#include "lib/fabric_profile/profile.h"
#include "lib/select/port_selection.h"
#include "lib/settings/settings.h"
#include "lib/sys/environment.h"
#include "lib/sys/sysroot.h"
#include "lib/topology/gpu_links.h"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace rdma_nccl::check {

/// Returns nullptr if the map has no such key.
template<typename Map>
const typename Map::mapped_type* find_in(const Map& map, std::string_view key) {
    const auto found = map.find(key);
    return found == map.end() ? nullptr : &found->second;
}

/// Returns the value of a key, or an empty value.
template<typename Map>
typename Map::mapped_type value_in(const Map& map, std::string_view key) {
    const auto* const found = find_in(map, key);
    return found ? *found : typename Map::mapped_type();
}

/// A PCI function: an HCA, a GPU, or a bridge above one.
struct PciFunction {
    std::string path;                  ///< /sys/devices/...
    std::optional<unsigned> width;     ///< lanes of the upstream link (of a port: of the downstream link)
    std::optional<unsigned> max_width; ///< the maximum; absent if a virtual machine does not show it
    std::optional<double> speed;       ///< GT/s
    std::optional<double> max_speed;
    std::string iommu_type;             ///< of its IOMMU group: "identity", "DMA", "DMA-FQ"; empty: no group
    bool config_known = false;          ///< capabilities beyond the first 64 bytes could be read; needs root
    bool config_extended = false;       ///< so could those beyond 256 bytes
    std::optional<bool> acs_redirects;  ///< absent: no ACS capability
    std::optional<bool> relaxed_orders; ///< absent: no PCI Express capability
};

/// net.ipv4.conf: the higher value of `all` and of the interface counts (kernel
/// Documentation/networking/ip-sysctl.rst).
struct NetdevSysctls {
    std::optional<unsigned> rp_filter, arp_ignore, arp_announce;
};

/// What OFED's driver shows for one port; absent with other drivers.
struct RoceQuality {
    std::optional<unsigned> traffic_class;
    std::optional<bool> ecn; ///< on for all priorities that it shows
};

/// Soft and hard limit of a process; absent: unlimited.
struct ProcessLimit {
    std::optional<std::uint64_t> soft, hard;
};

struct LimitFacts {
    bool known = false;
    std::string whose; ///< "this step", "slurmd", "this process"
    bool of_step = false;
    ProcessLimit memlock; ///< bytes
    ProcessLimit open_files;
    bool shm_known = false;
    std::string shm_problem;              ///< why /dev/shm could not be inspected
    std::optional<std::uint64_t> shm_mib; ///< free; absent: it is not a separate file system
};

struct KernelFacts {
    std::string release;               ///< "6.1.0-50-amd64"
    bool virtual_machine = false;      ///< the CPU or the firmware reports a hypervisor
    std::set<std::string> modules;     ///< those of the needed modules that are loaded or built in
    bool modules_known = false;        ///< /sys/module exists
    std::string nvidia_version;        ///< "525.85.12"; empty: no NVIDIA driver
    bool nvidia_open = false;          ///< it has the open kernel modules
    std::string peer_memory;           ///< file that shows a peer memory client; empty: none
    bool rdma_cm_file = false;         ///< /dev/infiniband/rdma_cm exists
    bool dev_known = false;            ///< /dev is part of the root
    bool imex_channel = false;         ///< /dev/nvidia-caps-imex-channels has one
    std::set<std::string> nvidia_gpus; ///< PCI addresses that NVIDIA's driver lists
};

/// How libibverbs behaves in a process like this one.
struct VerbsFacts {
    bool asked = false;            ///< false: the tree is of another machine
    std::string problem;           ///< why there is no answer: no child, or it took too long
    bool only_looked_for = false;  ///< a static command finds the library and cannot load it
    std::string load_error;        ///< dlopen's message, or that it was not found; empty: it could be loaded
    std::string path;              ///< of the library
    std::set<std::string> devices; ///< HCAs for which it has a provider
    std::string warnings;          ///< what it wrote to standard error
    std::string dmabuf_device;     ///< HCA that was asked for DMA-BUF; empty: none could be opened
    std::optional<bool> dmabuf;
};

/// Counters that only increase, by name: "mlx5_1:1 symbol_error", "eth1 carrier_changes".
using Counts = std::map<std::string, std::uint64_t, std::less<>>;

/// The node's state at one time, for comparison with a later check.
struct State {
    std::string boot_id;
    std::int64_t time_us = 0;
    Counts counts;
    std::map<std::string, unsigned, std::less<>> gid_indices; ///< by port, "mlx5_1:1"
    unsigned critical_in_a_row = 0;
    std::string drain; ///< the reason of our last drain, with user and time, as scontrol shows it; empty: none
};

struct Facts {
    std::string host;
    bool live = false; ///< of this machine, not of a tree
    bool root = false; ///< this process can read what only the node's root can read
    Settings settings;
    Fabric fabric;
    FabricChoice choice;
    FabricProfiles fabric_profiles;
    std::set<std::string, std::less<>> not_asked;        ///< HCAs of unknown state: others used up the time
    std::map<std::string, PciFunction, std::less<>> pci; ///< by address
    std::map<std::string, NetdevSysctls, std::less<>> sysctls;
    std::map<std::string, RoceQuality, std::less<>> quality; ///< by port
    std::map<std::string, std::vector<unsigned>, std::less<>> pkeys;
    KernelFacts kernel;
    LimitFacts limits;
    VerbsFacts verbs;
    std::vector<GpuFabric> gpu_fabrics; ///< of this machine's GPUs that have a fabric
    bool nvml_timeout = false;          ///< there is no answer about them
    State now;
    std::optional<State> before; ///< of the last check; absent: none, or before a reboot
    bool has_state_file = false;
};

// How the facts are read. No function fails; facts that cannot be read are absent.

/// Receives the next stage, e.g. "libibverbs". If the check hangs, the parent process reports it.
using StageLog = std::function<void(std::string_view stage)>;

/// Reads all facts except `before` and `has_state_file`, which the caller sets. Skips slow devices, and loads libraries
/// in a child process.
Facts inspect(const SysRoot& root, const Settings& settings, const Environment& environment, const StageLog& stage);

// Parts of inspect():
void inspect_limits(const SysRoot& root, const Environment& environment, Facts& facts);
void inspect_verbs(const SysRoot& root, const Environment& environment, Facts& facts);

/// Returns the process whose limits all steps of this node inherit, unless the user lowers them: "slurmd", started by
/// root, because a user may give any process that name. Returns nullopt if none is visible.
std::optional<std::string> find_slurmd(const SysRoot& root);
/// Parses /proc/PID/limits: "Max locked memory  8388608  unlimited  bytes".
std::optional<ProcessLimit> parse_limit(std::string_view limits, std::string_view name);
/// Parses /proc/driver/nvidia/version: "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  ...".
void parse_nvidia_version(std::string_view text, KernelFacts& kernel);
/// Parses "16.0 GT/s PCIe", and "8 GT/s" of older kernels. Returns nullopt for "Unknown" and for invalid text.
std::optional<double> parse_link_speed(std::string_view text);
/// Sets config_known, config_extended, acs_redirects and relaxed_orders, which only a PCI function's configuration
/// space shows (PCI Express Base Specification, 7.5 and 7.7). `bytes` is the content of the file `config`: 64 bytes for
/// users, 256 or 4096 for root. Accepts any bytes.
void read_pci_config(std::string_view bytes, PciFunction& function);
/// Returns the number of lanes; nullopt for 0, 255 (which some virtual machines show) and invalid text.
std::optional<unsigned> parse_link_width(std::string_view text);

/// True for the node's own root, by /proc/self/uid_map. User 0 of a container's user namespace has outside only the
/// rights of who made it (user_namespaces(7)).
bool is_root(uid_t user, std::string_view uid_map);

} // namespace rdma_nccl::check
