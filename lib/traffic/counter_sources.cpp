// SPDX-License-Identifier: Apache-2.0
// Finds each driver's byte counters. Their names come from Linux: drivers/infiniband/core/sysfs.c for counters/, and
// hw/bnxt_re, hw/efa, hw/mana, hw/irdma, hw/ionic, hw/erdma, sw/rxe for hw_counters.
#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "lib/fabric/kernel_text.h"
#include "lib/traffic/traffic.h"

#include <algorithm>
#include <array>
#include <utility>

namespace rdma_nccl {

namespace {

using std::chrono::milliseconds;

// --- Interfaces ---

std::string file_of(const Netdev& netdev, std::string_view name) {
    return format_text("/sys/class/net/{}/{}", netdev.name, name);
}

/// Compares with ARPHRD_INFINIBAND of <linux/if_arp.h>.
bool is_ipoib(const SysRoot& root, const Netdev& netdev) {
    return root.read(file_of(netdev, "type"), 16).value_or("") == "32";
}

/// Returns true for the host's side of a virtual function or subfunction, "pf0vf3", "c1pf0sf88" (kernel
/// Documentation/networking/representors.rst). The other side counts its traffic.
bool is_representor(const SysRoot& root, const Netdev& netdev) {
    const auto name = root.read(file_of(netdev, "phys_port_name"), 32).value_or("");
    return name.find("pf") != std::string::npos &&
           (name.find("vf") != std::string::npos || name.find("sf") != std::string::npos);
}

/// Counts not a bond of IPoIB interfaces but its slaves, which have a port each, and children of ib0.
bool count_outside(const SysRoot& root, const Netdev& netdev) {
    return !netdev.loopback && (netdev.port ? !is_representor(root, netdev)
                                            : root.exists(file_of(netdev, "bonding")) != is_ipoib(root, netdev));
}

/// For a network namespace without hardware: excludes bridges and tunnels to programs of this node.
bool count_in_container(const SysRoot& root, const Netdev& netdev) {
    return !netdev.loopback && netdev.lowers.empty() && !root.exists(file_of(netdev, "bridge")) &&
           !root.exists(file_of(netdev, "tun_flags"));
}

std::vector<const Netdev*> counted_netdevs(const SysRoot& root, const Fabric& fabric) {
    const auto those_that = [&](bool (*counts)(const SysRoot&, const Netdev&)) {
        const auto all = mapped(fabric.netdevs, [](const Netdev& netdev) { return &netdev; });
        return selected(all, [&](const Netdev* netdev) { return counts(root, *netdev); });
    };
    auto counted = those_that(count_outside);
    std::erase_if(counted, [all = counted](const Netdev* netdev) {
        return std::ranges::find(all, netdev->upper, &Netdev::name) != all.end();
    });
    return counted.empty() ? those_that(count_in_container) : counted;
}

/// Returns true if packets of `name` pass `counted`: the interface itself, the bond above it, or one below a VLAN.
bool passes(const Fabric& fabric, std::string_view name, const Netdev& counted, unsigned depth = 0) {
    constexpr unsigned deepest = 8; // the kernel's nesting limit
    const Netdev* const netdev = fabric.find_netdev(name);
    if (name == counted.name || netdev == nullptr || depth > deepest) {
        return name == counted.name;
    }
    return netdev->upper == counted.name || std::ranges::any_of(netdev->lowers, [&](const std::string& lower) {
               return passes(fabric, lower, counted, depth + 1);
           });
}

/// Returns the port that carries an IPoIB interface. A child, "ib0.8001", has its base's PCI function.
std::string ipoib_port(const Fabric& fabric, const Netdev& netdev) {
    const Netdev* const base = netdev.port ? &netdev : fabric.find_netdev(split_once(netdev.name, '.').key);
    for (const auto& hca : fabric.hcas) {
        if (base != nullptr && !hca.pci_path.empty() && hca.pci_path == base->pci_path) {
            return port_name(hca.name, base->port.value_or(1));
        }
    }
    return {};
}

/// LRH 8, BTH 12, DETH 8, both CRCs 6 (InfiniBand Architecture, volume 1, chapter 9). Then the headers of IP and TCP,
/// which the HCA repeats in each packet that it makes of one packet of the interface (LSO).
constexpr unsigned ipoib_headers = 34 + 52;
constexpr unsigned greatest_datagram = 4092; // a larger MTU means connected mode, whose packets the HCA splits

/// Returns true if `matches(gid)` holds for any GID of the HCA.
bool any_gid(const Hca& hca, const auto& matches) {
    return std::ranges::any_of(hca.ports, [&](const Port& port) { return std::ranges::any_of(port.gids, matches); });
}

/// The headers of RoCE v2: Ethernet 14, IPv4 20 or IPv6 40, UDP 8, BTH 12, ICRC 4.
unsigned roce_headers(const Hca& hca) {
    return 14 + (any_gid(hca, [](const Gid& gid) { return gid.value.is_ipv4(); }) ? 20 : 40) + 8 + 12 + 4;
}

/// siw's only GID begins with the MAC of its interface (drivers/infiniband/sw/siw: siw_query_gid).
bool has_mac_of(const SysRoot& root, const Hca& hca, const Netdev& netdev) {
    constexpr std::size_t mac_digits = 12;
    auto mac = root.read(file_of(netdev, "address"), 64).value_or("");
    std::erase(mac, ':');
    if (mac.size() != mac_digits || hca.ports.empty() || hca.ports.front().gids.empty()) {
        return false;
    }
    auto gid = gid_text(hca.ports.front().gids.front().value);
    std::erase(gid, ':');
    return gid.starts_with(mac);
}

/// Returns the interfaces below a software HCA; usually one.
std::vector<std::string> netdevs_below(const SysRoot& root, const Fabric& fabric, const Hca& hca) {
    const auto parent = root.read(format_text("/sys/class/infiniband/{}/parent", hca.name), 64); // rxe has this file
    if (parent && fabric.find_netdev(*parent) != nullptr) {
        return {*parent};
    }
    std::vector<std::string> names = hca.netdevs;
    for (const auto& netdev : fabric.netdevs) {
        if (names.empty() && !netdev.loopback && has_mac_of(root, hca, netdev)) {
            names.push_back(netdev.name);
        }
    }
    return names;
}

NetdevSource source_of(const SysRoot& root, const Fabric& fabric, const Netdev& netdev) {
    if (is_ipoib(root, netdev)) {
        const unsigned packet = netdev.mtu > 0 && netdev.mtu <= greatest_datagram ? netdev.mtu : 2044;
        return {netdev.name, NetdevRole::Ipoib, ipoib_port(fabric, netdev), packet, ipoib_headers};
    }
    NetdevSource source{netdev.name, NetdevRole::Plain, {}, 0, 0};
    for (const auto& hca : fabric.hcas) {
        const auto below = is_software(hca) ? netdevs_below(root, fabric, hca) : std::vector<std::string>{};
        if (std::ranges::any_of(below, [&](const std::string& name) { return passes(fabric, name, netdev); })) {
            source = {netdev.name, NetdevRole::IncludesRdma, format_text("{}:1", hca.name), path_mtu(netdev.mtu),
                      roce_headers(hca)};
        }
    }
    return source;
}

// --- Ports ---

constexpr std::size_t longest_number = 64;

struct Names {
    std::string_view tx, rx;
};

/// The counter files of a driver. The second pair is optional: both its files exist, or neither.
struct Dialect {
    ByteSource source;
    std::array<Names, 2> files;
};

/// The first dialect whose files exist is used.
constexpr std::array<Dialect, 5> dialects{{
    {ByteSource::HwBytes, {{{"tx_bytes", "rx_bytes"}, {}}}},
    {ByteSource::HwOctets, {{{"ip4OutOctets", "ip4InOctets"}, {"ip6OutOctets", "ip6InOctets"}}}},
    {ByteSource::HwBytes,
     {{{"tx_rdma_ucast_bytes", "rx_rdma_ucast_bytes"}, {"tx_rdma_mcast_bytes", "rx_rdma_mcast_bytes"}}}},
    {ByteSource::HwBytes, {{{"sent_bytes", "rcvd_bytes"}, {}}}},
    {ByteSource::HwBytes, {{{"hw_tx_bytes_cnt", "hw_rx_bytes_cnt"}, {}}}},
}};

/// Finds the counters of one port.
class PortFiles {
public:
    PortFiles(const SysRoot& root, const Fabric& fabric, const Hca& hca, const Port& port)
        : root_(root), fabric_(fabric), hca_(hca),
          directory_(format_text("/sys/class/infiniband/{}/ports/{}", hca.name, port.number)) {
        source_.hca = hca.name;
        source_.port = port.number;
    }

