// SPDX-License-Identifier: Apache-2.0
// How many bytes RDMA ports and network interfaces have moved: plain values and the arithmetic between two readings.
// Where each device keeps its bytes, and what they include, differs from driver to driver; traffic_sources() knows, and
// everything after it does not have to (doc/facts/rdma-byte-counters.md).
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
    Packets, ///< hw_counters/{sent,rcvd}_pkts times the path MTU: rxe; an estimate, too high where packets are not full
    None,    ///< siw, a container's view of a device, "N/A (no PMA)": nothing can be said
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
    /// How late its counters may be: irdma and EFA refresh about each second, others keep what they have read for
    /// hw_counters/lifespan.
    std::chrono::milliseconds settle{0};
    bool expected = false; ///< a port that NCCL was told to use

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
    /// Who counts the other's packets counts their headers too: the interface those of RDMA, the port those of IPoIB.
    unsigned packet = 0;  ///< bytes of a full packet without them, not 0 with a port
    unsigned headers = 0; ///< bytes added to each packet
};

/// What is read of a node. Of interfaces those that stand on hardware, and bonds instead of their slaves: others (lo,
/// veth, bridges, VLANs, macvlan, a virtual function below Hyper-V's netvsc) would count a byte twice or stay inside
/// the node. Where there is none of these (a container's network namespace), all that have none below them.
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
    std::string
        problem; ///< "its counters were reset", "could not be read for 12 s", why there is no source; else empty

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

/// Adds up readings; the more often, the less is lost when a counter wraps, is reset or goes away. What a counter did
/// in an interval in which it went backwards is not known, and not counted.
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
    using Time = std::chrono::steady_clock::time_point;
    struct Sum {
        Bytes bytes;
        bool late = false; ///< could not be read at first
        bool reset = false;
        bool full = false; ///< a counter stands at its greatest value
    };
    /// A port or an interface.
    struct Item {
        TrafficReading::Pair known;  ///< the last that could be read
        std::optional<Time> read_at; ///< when both could
        bool gone = false;           ///< not now
        Sum total, last;
    };
    void add(Item& item, const CounterFiles& tx, const CounterFiles& rx, const TrafficReading::Pair& now, Time time);
    [[nodiscard]] Traffic traffic(Sum Item::*sum, double seconds) const;
    [[nodiscard]] std::string problem(const Item& item, const Sum& sum) const;
    void correct(Traffic& traffic) const;
    [[nodiscard]] Bytes sockets_of(const Traffic& traffic, std::size_t index) const;

    TrafficSources sources_;
    std::optional<Time> first_, before_last_, last_;
    std::vector<Item> ports_, netdevs_;
};

} // namespace rdma_nccl
