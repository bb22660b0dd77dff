// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/hca.h"

#include "lib/base/format.h"
#include "lib/base/names.h"
#include "lib/base/text.h"
#include "lib/fabric/expected_gids.h"
#include "lib/fabric/pci.h"
#include "lib/fabric/sysfs_text.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>

namespace rdma_nccl {

namespace {

constexpr std::string_view class_directory = "/sys/class/infiniband";
constexpr std::size_t most_hcas = 256;
constexpr std::size_t most_ports = 64;
constexpr unsigned most_slots = 65536;
constexpr std::size_t short_file = 128; // one word or one GID
constexpr std::string_view empty_slot = "0000:0000:0000:0000:0000:0000:0000:0000";

/// Reads a file that every device has. If it cannot be read, adds a note and returns "".
std::string read_noted(const Directory& directory, std::string_view name, Notes& notes) {
    auto text = directory.read(name, short_file);
    if (!text) {
        notes.add(text.error().message);
        return {};
    }
    return std::move(*text);
}

void add_unique(std::vector<std::string>& names, const std::string& name) {
    constexpr std::size_t most_names = 1024;
    if (names.size() < most_names && std::find(names.begin(), names.end(), name) == names.end()) {
        names.push_back(name);
    }
}

/// The three directories of a GID table, opened only once: each slot then needs only a name lookup.
struct GidTable {
    Result<Directory> values;
    Result<Directory> types;
    Result<Directory> netdevs;