    PortSource find() {
        if (!hca_.answers) {
            source_.why_none = "its driver does not answer";
        } else if (!take_port_data() && !take_hw_counters()) {
            source_.why_none = why_none();
        }
        return std::move(source_);
    }

private:
    bool take_if_there(ByteSource source, const std::string& directory, const Names& names) {
        auto tx = format_text("{}/{}", directory, names.tx);
        auto rx = format_text("{}/{}", directory, names.rx);
        if (names.tx.empty() || !read_count(root_, tx) || !read_count(root_, rx)) {
            return false;
        }
        source_.source = source;
        source_.tx.paths.push_back(std::move(tx));
        source_.rx.paths.push_back(std::move(rx));
        return true;
    }

    /// The counters are in words of four bytes, "octets divided by 4" (InfiniBand Architecture, volume 1, 16.1.3.5).
    bool take_port_data() {
        const bool old_kernel = take_if_there(ByteSource::PortData, directory_ + "/counters_ext", // before 4.5
                                              {"port_xmit_data_64", "port_rcv_data_64"});
        const std::string counters = directory_ + "/counters";
        if (!old_kernel && !take_if_there(ByteSource::PortData, counters, {"port_xmit_data", "port_rcv_data"})) {
            return false;
        }
        // A device with unicast counters also has 64-bit data counters; for others, a value beyond 32 bits shows it.
        const bool extended = old_kernel || root_.exists(counters + "/unicast_xmit_packets");
        for (CounterFiles* files : {&source_.tx, &source_.rx}) {
            files->unit = 4;
            files->saturates = !extended;
        }
        source_.counter_latency = lifespan(directory_ + "/hw_counters");
        return true;
    }

