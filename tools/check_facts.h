// SPDX-License-Identifier: Apache-2.0
// What the checks look at, read once into plain values (tools/check_inspect.h); the judgements (tools/check_judge.h)
// see nothing else.
#pragma once

#include "lib/fabric.h"
#include "lib/fabric_choice.h"
#include "lib/settings.h"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace rdma_nccl {

/// A PCI function: an HCA, a GPU, or a bridge above one.
struct PciFunction {
    std::string path;                  ///< /sys/devices/...
    std::optional<unsigned> width;     ///< lanes of the link to what is above (of a port: to what is below)
    std::optional<unsigned> max_width; ///< that it could have; absent where a virtual machine does not tell
    std::optional<double> speed;       ///< GT/s
    std::optional<double> max_speed;
    std::string iommu_type;             ///< of its group: "identity", "DMA", "DMA-FQ"; empty: no group
    bool config_known = false;          ///< the capabilities beyond the first 64 bytes were read: root only
    bool config_extended = false;       ///< and those beyond 256
    std::optional<bool> acs_redirects;  ///< absent: it has no such capability
    std::optional<bool> relaxed_orders; ///< absent: no PCI Express capability
};

/// net.ipv4.conf: the stronger of `all` and the interface counts (kernel Documentation/networking/ip-sysctl.rst).
struct NetdevSysctls {
    std::optional<unsigned> rp_filter, arp_ignore, arp_announce;
};

/// What the driver of OFED shows of one port; absent elsewhere.
struct RoceQuality {
    std::optional<unsigned> traffic_class;
    std::optional<bool> ecn; ///< on for all priorities that it shows
};

/// A limit of a process: soft and hard; absent: unlimited.
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
    std::string shm_problem;              ///< why /dev/shm could not be asked
    std::optional<std::uint64_t> shm_mib; ///< free; absent: it is no file system of its own
};

struct KernelFacts {
    std::string release;               ///< "6.1.0-50-amd64"
    bool virtual_machine = false;      ///< the CPU says that there is a hypervisor
    std::set<std::string> modules;     ///< of those asked for
    bool modules_known = false;        ///< /sys/module is there
    std::string nvidia_version;        ///< "525.85.12"; empty: no NVIDIA driver
    bool nvidia_open = false;          ///< its open kernel modules
    std::string peer_memory;           ///< file that shows a peer memory client; empty: none
    bool rdma_cm_file = false;         ///< /dev/infiniband/rdma_cm
    bool dev_known = false;            ///< /dev is part of the root
    std::set<std::string> nvidia_gpus; ///< PCI addresses that its driver knows
};

/// What libibverbs does in a process like this one.
struct VerbsFacts {
    bool asked = false;            ///< false: another machine's tree
    std::string problem;           ///< it did not come back in time, no child
    std::string load_error;        ///< dlopen's words; empty: it is there
    std::string path;              ///< of the library
    std::set<std::string> devices; ///< HCAs for which it has a provider
    std::string warnings;          ///< what it wrote to standard error
    std::string dmabuf_device;     ///< HCA that was asked for DMA-BUF; empty: none could be opened
    std::optional<bool> dmabuf;
};

/// Counters that only grow, by name: "mlx5_1:1 symbol_error", "eth1 carrier_changes".
using Counts = std::map<std::string, std::uint64_t, std::less<>>;

/// The node at one time, to compare another with.
struct CheckState {
    std::string boot_id;
    std::int64_t time_us = 0;
    Counts counts;
    std::map<std::string, unsigned, std::less<>> gid_indices; ///< by port, "mlx5_1:1"
    unsigned critical_in_a_row = 0;
    std::string drain; ///< the reason of our last drain, with who and when, as scontrol shows it; empty: none
};

struct CheckFacts {
    std::string host;
    bool live = false; ///< of this machine, not of a tree
    bool root = false; ///< this process may see what only root sees
    Settings settings;
    Fabric fabric;
    FabricChoice choice;
    std::set<std::string, std::less<>> not_asked;        ///< HCAs of which nothing is known: others took all the time
    std::map<std::string, PciFunction, std::less<>> pci; ///< by address
    std::map<std::string, NetdevSysctls, std::less<>> sysctls;
    std::map<std::string, RoceQuality, std::less<>> quality; ///< by port
    std::map<std::string, std::vector<unsigned>, std::less<>> pkeys;
    KernelFacts kernel;
    LimitFacts limits;
    VerbsFacts verbs;
    CheckState now;
    std::optional<CheckState> before; ///< of the last check; absent: none, or of another boot
    bool has_state_file = false;
};

} // namespace rdma_nccl
