// SPDX-License-Identifier: Apache-2.0
// The settings as plain values. Parsing is in parse.h; nothing here reads anything.
#pragma once

#include "lib/net/ip.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl {

enum class Layout { Auto, Rank, Node, Pod };
enum class RoceVersion { V1 = 1, V2 = 2 };
enum class FamilyChoice { Auto, Ipv4, Ipv6 };

/// `net`: the network for rendezvous and sockets. Auto if neither member is set.
struct NetChoice {
    std::string interface;          ///< exact interface name, or empty
    std::optional<IpPrefix> prefix; ///< the network of that interface
    [[nodiscard]] bool is_auto() const { return interface.empty() && !prefix; }
};

/// `head`: overrides MASTER_ADDR. Auto if both are empty.
struct HeadChoice {
    std::string name_or_address; ///< used for every step
    std::string suffix;          ///< appended to the node name of rank 0, e.g. "-ib0"
    [[nodiscard]] bool is_auto() const { return name_or_address.empty() && suffix.empty(); }
};

enum class HostsChoice { Off, File, Mount };
/// `order`: of the step's nodes in RANK and NODE_RANK. Topology: nodes of a switch or block beside each other. Auto is
/// Topology, but says nothing where Slurm's order stays.
enum class OrderChoice { Slurm, Auto, Topology };
/// `memlock`: Ignore also keeps the limit, but does not warn about a low one.
enum class MemlockChoice { Keep, Raise, Ignore };
/// `bind`: Auto is CpuAndMemory as far as Slurm left a choice.
enum class BindChoice { Auto, Off, Cpu, CpuAndMemory };

/// `profile`: the profiler plugin that NCCL loads. It has room for one.
enum class ProfileChoice {
    Off,
    On,        ///< ours, with verify (lib/profile)
    Inspector, ///< NVIDIA's, a library of its own: in LD_LIBRARY_PATH, ld.so's cache or a usual folder
};

/// `verify`: what srun reports about the step's traffic at its end.
enum class VerifyChoice {
    Summary, ///< one line, if there is something to report
    Off,
    Full, ///< always, with a table; makes NCCL write logs and reads them
};

struct PortRange {
    std::uint16_t first = 0;
    std::uint16_t last = 0; ///< inclusive
};

/// `hca`: names are exact; without a port, an item means all ports. Auto if there are no items.
struct HcaChoice {
    struct Item {
        std::string name;
        std::optional<unsigned> port;
    };
    bool exclude = false; ///< written with ^: all except these
    std::vector<Item> items;
    [[nodiscard]] bool is_auto() const { return items.empty(); }
};

/// Values of the four variables of `tuning` (doc/facts/recipes.md). The site file may change them.
struct TuningValues {
    unsigned ib_timeout = 22;
    unsigned qps_per_connection = 8;
    unsigned socket_nthreads = 4;
    unsigned nsocks_perthread = 8;
};

/// The longest time that nodes may wait for each other: slurmstepd has 45 s for everything before the tasks start
/// (plugin/stepd.cpp), and drains the node after 60 s (UnkillableStepTimeout, slurm.conf(5)).
inline constexpr unsigned most_exchange_seconds = 40;
/// The limit for users. Only the site may set more.
inline constexpr unsigned most_users_exchange_seconds = 30;

/// The source of a value, weakest first.
enum class Origin { Default, SiteFile, Plugstack, Environment, Option };

struct Settings {
    bool enable = false;
    Layout layout = Layout::Auto;
    NetChoice net;
    HeadChoice head;
    std::optional<std::uint16_t> port;
    std::optional<PortRange> port_range;
    bool exchange = true;
    unsigned exchange_seconds = 30; ///< how long nodes wait for each other; UnkillableStepTimeout is 60
    bool hold = true;
    OrderChoice order = OrderChoice::Slurm;
    HostsChoice hosts = HostsChoice::Off;
    bool hosts_mount_allowed = false; ///< the site's `hosts_mount`
    HcaChoice hca;
    std::optional<unsigned> gid;
    FamilyChoice family = FamilyChoice::Auto;
    std::optional<IpPrefix> prefix;
    RoceVersion roce = RoceVersion::V2;
    bool tuning = true;
    TuningValues tuning_values;
    bool failover = false;       ///< between the ports of a NIC that NCCL has fused
    bool fabric_profile = false; ///< sets what the profile of this kind of machine says (lib/fabric_profile)
    BindChoice bind = BindChoice::Auto;
    bool spawn = false; ///< puts `rdma-nccl run` in front of the program; layout is then auto or node
    bool strict = false;
    MemlockChoice memlock = MemlockChoice::Keep;
    VerifyChoice verify = VerifyChoice::Summary;
    ProfileChoice profile = ProfileChoice::Off;
    bool recorder = false; ///< makes PyTorch's flight recorder record (lib/flight_recorder)
    unsigned verbose = 1;
    std::string verify_dir; ///< where srun writes the verdict as JOB.STEP.json; empty: nowhere
    std::string root = "/";

    /// How each key that is not at its default was given: its text and place, "gid" -> {"3", Option, "--rdma-nccl"}.
    struct Given {
        std::string text;
        Origin origin = Origin::Default;
        std::string place; ///< "/etc/rdma-nccl.conf:4", "plugstack.conf", "RDMA_NCCL_GID", "--rdma-nccl"
    };
    std::map<std::string, Given, std::less<>> given;
};

/// Returns true if the user, not the site, gave this key.
bool given_by_user(const Settings& settings, std::string_view key);

/// Returns true if the user, not the site, asked us to act on the step.
inline bool asked_by_user(const Settings& settings) {
    return given_by_user(settings, "enable");
}

} // namespace rdma_nccl