    bool take_hw_counters() {
        const std::string of_port = directory_ + "/hw_counters";
        const std::string of_device = format_text("/sys/class/infiniband/{}/hw_counters", hca_.name);
        return take_from(of_port) || (hca_.ports.size() == 1 && take_from(of_device));
    }

    bool take_from(const std::string& directory) {
        if (!take_known(directory) && !take_similar(directory) && !take_packets(directory)) {
            return false;
        }
        // irdma and EFA query their device about once a second.
        const bool slow = source_.source == ByteSource::HwOctets || hca_.driver == "efa";
        source_.counter_latency = std::max(slow ? milliseconds(2000) : milliseconds(0), lifespan(directory));
        return true;
    }

    bool take_known(const std::string& directory) {
        return std::ranges::any_of(dialects, [&](const Dialect& dialect) {
            const bool there = take_if_there(dialect.source, directory, dialect.files[0]);
            if (there) {
                take_if_there(dialect.source, directory, dialect.files[1]);
            }
            return there;
        });
    }

    /// For an unknown driver: takes the shortest names for bytes that exist for both directions.
    bool take_similar(const std::string& directory) {
        constexpr std::array<std::string_view, 4> endings{"_bytes", "_bytes_cnt", "Octets", "_octets"};
        constexpr std::array<Names, 6> words{
            {{"tx", "rx"}, {"Out", "In"}, {"out", "in"}, {"xmit", "rcv"}, {"sent", "rcvd"}, {"sent", "received"}}};
        auto names = root_.list(directory).value_or(std::vector<std::string>{});
        std::ranges::stable_sort(names, {}, [](const std::string& name) { return name.size(); });
        for (const auto& name : names) {
            const bool is_bytes =
                std::ranges::any_of(endings, [&name](std::string_view ending) { return name.ends_with(ending); });
            for (const auto& word : words) {
                const auto at = name.find(word.tx);
                if (!is_bytes || at == std::string::npos) {
                    continue;
                }
                std::string other = name;
                other.replace(at, word.tx.size(), word.rx);
                if (take_if_there(ByteSource::HwBytes, directory, {name, other})) {
                    return true;
                }
            }
        }
        return false;
    }

