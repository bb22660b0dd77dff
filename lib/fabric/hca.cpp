// SPDX-License-Identifier: Apache-2.0
#include "lib/base/format.h"
#include "lib/fabric/kernel_text.h"
#include "lib/fabric/readers.h"

#include <algorithm>
#include <cerrno>
#include <map>

namespace rdma_nccl {

namespace {

constexpr std::string_view class_directory = "/sys/class/infiniband";
constexpr std::size_t max_ports = 64;
constexpr std::size_t short_file = 128; // one word or one GID

/// Reads a file that every device has. If it cannot be read, adds a note and returns "".
std::string read_noted(const Directory& directory, std::string_view name, Notes& notes) {
    auto text = directory.read(name, short_file);
    if (!text) {
        notes.add(text.error().message);
        return {};
    }
    return std::move(*text);
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
    if (answers) { // these are the files for which the kernel queries the driver
        port.state = parse_enum_name(read_noted(*directory, "state", notes));
        port.physical_state = parse_enum_name(read_noted(*directory, "phys_state", notes));
        const std::string text = read_noted(*directory, "rate", notes);
        const auto rate = parse_rate(text).value_or(Rate());
        port.rate_gbps = rate.gbps;
        port.rate_is_default = rate.is_default;
        if (rate.gbps == 0 && !text.empty()) {
            notes.add(format_text("rate: '{}' is no rate", printable(text, 40)));
        }
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
        if (!number || *number == 0 || hca.ports.size() >= max_ports) {
            notes.add(format_text("ports/{}: {}", printable(name, 40),
                                  number && *number > 0 ? "beyond what is looked at" : "no port number"));
            continue;
        }
        hca.ports.push_back(read_port(root, format_text("{}/ports/{}", path, *number), *number, hca.answers));
    }
}

/// Reads what the `device` link leads to. Software devices (rxe, siw) have no such link.
void read_parent(const SysRoot& root, const std::string& path, Hca& hca, Notes& notes) {
    const auto real_path = root.resolve(path + "/device");
    const auto device = root.directory(path + "/device");
    if (!real_path || !device) {
        notes.add_unless_absent(real_path ? device.error() : real_path.error());
        return;
    }
    hca.pci_path = pci_function_path(*real_path);
    hca.pci = base_name(hca.pci_path);
    hca.driver = printable(base_name(device->read_link("driver").value_or("")), 40);
    hca.physical_function = printable(base_name(device->read_link("physfn").value_or("")), 40);
    hca.numa_node = read_numa_node(*device);
    hca.local_cpus = read_local_cpus(*device);
    hca.netdevs = selected(root.list(path + "/device/net").value_or(std::vector<std::string>{}), is_netdev_name);
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
    read_parent(root, path, hca, notes);
    read_ports(root, path, hca, notes);
    hca.problems = notes.take();
    return hca;
}

/// The verbs device files: which /dev/infiniband/uverbsN belongs to which HCA (/sys/class/infiniband_verbs/*/ibdev),
/// and whether it exists. NCCL skips an HCA that it cannot open (ncclIbInit), but sysfs still shows it.
using VerbsDevices = std::map<std::string, std::string>; // maps mlx5_0 to uverbs3

/// Fails if they cannot be listed.
Result<VerbsDevices> read_verbs_devices(const SysRoot& root) {
    constexpr std::string_view verbs_directory = "/sys/class/infiniband_verbs";
    VerbsDevices devices;
    const auto names = root.list(verbs_directory);
    if (!names) {
        return names.error().is_absent() ? Result<VerbsDevices>(devices) : tl::unexpected(names.error());
    }
    for (const auto& name : *names) {
        const auto hca = root.read(format_text("{}/{}/ibdev", verbs_directory, name), short_file);
        if (hca && is_device_name(name)) { // the class has a file abi_version too
            devices[*hca] = name;
        } else if (!hca && !hca.error().is_absent()) {
            return tl::unexpected(hca.error());
        }
    }
    return devices;
}

/// Checks permissions on the live root only; a device cgroup may still refuse to open the file.
void find_device_file(const SysRoot& root, const VerbsDevices& devices, Hca& hca) {
    const auto found = devices.find(hca.name);
    if (found == devices.end()) {
        hca.device_access = DeviceAccess::NoVerbsDevice;
        return;
    }
    hca.device_file = "/dev/infiniband/" + found->second;
    if (const auto there = root.look_for(hca.device_file); !there) {
        hca.device_access = there.error().is_absent()          ? DeviceAccess::Missing
                            : there.error().os_error == EACCES ? DeviceAccess::Denied
                                                               : DeviceAccess::Unknown;
    } else {
        const bool denied = root.is_live() && !root.may_read_and_write(hca.device_file);
        hca.device_access = denied ? DeviceAccess::Denied : DeviceAccess::Open;
    }
}

} // namespace

Hca read_hca_place(const SysRoot& root, const std::string& name) {
    Hca hca;
    hca.name = name;
    if (is_device_name(name)) {
        Notes notes;
        read_parent(root, format_text("{}/{}", class_directory, name), hca, notes);
        hca.problems = notes.take();
    }
    return hca;
}

std::vector<Hca> read_hcas(const SysRoot& root, const UnresponsiveHcas& unresponsive, Notes& notes) {
    auto names = root.list(class_directory);
    if (!names) {
        if (names.error().os_error != ENOENT) { // ENOENT: the machine has no RDMA at all
            notes.add(names.error().message);
        }
        return {};
    }
    std::ranges::sort(*names, natural_name_less);
    const bool has_dev = root.exists("/dev"); // a copied tree of another machine has none
    const auto verbs = has_dev ? read_verbs_devices(root) : VerbsDevices();
    if (!verbs) {
        notes.add(verbs.error().message);
    }
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
            if (!directory.error().is_absent()) { // it is there
                hcas.emplace_back().name = name;
                hcas.back().problems = {directory.error().message};
            }
            continue;
        }
        hcas.push_back(read_hca(root, name, *directory, !unresponsive.contains(name)));
        if (has_dev && verbs) {
            find_device_file(root, *verbs, hcas.back());
        }
    }
    return hcas;
}

} // namespace rdma_nccl
