// SPDX-License-Identifier: Apache-2.0
// How many bytes RDMA ports and network interfaces have moved: plain values and the arithmetic between two readings.
// Where each device keeps its bytes, and what they include, differs from driver to driver; traffic_sources() knows, and
// everything after it does not have to (facts: kernel Documentation/ABI/stable/sysfs-class-infiniband and the drivers).
#pragma once

#include "lib/fabric.h"
#include "lib/root.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

/// Where a port's bytes are counted, best first.
enum class ByteSource {
    PortData, ///< counters/port_{xmit,rcv}_data, in words of four bytes on every link layer
    HwBytes,  ///< hw_counters/{tx,rx}_bytes: bnxt_re, EFA, mana, and others by the shape of the name
    HwOctets, ///< hw_counters/ip{4,6}{In,Out}Octets: irdma
    Packets,  ///< hw_counters/{sent,rcvd}_pkts times the path MTU: rxe; an estimate
    None,     ///< siw, a container's view of a device, "N/A (no PMA)": nothing can be said
};

/// "port data", "hw bytes", "octets", "packets x MTU", "none".
std::string_view name_of(ByteSource source);

/// One direction of a port or interface: files whose sum, times `unit`, is bytes.
struct CounterFiles {
    std::vector<std::string> paths; ///< absolute, seen from the root
    std::uint64_t unit = 1;         ///< bytes for each count: 4, 1, or the path MTU
    unsigned bits = 64;             ///< 32: wraps, or stops at its greatest value (`saturates`)
    bool saturates = false;         ///< IB PMA without extended counters stops at 4294967295
};

struct PortSource {
    std::string hca;
    unsigned port = 1;
    ByteSource source = ByteSource::None;
    std::string why_none; ///< of None, in words: "no counters/ (a container's view of the device)"
    CounterFiles tx, rx;
    std::chrono::milliseconds settle{0}; ///< how late its counters may be: irdma and EFA refresh about each second
    bool expected = false;               ///< a port that NCCL was told to use

    /// "mlx5_1:1"
    [[nodiscard]] std::string name() const;
};

/// What an interface's bytes have to do with RDMA.
enum class NetdevRole {
    Plain,        ///< sockets alone: mlx5, irdma, bnxt, EFA keep RDMA out of the interface's counters
    IncludesRdma, ///< rxe, siw: RDMA packets are the interface's own
    Ipoib,        ///< IP over InfiniBand: its bytes are in the port's data, too
};

struct NetdevSource {
    std::string name;
    NetdevRole role = NetdevRole::Plain;
    std::string port; ///< of IncludesRdma and Ipoib: "rxe0:1", "mlx5_0:1"
};

/// What is read of a node. Interfaces that would count a byte twice, or that stay inside the node, are not in it: lo,
/// veth, bridges, lowers of a bond, team, VLAN or bridge whose upper is there.
struct TrafficSources {
    std::vector<PortSource> ports;
    std::vector<NetdevSource> netdevs;

    /// How late the slowest port's counters may be.
    [[nodiscard]] std::chrono::milliseconds settle() const;
};

/// Looks at every port of the fabric but those of bonded HCAs' slaves. `expected`: ports as "mlx5_1:1".
TrafficSources traffic_sources(const Root& root, const Fabric& fabric, std::span<const std::string> expected);

/// One reading of one direction, in counts; absent when it could not be read.
using Count = std::optional<std::uint64_t>;

struct TrafficReading {
    struct Pair {
        Count tx, rx;
    };
    std::chrono::steady_clock::time_point time;
    std::vector<Pair> ports;   ///< as TrafficSources::ports
    std::vector<Pair> netdevs; ///< as TrafficSources::netdevs
};

/// Never fails: what cannot be read is absent.
TrafficReading read_traffic(const Root& root, const TrafficSources& sources);

/// Bytes of one port or interface in a span of time.
struct Bytes {
    std::uint64_t tx = 0;
    std::uint64_t rx = 0;
    bool at_least = false; ///< a counter was reset, missing or saturated meanwhile: there may have been more

    [[nodiscard]] std::uint64_t most() const { return tx > rx ? tx : rx; }
    friend bool operator==(const Bytes&, const Bytes&) = default;
};

struct PortTraffic {
    std::string port; ///< "mlx5_1:1"
    ByteSource source = ByteSource::None;
    Bytes bytes;
    bool expected = false;
    std::string problem; ///< "its counters were reset", "gone since 12 s", why there is no source; else empty

    friend bool operator==(const PortTraffic&, const PortTraffic&) = default;
};

struct NetdevTraffic {
    std::string netdev;
    NetdevRole role = NetdevRole::Plain;
    Bytes bytes; ///< as the kernel counts them
    std::string problem;

    friend bool operator==(const NetdevTraffic&, const NetdevTraffic&) = default;
};

/// What a node has moved.
struct Traffic {
    double seconds = 0;
    std::vector<PortTraffic> ports; ///< bytes of RDMA, without IP over InfiniBand
    std::vector<NetdevTraffic> netdevs;
    Bytes rdma;             ///< sum of the ports
    Bytes sockets;          ///< sum of the interfaces, without RDMA that they include
    bool estimate = false;  ///< of `rdma`: a port that moved something is counted in packets
    bool has_source = true; ///< false: no port has bytes to read

    friend bool operator==(const Traffic&, const Traffic&) = default;
};

/// Adds up readings; the more often, the less is lost when a counter wraps, is reset or goes away.
class TrafficMeter {
public:
    explicit TrafficMeter(TrafficSources sources);
    void add(const TrafficReading& reading);
    /// Since the first reading.
    [[nodiscard]] Traffic total() const;
    /// Between the last two readings.
    [[nodiscard]] Traffic last() const;
    [[nodiscard]] const TrafficSources& sources() const { return sources_; }

private:
    struct Sum {
        Bytes bytes;
        unsigned resets = 0;
        std::optional<std::chrono::steady_clock::time_point> gone_since;
    };
    [[nodiscard]] Traffic correct(std::span<const Sum> ports, std::span<const Sum> netdevs, double seconds) const;

    TrafficSources sources_;
    std::optional<TrafficReading> first_, last_;
    double last_seconds_ = 0;
    std::vector<Sum> ports_, netdevs_;           ///< since the first reading
    std::vector<Sum> last_ports_, last_netdevs_; ///< of the last interval
};

} // namespace rdma_nccl
