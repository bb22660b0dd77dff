// SPDX-License-Identifier: Apache-2.0
// The settings (doc/design.md, Settings) as plain values. Parsing is in settings_parse.h; nothing here reads anything.
#pragma once

#include "lib/ip.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl {

enum class Layout { Auto, Rank, Node, Pod };
enum class RoceVersion { V1 = 1, V2 = 2 };
enum class FamilyChoice { Auto, Ipv4, Ipv6 };

/// `net`: the network for rendezvous and sockets. Neither member set: auto.
struct NetChoice {
    std::string interface;          ///< exact interface name, or empty
    std::optional<IpPrefix> prefix; ///< the network of that interface
    [[nodiscard]] bool is_auto() const { return interface.empty() && !prefix; }
};

/// `head`: override of MASTER_ADDR. Both empty: auto.
struct HeadChoice {
    std::string name_or_address; ///< used for every step
    std::string suffix;          ///< appended to the node name of rank 0, "-ib0"
    [[nodiscard]] bool is_auto() const { return name_or_address.empty() && suffix.empty(); }
};

enum class HostsChoice { Off, File, Mount };
/// `memlock`: Ignore keeps the limit, too, and does not warn of a low one.
enum class MemlockChoice { Keep, Raise, Ignore };
/// `bind`: auto is CpuAndMemory, where Slurm left something open.
enum class BindChoice { Auto, Off, Cpu, CpuAndMemory };

/// `verify`: what srun says of the step's bytes at its end.
enum class VerifyChoice {
    Summary, ///< a line, when there is something to say
    Off,
    Full, ///< always, with a table; NCCL writes logs, which are read
};

struct PortRange {
    std::uint16_t first = 0;
    std::uint16_t last = 0; ///< inclusive
};

/// `hca`: names are exact; without a port all ports. No items: auto.
struct HcaChoice {
    struct Item {
        std::string name;
        std::optional<unsigned> port;
    };
    bool exclude = false; ///< written with ^: all but these
    std::vector<Item> items;
    [[nodiscard]] bool is_auto() const { return items.empty(); }
};

/// Values for the four variables of `tuning`; the site file may replace them (doc/facts/recipes.md).
struct TuningValues {
    unsigned ib_timeout = 22;
    unsigned qps_per_connection = 8;
    unsigned socket_nthreads = 4;
    unsigned nsocks_perthread = 8;
};

/// The longest that nodes may wait for each other: slurmstepd has 45 s for all that it does before the tasks start
/// (plugin/node.cpp), and drains the node after 60 (UnkillableStepTimeout, slurm.conf(5)).
inline constexpr unsigned most_exchange_seconds = 40;
/// For users. More is for the site.
inline constexpr unsigned most_users_exchange_seconds = 30;

/// Where a value came from, weakest first.
enum class Origin { Default, SiteFile, Plugstack, Environment, Option };

struct Settings {
    bool enable = false;
    Layout layout = Layout::Auto;
    NetChoice net;
    HeadChoice head;
    std::optional<std::uint16_t> port;
    std::optional<PortRange> port_range;
    bool exchange = true;
    unsigned exchange_seconds = 30; ///< how long the nodes wait for each other; UnkillableStepTimeout is 60
    bool hold = true;
    HostsChoice hosts = HostsChoice::Off;
    bool hosts_mount_allowed = false; ///< the site's `hosts_mount`
    HcaChoice hca;
    std::optional<unsigned> gid;
    FamilyChoice family = FamilyChoice::Auto;
    std::optional<IpPrefix> prefix;
    RoceVersion roce = RoceVersion::V2;
    bool tuning = true;
    TuningValues tuning_values;
    BindChoice bind = BindChoice::Auto;
    bool spawn = false; ///< `rdma-nccl run` is put in front of the program; layout is then auto or node
    bool strict = false;
    MemlockChoice memlock = MemlockChoice::Keep;
    VerifyChoice verify = VerifyChoice::Summary;
    unsigned verbose = 1;
    std::string verify_dir; ///< where srun leaves the verdict as JOB.STEP.json; empty: nowhere
    std::string root = "/";

    /// How each key that is not at its default was given: text and place, "gid" -> {"3", Option, "--rdma-nccl"}.
    struct Given {
        std::string text;
        Origin origin = Origin::Default;
        std::string place; ///< "/etc/rdma-nccl.conf:4", "plugstack.conf", "RDMA_NCCL_GID", "--rdma-nccl"
    };
    std::map<std::string, Given, std::less<>> given;
};

/// Whether the user, and not the site, wants us to act on the step.
inline bool asked_by_user(const Settings& settings) {
    const auto found = settings.given.find("enable");
    return found != settings.given.end() && found->second.origin >= Origin::Environment;
}

} // namespace rdma_nccl