    GidTable(const SysRoot& root, const std::string& port_path)
        : values(root.directory(port_path + "/gids")), types(root.directory(port_path + "/gid_attrs/types")),
          netdevs(root.directory(port_path + "/gid_attrs/ndevs")) {}
};

void read_gid_type(const Result<Directory>& types, std::string_view slot, Gid& gid) {
    const auto text = types ? types->read(slot, short_file) : tl::unexpected(types.error());
    if (!text) {
        gid.type_problem = text.error().os_error == ENOENT ? TypeProblem::Missing : TypeProblem::Unreadable;
        gid.type_text = text.error().message;
        return;
    }
    gid.type = parse_gid_type(*text);
    if (!gid.type) {
        gid.type_problem = TypeProblem::Strange;
        gid.type_text = printable(*text, 40);
    }
}

void read_gid_netdev(const Result<Directory>& netdevs, std::string_view slot, Gid& gid, Notes& notes) {
    // Not noted when unreadable: the kernel returns EINVAL for a GID without a netdev, which all InfiniBand GIDs are.
    auto text = netdevs ? netdevs->read(slot, short_file) : tl::unexpected(netdevs.error());
    if (!text) {
        return;
    }
    if (is_netdev_name(*text)) {
        gid.netdev = std::move(*text);
    } else {
        notes.add(format_text("gid_attrs/ndevs/{}: '{}' is no interface name", slot, printable(*text, 40)));
    }
}

/// Fails when the slot cannot be read.
Result<void> read_slot(const GidTable& table, const std::string& slot, unsigned index, Port& port, Notes& notes) {
    const auto text = table.values->read(slot, short_file);
    if (!text) {
        return tl::unexpected(text.error());
    }
    if (*text == empty_slot) { // most slots are empty
        return {};
    }
    const auto value = parse_gid(*text);
    if (!value) {
        notes.add(format_text("gids/{}: '{}' is no GID", slot, printable(*text, 40)));
        return {};
    }
    if (*value == IpAddress()) {
        return {};
    }
    Gid gid;
    gid.index = index;
    gid.value = *value;
    read_gid_type(table.types, slot, gid);
    read_gid_netdev(table.netdevs, slot, gid, notes);
    port.gids.push_back(std::move(gid));
    return {};
}

/// Reads slots in order until all expected entries are found. Returns false if some are missing or a slot cannot be
/// read.
bool read_until_enough(const GidTable& table, const ExpectedGids& expected, Port& port, Notes& notes) {
    while (port.gid_table_length < most_slots) {
        const auto index = static_cast<unsigned>(port.gid_table_length);
        const auto before = port.gids.size();
        if (!read_slot(table, std::to_string(index), index, port, notes)) {
            return false;
        }
        port.gid_table_length = index + 1;
        if (port.gids.size() > before && expected.are_all_in(port.gids)) {
            return true;
        }
    }
    return false;
}

void read_gids(const SysRoot& root, const std::string& port_path, Port& port,
               const std::optional<ExpectedGids>& expected, Notes& notes) {
    const GidTable table(root, port_path);
    if (table.values && expected && read_until_enough(table, *expected, port, notes)) {
        return;
    }
    const auto slots = table.values ? table.values->list() : tl::unexpected(table.values.error());
    if (!slots) {
        notes.add(format_text("gids: {}", slots.error().message));
        return;
    }
    for (const auto& slot : *slots) { // in numeric order
        const auto index = parse_index(slot);
        if (!index || *index >= most_slots) {
            notes.add(format_text("gids/{}: {}", printable(slot, 40), index ? "beyond what is looked at" : "no slot"));
        } else if (*index >= port.gid_table_length) {
            port.gid_table_length = *index + 1;
            if (const auto read = read_slot(table, slot, *index, port, notes); !read) {
                notes.add(format_text("gids/{}", read.error().message));
            }
        }
    }
}

/// Reads the files for which the kernel queries the driver.
void read_state_and_rate(const Directory& directory, Port& port, Notes& notes) {
    port.state = parse_enum_name(read_noted(directory, "state", notes));
    port.physical_state = parse_enum_name(read_noted(directory, "phys_state", notes));
    const std::string rate = read_noted(directory, "rate", notes);
    port.rate_gbps = parse_rate_gbps(rate).value_or(0);
    port.rate_is_default = is_default_rate(rate);
    if (port.rate_gbps == 0 && !rate.empty()) {
        notes.add(format_text("rate: '{}' is no rate", printable(rate, 40)));
    }
}

Port read_port(const SysRoot& root, const std::string& path, unsigned number, bool answers) {
    Port port;
    port.number = number;
    Notes notes;
    const auto directory = root.directory(path);
    if (!directory) {
        port.problems.push_back(directory.error().message);
        return port;
    }
    port.link_layer = parse_link_layer(read_noted(*directory, "link_layer", notes));
    if (answers) {
        read_state_and_rate(*directory, port, notes);
    }
    port.problems = notes.take();
    return port;
}

void read_ports(const SysRoot& root, const std::string& path, Hca& hca, Notes& notes) {
    const auto names = root.list(path + "/ports");
    if (!names) {
        notes.add(names.error().message);
        return;
    }
    for (const auto& name : *names) {
        const auto number = parse_index(name);
        if (!number || *number == 0 || hca.ports.size() >= most_ports) {
            notes.add(format_text("ports/{}: {}", printable(name, 40),
                                  number && *number > 0 ? "beyond what is looked at" : "no port number"));
            continue;
        }
        hca.ports.push_back(read_port(root, format_text("{}/ports/{}", path, *number), *number, hca.answers));
    }
}

/// Reads what the `device` link leads to. Software devices (rxe, siw) have no such link.
void read_parent(const SysRoot& root, const std::string& path, Hca& hca) {
    const auto real_path = root.resolve(path + "/device");
    const auto device = root.directory(path + "/device");
    if (!real_path || !device) {
        return;
    }
    hca.pci_path = pci_function_path(*real_path);
    hca.pci = base_name(hca.pci_path);
    hca.driver = printable(base_name(device->read_link("driver").value_or("")), 40);
    hca.physical_function = printable(base_name(device->read_link("physfn").value_or("")), 40);
    hca.numa_node = read_numa_node(*device);
    hca.local_cpus = read_local_cpus(*device);
    for (const auto& name : root.list(path + "/device/net").value_or(std::vector<std::string>{})) {
        if (is_netdev_name(name)) {
            hca.netdevs.push_back(name);
        }
    }
}

Hca read_hca(const SysRoot& root, const std::string& name, const Directory& directory, bool answers) {
    const std::string path = format_text("{}/{}", class_directory, name);
    Hca hca;
    hca.name = name;
    hca.answers = answers;
    Notes notes;
    hca.node_type = parse_enum_name(read_noted(directory, "node_type", notes));
    hca.node_guid = printable(directory.read("node_guid", short_file).value_or(""), 40);
    hca.system_image_guid = printable(directory.read("sys_image_guid", short_file).value_or(""), 40);
    hca.firmware = printable(directory.read("fw_ver", short_file).value_or(""), 40);
    hca.board = printable(directory.read("board_id", short_file).value_or(""), 40);
    read_parent(root, path, hca);
    read_ports(root, path, hca, notes);
    hca.problems = notes.take();
    return hca;
}

constexpr std::string_view verbs_directory = "/sys/class/infiniband_verbs";

DeviceAccess access_of(const SysRoot& root, const std::string& path) {
    if (!root.exists(path)) {
        return DeviceAccess::Missing;
    }
    return root.is_live() && !root.may_read_and_write(path) ? DeviceAccess::Denied : DeviceAccess::Open;
}

} // namespace

Hca read_hca_place(const SysRoot& root, const std::string& name) {
    Hca hca;
    hca.name = name;
    if (is_device_name(name)) {
        read_parent(root, format_text("{}/{}", class_directory, name), hca);
    }
    return hca;
}

void read_gid_tables(const SysRoot& root, Hca& hca, const std::vector<Netdev>* netdevs) {
    for (auto& port : hca.ports) {
        const auto path = format_text("{}/{}/ports/{}", class_directory, hca.name, port.number);
        if (!root.exists(path)) {
            continue; // it has disappeared since, or read_port() has noted why it cannot be read
        }
        Notes notes;
        read_gids(root, path, port, netdevs ? std::optional(ExpectedGids(*netdevs, hca, port)) : std::nullopt, notes);
        std::ranges::move(notes.take(), std::back_inserter(port.problems));
        for (const auto& gid : port.gids) {
            if (!gid.netdev.empty()) {
                add_unique(hca.netdevs, gid.netdev);
            }
        }
    }
}

std::vector<Hca> read_hcas(const SysRoot& root, const UnresponsiveHcas& silent, Notes& notes) {
    auto names = root.list(class_directory);
    if (!names) {
        if (names.error().os_error != ENOENT) { // ENOENT: the machine has no RDMA at all
            notes.add(names.error().message);
        }
        return {};
    }
    std::sort(names->begin(), names->end(), natural_name_less);
    const VerbsDevices verbs(root);
    std::vector<Hca> hcas;
    for (const auto& name : *names) {
        if (!is_device_name(name) || hcas.size() >= most_hcas) {
            notes.add(format_text("{}/{}: {}", class_directory, printable(name, 40),
                                  is_device_name(name) ? "beyond what is looked at" : "no device name"));
            continue;
        }
        const auto directory = root.directory(format_text("{}/{}", class_directory, name));
        if (!directory) {
            notes.add(directory.error().message);
            continue;
        }
        hcas.push_back(read_hca(root, name, *directory, !silent.contains(name)));
        verbs.describe(root, hcas.back());
    }
    return hcas;
}

VerbsDevices::VerbsDevices(const SysRoot& root) : known_(root.exists("/dev")) {
    if (!known_) {
        return;
    }
    for (const auto& name : root.list(verbs_directory).value_or(std::vector<std::string>{})) {
        const auto hca = root.read(format_text("{}/{}/ibdev", verbs_directory, name), short_file);
        if (hca && is_device_name(name)) { // the class has a file abi_version too
            by_hca_[*hca] = name;
        }
    }
}

void VerbsDevices::describe(const SysRoot& root, Hca& hca) const {
    if (!known_) {
        return;
    }
    const auto found = by_hca_.find(hca.name);
    if (found == by_hca_.end()) {
        hca.device_access = DeviceAccess::NoVerbsDevice;
        return;
    }
    hca.device_file = "/dev/infiniband/" + found->second;
    hca.device_access = access_of(root, hca.device_file);
}

} // namespace rdma_nccl
