// SPDX-License-Identifier: Apache-2.0
// The bytes that RDMA ports and network interfaces have moved: plain values and the difference between two samples.
// Drivers differ in where they keep their byte counters and in what these include. Only traffic_sources() has to know
// that (doc/facts/rdma-byte-counters.md).
#pragma once

#include "lib/fabric/fabric.h"
#include "lib/sys/sysroot.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

/// The counter that a port's bytes come from, best first.
enum class ByteSource {
    PortData, ///< counters/port_{xmit,rcv}_data, in words of four bytes on every link layer
    HwBytes,  ///< hw_counters/{tx,rx}_bytes: bnxt_re, EFA, mana, and others by the shape of the name
    HwOctets, ///< hw_counters/ip{4,6}{In,Out}Octets: irdma
    Packets,  ///< hw_counters/{sent,rcvd}_pkts times the path MTU: rxe; an estimate, too high if packets are not full
    None,     ///< siw, a container's view of a device, "N/A (no PMA)": the bytes are unknown
};

/// Returns "port data", "hw bytes", "octets", "packets x MTU", "none".
std::string_view name_of(ByteSource source);

/// One direction of a port or interface: files whose sum times `unit` is the number of bytes.
struct CounterFiles {
    std::vector<std::string> paths; ///< absolute, below the root
    std::uint64_t unit = 1;         ///< bytes per count: 4, 1, or the path MTU
    bool saturates = false;         ///< IB PMA without extended counters stops at 4294967295
};

struct PortSource {
    std::string hca;
    unsigned port = 1;
    ByteSource source = ByteSource::None;
    std::string why_none; ///< the reason for None: "no counters/ (a container's view of the device)"
    CounterFiles tx, rx;
    /// How late the counters may be: irdma and EFA refresh them about every second, other drivers keep what they have
    /// read for hw_counters/lifespan.
    std::chrono::milliseconds counter_latency{0};
    bool expected = false;  ///< a port that NCCL was told to use
    std::optional<Gid> gid; ///< the entry that NCCL takes there; absent on InfiniBand, and where it is not known

    /// Returns "mlx5_1:1".
    [[nodiscard]] std::string name() const { return port_name(hca, port); }
};

/// The relation of an interface's bytes to RDMA.
enum class NetdevRole {
    Plain,        ///< only sockets: mlx5, irdma, bnxt, EFA keep RDMA out of the interface's counters
    IncludesRdma, ///< rxe, siw: the interface also counts RDMA packets
    Ipoib,        ///< IP over InfiniBand: the port's data includes the interface's bytes
};

struct NetdevSource {
    std::string name;
    NetdevRole role = NetdevRole::Plain;
    std::string port; ///< for IncludesRdma and Ipoib: "rxe0:1", "mlx5_0:1"
    /// A counter that includes the other's packets also includes their headers: the interface RDMA's, the port IPoIB's.
    unsigned packet = 0;  ///< bytes of a full packet without these headers; not 0 with a port
    unsigned headers = 0; ///< bytes of these headers per packet
};

/// The counters to read on a node. Interfaces count if they are on hardware; bonds count instead of their slaves.
/// Others (lo, veth, bridges, VLANs, macvlan, a virtual function below Hyper-V's netvsc) would count a byte twice or
/// count traffic inside the node. If there are none of these (a container's network namespace), all interfaces without
/// a lower one count.
struct TrafficSources {
    std::vector<PortSource> ports;
    std::vector<NetdevSource> netdevs;

    /// Returns how late the slowest port's counters may be.
    [[nodiscard]] std::chrono::milliseconds counter_latency() const;
};

/// Finds the counters of every port of the fabric except bonded HCAs' slaves. `expected`: ports such as "mlx5_1:1".
TrafficSources traffic_sources(const SysRoot& root, const Fabric& fabric, std::span<const std::string> expected);

/// Returns true for rxe and siw: RDMA in software, on an interface that counts it.
bool is_software(const Hca& hca);

/// Returns the path MTU of RoCE on an interface with this MTU: the largest of 256 to 4096 that fits with the headers
/// (drivers/infiniband/sw/rxe: RXE_MAX_HDR_LENGTH, eth_mtu_int_to_enum). Returns 1024, the value for plain Ethernet, if
/// the MTU is 0 (unknown).
unsigned path_mtu(unsigned netdev_mtu);

/// A sample of one direction, in counts; nullopt if it failed.
using Count = std::optional<std::uint64_t>;

/// Reads the number in a file.
Count read_count(const SysRoot& root, const std::string& path);

struct TrafficSample {
    struct Pair {
        Count tx, rx;
    };
    std::chrono::steady_clock::time_point time;
    std::vector<Pair> ports;   ///< same order as TrafficSources::ports
    std::vector<Pair> netdevs; ///< same order as TrafficSources::netdevs
};

/// Never fails: counters that cannot be read are absent.
TrafficSample read_traffic(const SysRoot& root, const TrafficSources& sources);

