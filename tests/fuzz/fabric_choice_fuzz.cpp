// SPDX-License-Identifier: Apache-2.0
// A machine of any kind, and what is chosen on it. The input is one item per line; its first letter says what it is,
// and each letter behind it picks from a table below: 'a' or '0' the first value, and so on, around and around.
//
//     H driver, PCI function, node type, device file, answers, PF, interface of the function   an HCA
//     P state, link layer, rate, number of the port after the last one's                        a port of it
//     G step from the last index, address, its last byte, type, interface                       a GID of that
//     L length of the GID table behind the last entry                                           of that port
//     N name, up, speed, PCI function, upper, lower, port                                       an interface
//     A address, its last byte, prefix length                                                   an address of it
//     V PCI function                                                                            a GPU
//     D interface                                                                               a default route
//     S settings as in --rdma-nccl=
#include "lib/base/text.h"
#include "lib/settings/parse.h"
#include "tests/fuzz/choice_check.h"
#include "tests/fuzz/fabric_check.h"
#include "tests/fuzz/plan_check.h"

#include <array>
#include <cstddef>
#include <cstdint>

using namespace rdma_nccl;

namespace {

template<std::size_t N>
using Table = std::array<std::string_view, N>;

constexpr Table<5> drivers = {"mlx5_core", "bnxt_en", "efa", "", "irdma"};
constexpr Table<5> node_types = {"CA", "RNIC", "", "switch", "unspecified"};
constexpr Table<6> states = {"ACTIVE", "DOWN", "INIT", "", "ARMED", "ACTIVE_DEFER"};
constexpr std::array<double, 6> speeds = {200, 100, 0, 10, 400, 2.5};

// The first six stand below one switch in pairs (a GPU, an HCA and its VF), then two root ports, another bridge,
// nothing.
constexpr Table<10> functions = {
    "/sys/devices/pci0000:50/0000:50:01.0/0000:51:00.0/0000:52:00.0/0000:53:00.0",
    "/sys/devices/pci0000:50/0000:50:01.0/0000:51:00.0/0000:52:04.0/0000:56:00.0",
    "/sys/devices/pci0000:50/0000:50:01.0/0000:51:00.0/0000:52:04.0/0000:56:00.1",
    "/sys/devices/pci0000:88/0000:88:01.0/0000:89:00.0/0000:8a:00.0/0000:8d:00.0",
    "/sys/devices/pci0000:88/0000:88:01.0/0000:89:00.0/0000:8a:04.0/0000:90:00.0",
    "/sys/devices/pci0000:88/0000:88:01.0/0000:89:00.0/0000:8a:04.0/0000:90:00.1",
    "/sys/devices/pci0000:50/0000:50:02.0/0000:54:00.0",
    "/sys/devices/pci0000:1a/0000:1a:01.0/0000:1b:00.0",
    "/sys/devices/pci0000:1a/0000:1a:01.0/0000:1b:00.1",
    "",
};

constexpr Table<14> netdev_names = {"eth0", "eth1",    "eth2",  "eth3",  "bond0",      "eth1.100", "ib0",
                                    "lo",   "docker0", "virbr", "veth1", "ovs-system", "br-ex",    ""};

// Each with its last byte from the input. The first are the common ones.
constexpr Table<14> addresses = {"25.11.128.0", "10.0.60.0",  "fe80::ba59:9fff:fe00:0",
                                 "fd00::",      "2001:db8::", "169.254.3.0",
                                 "127.0.0.0",   "::",         "0.0.0.0",
                                 "224.0.0.0",   "ff02::",     "fe80::",
                                 "25.11.129.0", "::1:0:0"};

constexpr std::array<std::optional<GidType>, 3> types = {GidType::RoceV2, GidType::RoceV1, std::nullopt};
constexpr std::array<unsigned, 8> steps = {1, 2, 3, 5, 8, 250, 255, 1000};
constexpr std::array<unsigned, 6> lengths = {24, 27, 16, 32, 0, 64};

/// The letters of one line, each taken once; a missing one is as 'a'.
class Letters {
public:
    explicit Letters(std::string_view text) : text_(text) {}

    std::size_t next(std::size_t count) {
        if (text_.empty()) {
            return 0;
        }
        const auto letter = static_cast<unsigned char>(text_.front());
        text_.remove_prefix(1);
        const unsigned first = letter >= 'a' ? 'a' : letter >= '0' ? '0' : 0;
        return (letter - first) % count;
    }
    template<typename T, std::size_t N>
    T pick(const std::array<T, N>& table) {
        return table.at(next(N));
    }
    template<std::size_t N>
    std::string word(const Table<N>& table) {
        return std::string(pick(table));
    }
    IpAddress address() {
        auto bytes = IpAddress::parse(pick(addresses))->bytes();
        bytes[15] = static_cast<std::uint8_t>(bytes[15] + next(64));
        return IpAddress(bytes);
    }

private:
    std::string_view text_;
};

/// Builds what read_fabric() could have read.
class Machine {
public:
    Fabric fabric;
    Settings settings;

    void add(std::string_view line) {
        Letters letters(line.empty() ? line : line.substr(1));
        switch (line.empty() ? '\0' : line.front()) {
        case 'H':
            return add_hca(letters);
        case 'P':
            return add_port(letters);
        case 'G':
            return add_gid(letters);
        case 'L':
            return add_empty_slots(letters);
        case 'N':
            return add_netdev(letters);
        case 'A':
            return add_address(letters);
        case 'V':
            return add_gpu(letters);
        case 'D':
            return add_default_route(letters);
        case 'S':
            return add_settings(line.substr(1));
        default:
            return;
        }
    }

private:
    static constexpr std::size_t most_items = 64;