    bool take_packets(const std::string& directory) {
        if (!take_if_there(ByteSource::Packets, directory, {"sent_pkts", "rcvd_pkts"})) {
            return false;
        }
        const auto below = netdevs_below(root_, fabric_, hca_);
        const Netdev* const netdev = below.empty() ? nullptr : fabric_.find_netdev(below.front());
        source_.tx.unit = source_.rx.unit = path_mtu(netdev != nullptr ? netdev->mtu : 0);
        return true;
    }

    /// Returns the lifespan; the kernel allows up to 10000 ms.
    [[nodiscard]] milliseconds lifespan(const std::string& directory) const {
        const auto value = read_count(root_, directory + "/lifespan").value_or(0);
        return milliseconds(value <= 10000 ? value : 0);
    }

    [[nodiscard]] std::string why_none() const {
        const auto text = root_.read(directory_ + "/counters/port_xmit_data", longest_number);
        if (text) {
            const std::string_view what = text->empty() ? "empty" : std::string_view(*text);
            return parse_number<std::uint64_t>(*text) ? "counters/port_rcv_data: no number"
                                                      : "counters/port_xmit_data: " + printable(what, 40);
        }
        if (root_.exists(directory_ + "/counters")) {
            return text.error().message;
        }
        if (is_software(hca_) && hca_.node_type == "RNIC") {
            return "siw counts no bytes";
        }
        return root_.exists(directory_ + "/hw_counters") ? "its driver counts no bytes"
                                                         : "no counters (a container's view of the device)";
    }

    const SysRoot& root_;
    const Fabric& fabric_;
    const Hca& hca_;
    std::string directory_;
    PortSource source_;
};

/// Returns true for an HCA below a bond that another HCA uses as a whole: the other one counts its bytes.
bool is_bonded(const Fabric& fabric, const Hca& hca) {
    const auto has_gid_on = [](const Hca& of, const std::string& netdev) {
        return any_gid(of, [&](const Gid& gid) { return gid.netdev == netdev; });
    };
    return !is_software(hca) && std::ranges::any_of(hca.netdevs, [&](const std::string& name) {
        const Netdev* const netdev = fabric.find_netdev(name);
        return netdev != nullptr && !netdev->upper.empty() && !has_gid_on(hca, netdev->upper) &&
               std::ranges::any_of(fabric.hcas, [&](const Hca& other) {
                   return &other != &hca && !is_software(other) && has_gid_on(other, netdev->upper);
               });
    });
}

} // namespace

bool is_software(const Hca& hca) {
    return hca.pci.empty() && hca.driver.empty();
}

unsigned path_mtu(unsigned netdev_mtu) {
    constexpr unsigned longest_headers = 80;
    constexpr unsigned usual = 1024;
    unsigned mtu = 256;
    while (mtu < 4096 && 2 * mtu + longest_headers <= netdev_mtu) {
        mtu *= 2;
    }
    return netdev_mtu == 0 ? usual : mtu;
}

Count read_count(const SysRoot& root, const std::string& path) {
    const auto text = root.read(path, longest_number);
    return text ? parse_number<std::uint64_t>(*text) : std::nullopt;
}

std::string_view name_of(ByteSource source) {
    constexpr std::array<std::string_view, 5> names{"port data", "hw bytes", "octets", "packets x MTU", "none"};
    return names.at(static_cast<std::size_t>(source));
}

milliseconds TrafficSources::counter_latency() const {
    const auto slowest = std::ranges::max_element(ports, {}, &PortSource::counter_latency);
    return slowest == ports.end() ? milliseconds(0) : slowest->counter_latency;
}

TrafficSources traffic_sources(const SysRoot& root, const Fabric& fabric, std::span<const std::string> expected) {
    TrafficSources sources;
    for (const auto& hca : fabric.hcas) {
        if (is_bonded(fabric, hca)) {
            continue;
        }
        for (const auto& port : hca.ports) {
            auto source = PortFiles(root, fabric, hca, port).find();
            source.expected = contains(expected, source.name());
            sources.ports.push_back(std::move(source));
        }
    }
    sources.netdevs =
        mapped(counted_netdevs(root, fabric), [&](const Netdev* netdev) { return source_of(root, fabric, *netdev); });
    return sources;
}

} // namespace rdma_nccl