/// Bytes of one port or interface in a period of time.
struct Bytes {
    std::uint64_t tx = 0;
    std::uint64_t rx = 0;
    bool at_least = false; ///< a counter was reset, missing or saturated: there may have been more

    [[nodiscard]] std::uint64_t most() const { return tx > rx ? tx : rx; }
    /// Adds both directions, up to the greatest number.
    Bytes& operator+=(const Bytes& more);
    friend bool operator==(const Bytes&, const Bytes&) = default;
};

/// What counts how often a port goes down, at two times: its LinkDownedCounter, which has 8 bits and stops at 255
/// (InfiniBand Architecture, volume 1, 16.1.3.5: PortCounters), or the carrier_changes of its interface, which count
/// each loss of the carrier and each return (Linux Documentation/ABI/testing/sysfs-class-net).
struct LinkDowned {
    static constexpr std::uint64_t greatest = 255;
    std::uint64_t before = 0;
    std::uint64_t after = 0;
    std::string netdev{}; ///< the interface whose carrier_changes these are; empty: the LinkDownedCounter

    /// Returns how often the link went down in between, or the interface lost the carrier that it had at first; more
    /// often is possible if the counter is full now. Returns nullopt if nothing is known: the counter was full before,
    /// or was reset, or the interface is another one.
    [[nodiscard]] std::optional<std::uint64_t> times() const {
        if (after < before || (netdev.empty() && before >= greatest)) {
            return std::nullopt;
        }
        const auto changes = after - before;
        return netdev.empty() ? changes : changes / 2 + changes % 2;
    }
    [[nodiscard]] bool is_full() const { return netdev.empty() && after >= greatest; }
    friend bool operator==(const LinkDowned&, const LinkDowned&) = default;
};

/// The entry of a port's GID table that NCCL took holds another GID than in the plan.
struct GidChange {
    unsigned index = 0;
    IpAddress before, after; ///< "::": the entry is empty
    /// Where `before` is now, with the same RoCE version and interface; absent: nowhere.
    std::optional<unsigned> moved_to{};

    friend bool operator==(const GidChange&, const GidChange&) = default;
};

struct PortTraffic {
    std::string port; ///< "mlx5_1:1"
    ByteSource source = ByteSource::None;
    Bytes bytes;
    bool expected = false;
    std::string problem; ///< "its counters were reset", "could not be read for 12 s", or why there is no source
    std::optional<LinkDowned> link_downed{}; ///< before and after a step; absent: not read, or there is no counter
    std::optional<GidChange> gid_change{};   ///< at the end of a step; absent: it is the same, or not known

    friend bool operator==(const PortTraffic&, const PortTraffic&) = default;
};

struct NetdevTraffic {
    std::string netdev;
    NetdevRole role = NetdevRole::Plain;
    Bytes bytes; ///< as the kernel counts them
    std::string problem;

    friend bool operator==(const NetdevTraffic&, const NetdevTraffic&) = default;
};

/// The bytes that a node has moved.
struct Traffic {
    double seconds = 0;
    std::vector<PortTraffic> ports; ///< RDMA bytes, without IP over InfiniBand
    std::vector<NetdevTraffic> netdevs;
    Bytes rdma;             ///< sum of the ports
    Bytes sockets;          ///< sum of the interfaces, without the RDMA that they include
    bool estimate = false;  ///< `rdma` is an estimate: a port that moved something counts packets
    bool has_source = true; ///< false: no port has readable byte counters

    friend bool operator==(const Traffic&, const Traffic&) = default;
};

/// Adds up samples. Frequent samples lose less when a counter is reset or disappears. If a counter went backwards, its
/// change in that interval is unknown and not counted.
class TrafficMeter {
public:
    explicit TrafficMeter(TrafficSources sources);
    void add(const TrafficSample& sample);
    /// Returns the traffic since the first sample.
    [[nodiscard]] Traffic total() const;
    /// Returns the traffic between the last two samples.
    [[nodiscard]] Traffic last() const;
    [[nodiscard]] const TrafficSources& sources() const { return sources_; }

private:
    using Time = std::chrono::steady_clock::time_point;
    struct Sum {
        Bytes bytes;
        bool late = false; ///< could not be read at first
        bool reset = false;
        bool full = false; ///< a counter is at its maximum
    };
    /// A port or an interface.
    struct Item {
        TrafficSample::Pair known;   ///< the last counts that could be read
        std::optional<Time> read_at; ///< when both could last be read
        bool gone = false;           ///< cannot be read now
        Sum total, last;
    };
    void add(Item& item, const CounterFiles& tx, const CounterFiles& rx, const TrafficSample::Pair& now, Time time);
    [[nodiscard]] Traffic traffic(Sum Item::*sum, double seconds) const;
    [[nodiscard]] std::string problem(const Item& item, const Sum& sum) const;
    void correct(Traffic& traffic) const;
    [[nodiscard]] Bytes sockets_of(const Traffic& traffic, std::size_t index) const;

    TrafficSources sources_;
    std::optional<Time> first_, before_last_, last_;
    std::vector<Item> ports_, netdevs_;
};

} // namespace rdma_nccl