    void add_hca(Letters& letters) {
        if (fabric.hcas.size() == most_items) {
            return;
        }
        Hca hca;
        hca.name = "mlx5_" + std::to_string(fabric.hcas.size());
        hca.driver = letters.word(drivers);
        hca.pci_path = letters.word(functions);
        hca.pci = base_name(hca.pci_path);
        hca.node_type = letters.word(node_types);
        hca.device_access = letters.pick(std::array{DeviceAccess::Unknown, DeviceAccess::Open, DeviceAccess::Missing,
                                                    DeviceAccess::Denied, DeviceAccess::NoVerbsDevice});
        hca.device_file = "/dev/infiniband/uverbs0";
        hca.answers = letters.next(2) == 0;
        // The last function is none, and comes first here: most are no VF.
        hca.physical_function = base_name(functions.at((letters.next(functions.size()) + 9) % functions.size()));
        add_name(hca.netdevs, letters.word(netdev_names));
        fabric.hcas.push_back(std::move(hca));
    }

    void add_port(Letters& letters) {
        if (fabric.hcas.empty() || fabric.hcas.back().ports.size() == most_items) {
            return;
        }
        auto& ports = fabric.hcas.back().ports;
        Port port;
        port.state = letters.word(states);
        port.physical_state = port.state == "ACTIVE" ? "LinkUp" : "";
        port.link_layer = letters.pick(std::array{LinkLayer::Ethernet, LinkLayer::InfiniBand, LinkLayer::Unknown});
        port.rate_gbps = letters.pick(speeds);
        port.rate_is_default = port.rate_gbps == 10 || port.rate_gbps == 2.5;
        port.number = (ports.empty() ? 0 : ports.back().number) + 1 + static_cast<unsigned>(letters.next(3));
        ports.push_back(std::move(port));
    }

    Port* last_port() {
        return fabric.hcas.empty() || fabric.hcas.back().ports.empty() ? nullptr : &fabric.hcas.back().ports.back();
    }

    void add_gid(Letters& letters) {
        Port* const port = last_port();
        Gid gid;
        gid.index = letters.pick(steps) - 1;
        if (port == nullptr || port->gid_table_length + gid.index >= 4096) {
            return;
        }
        gid.index += static_cast<unsigned>(port->gid_table_length);
        gid.value = letters.address();
        gid.type = letters.pick(types);
        gid.type_problem = gid.type ? TypeProblem::None : TypeProblem::Unreadable;
        gid.type_text = gid.type ? "" : "Invalid argument";
        gid.netdev = letters.word(netdev_names);
        if (gid.value == IpAddress()) {
            return;
        }
        port->gid_table_length = gid.index + 1;
        add_name(fabric.hcas.back().netdevs, gid.netdev);
        port->gids.push_back(std::move(gid));
    }

    void add_empty_slots(Letters& letters) {
        if (Port* const port = last_port(); port != nullptr && port->gid_table_length < 4096) {
            port->gid_table_length += letters.pick(steps);
        }
    }

    void add_netdev(Letters& letters) {
        Netdev netdev;
        netdev.name = letters.word(netdev_names);
        netdev.ifindex = static_cast<unsigned>(fabric.netdevs.size()) + 1;
        netdev.loopback = netdev.name == "lo";
        netdev.up = letters.next(2) == 0;
        netdev.speed_gbps = letters.pick(speeds);
        netdev.pci_path = functions.at((letters.next(functions.size()) + 9) % functions.size());
        netdev.upper = netdev_names.at((letters.next(netdev_names.size()) + 13) % netdev_names.size());
        add_name(netdev.lowers, std::string(netdev_names.at((letters.next(netdev_names.size()) + 13) % 14)));
        netdev.port =
            netdev.pci_path.empty() ? std::nullopt : std::optional(static_cast<unsigned>(letters.next(3)) + 1);
        if (!netdev.name.empty() && fabric.find_netdev(netdev.name) == nullptr) {
            fabric.netdevs.push_back(std::move(netdev));
        }
    }

    void add_address(Letters& letters) {
        if (fabric.netdevs.empty() || fabric.netdevs.back().addresses.size() == most_items) {
            return;
        }
        const IpAddress address = letters.address();
        const unsigned longest = address.is_ipv4() ? 32 : 128;
        fabric.netdevs.back().addresses.push_back({address, std::min(letters.pick(lengths), longest)});
    }

    void add_gpu(Letters& letters) {
        Gpu gpu;
        gpu.pci_path = letters.word(functions);
        gpu.pci = base_name(gpu.pci_path);
        gpu.vendor = "nvidia";
        if (!gpu.pci.empty() && fabric.gpus.size() < most_items) {
            fabric.gpus.push_back(std::move(gpu));
        }
    }

    void add_default_route(Letters& letters) { add_name(fabric.default_route_netdevs, letters.word(netdev_names)); }

    void add_settings(std::string_view text) {
        SettingsSources sources;
        sources.option = std::string(text);
        if (const auto outcome = resolve_settings(sources); outcome.errors.empty()) {
            settings = outcome.settings;
        }
    }

    static void add_name(std::vector<std::string>& names, std::string name) {
        if (!name.empty() && std::find(names.begin(), names.end(), name) == names.end()) {
            names.push_back(std::move(name));
        }
    }
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    Machine machine;
    for (const auto line : split(std::string_view(reinterpret_cast<const char*>(data), size), '\n')) {
        machine.add(line);
    }
    fuzz::check_fabric(machine.fabric);
    const auto choice = choose_fabric(machine.fabric, machine.settings);
    fuzz::check_choice(machine.fabric, choice, machine.settings);
    fuzz::check_same_answer(machine.fabric, choice, machine.settings);
    fuzz::check_plan(machine.fabric, machine.settings);
    return 0;
}
