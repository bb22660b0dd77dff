// SPDX-License-Identifier: Apache-2.0
// The GPUs, HCAs and interfaces in hwloc's description of a machine of which there is only that.
#include "lib/base/text.h"
#include "lib/fabric/readers.h"
#include "lib/topology/libhwloc.h"

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <utility>

namespace rdma_nccl {

namespace {

/// Returns the CPUs of the nearest object at or above that has any; devices have none.
CpuSet near_cpus(const HwlocMachine& machine, hwloc_obj_t object) {
    while (object != nullptr && object->cpuset == nullptr) {
        object = object->parent;
    }
    return object == nullptr ? CpuSet() : machine.cpus(object->cpuset);
}

std::string pci_address(const decltype(hwloc_obj_attr_u::pcidev)& pci) {
    return format_text("{:04x}:{:02x}:{:02x}.{:x}", pci.domain, static_cast<unsigned>(pci.bus),
                       static_cast<unsigned>(pci.dev), static_cast<unsigned>(pci.func));
}

/// Returns the path of a PCI device or bridge: "/sys/devices/pci0000:50/0000:50:01.0/0000:53:00.0".
std::string pci_path(hwloc_obj_t object) {
    std::string path;
    for (; object != nullptr; object = object->parent) {
        if (object->type == HWLOC_OBJ_PCI_DEVICE) {
            path.insert(0, "/" + pci_address(object->attr->pcidev));
        } else if (object->type == HWLOC_OBJ_BRIDGE && object->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI) {
            path.insert(0, "/" + pci_address(object->attr->bridge.upstream.pci));
        } else if (object->type == HWLOC_OBJ_BRIDGE) {
            const auto& bus = object->attr->bridge.downstream.pci;
            path.insert(0, format_text("/pci{:04x}:{:02x}", bus.domain, static_cast<unsigned>(bus.secondary_bus)));
        }
    }
    return "/sys/devices" + path;
}

void add_gpu(const HwlocMachine& machine, hwloc_obj_t object, Fabric& fabric) {
    const auto& pci = object->attr->pcidev;
    const auto vendor = gpu_vendor(format_text("0x{:04x}00", static_cast<unsigned>(pci.class_id)),
                                   format_text("0x{:04x}", static_cast<unsigned>(pci.vendor_id)));
    if (!vendor.empty()) {
        auto& gpu = fabric.gpus.emplace_back();
        gpu.pci = pci_address(pci);
        gpu.pci_path = pci_path(object);
        gpu.vendor = vendor;
        gpu.local_cpus = near_cpus(machine, object);
    }
}

std::span<const hwloc_info_s> infos(hwloc_obj_t object) {
#if HWLOC_API_VERSION >= 0x00030000
    return {object->infos.array, object->infos.count};
#else
    return {object->infos, object->infos_count};
#endif
}

/// Those of the whole machine.
std::span<const hwloc_info_s> infos(const HwlocMachine& machine) {
#if HWLOC_API_VERSION >= 0x00030000
    const auto* const all = machine.hwloc.topology_infos(machine.topology.get());
    return {all->array, all->count};
#else
    const auto roots = machine.objects(HWLOC_OBJ_MACHINE);
    return roots.empty() ? std::span<const hwloc_info_s>() : infos(roots.front());
#endif
}

std::optional<std::string> info(const auto& owner, std::string_view name) {
    const auto all = infos(owner);
    const auto found = std::ranges::find_if(all, [name](const hwloc_info_s& entry) { return entry.name == name; });
    return found == all.end() ? std::nullopt : std::optional<std::string>(found->value);
}

/// Returns true for an OS device of that type: an enumerator in hwloc 2, a bit in 3.
bool is_a(hwloc_obj_t object, hwloc_obj_osdev_type_e type) {
#if HWLOC_API_VERSION >= 0x00030000
    return (object->attr->osdev.types & type) != 0;
#else
    return object->attr->osdev.type == type;
#endif
}

hwloc_obj_t pci_parent(hwloc_obj_t object) {
    auto* const parent = object->parent;
    return parent != nullptr && parent->type == HWLOC_OBJ_PCI_DEVICE ? parent : nullptr;
}

/// Reads hwloc's PortNState attributes, which exist where hwloc could read the state (rdma/ib_verbs.h, ib_port_state).
std::vector<Port> ports_of(hwloc_obj_t object) {
    constexpr unsigned most_ports = 64;
    constexpr std::array<std::string_view, 6> names = {"NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER"};
    std::vector<Port> ports;
    for (unsigned number = 1; number <= most_ports; ++number) {
        const auto state = info(object, format_text("Port{}State", number));
        if (!state) {
            break;
        }
        auto& port = ports.emplace_back();
        port.number = number;
        const auto value = parse_number<std::size_t>(*state);
        port.state = value && *value < names.size() ? names.at(*value) : "";
    }
    return ports;
}

void add_nic(const HwlocMachine& machine, hwloc_obj_t object, Fabric& fabric) {
    auto* const pci = pci_parent(object);
    if (pci != nullptr && object->name != nullptr && is_a(object, HWLOC_OBJ_OSDEV_NETWORK)) {
        auto& netdev = fabric.netdevs.emplace_back();
        netdev.name = printable(object->name, 64);
        netdev.pci_path = pci_path(pci);
    }
    if (object->name == nullptr || !is_a(object, HWLOC_OBJ_OSDEV_OPENFABRICS)) {
        return;
    }
    auto& hca = fabric.hcas.emplace_back();
    hca.name = printable(object->name, 64);
    if (pci != nullptr) {
        hca.pci = pci_address(pci->attr->pcidev);
        hca.pci_path = pci_path(pci);
    }
    hca.local_cpus = near_cpus(machine, object);
    hca.node_guid = info(object, "NodeGUID").value_or("");
    hca.ports = ports_of(object);
}

/// Puts AMD's GPUs in HIP's order; returns a note if nothing tells it. One runtime counts for OpenCL ("opencl0d3") and
/// HIP (clr 6.2, rocdevice.cpp). rocm_smi counts DRM's cards ("rsmi3"), which the driver finds in the order of KFD's
/// nodes, but since ROCm 6.1 it sorts them by address (rocm_smi_main.cc): only another order tells something.
std::vector<std::string> order_amds(const std::vector<hwloc_obj_t>& os_devices, std::vector<Gpu>& gpus) {
    if (gpus.size() < 2 || gpus.front().vendor != "amd") {
        return {};
    }
    for (const std::string_view kind : {"opencl", "rsmi"}) {
        std::map<std::string, unsigned> numbers;
        for (auto* const object : os_devices) {
            const std::string_view name = object->name == nullptr ? "" : object->name;
            const auto number = parse_number<unsigned>(name.substr(name.find_last_not_of("0123456789") + 1));
            auto* const pci = pci_parent(object);
            if (name.starts_with(kind) && number && pci != nullptr) {
                numbers[pci_address(pci->attr->pcidev)] = *number;
            }
        }
        if (std::ranges::all_of(gpus, [&](const Gpu& gpu) { return numbers.contains(gpu.pci); })) {
            std::ranges::sort(gpus, {}, [&](const Gpu& gpu) { return numbers.at(gpu.pci); });
            if (kind == "opencl" || !std::ranges::is_sorted(gpus, {}, &Gpu::pci)) {
                return {};
            }
        }
    }
    return {"AMD's GPUs are in the order of their PCI addresses: the file does not tell HIP's numbers"};
}

/// Finds GPUs of NVIDIA or AMD by PCI class and vendor, interfaces by OS devices of type Network, and HCAs by those of
/// type OpenFabrics, with the ports and states that the file has. Writes PCI paths in the form of /sys/devices/...
Fabric read_hwloc_devices(const HwlocMachine& machine) {
    Fabric fabric;
    for (auto* const object : machine.objects(HWLOC_OBJ_PCI_DEVICE)) {
        add_gpu(machine, object, fabric);
    }
    for (auto* const object : machine.objects(HWLOC_OBJ_OS_DEVICE)) {
        add_nic(machine, object, fabric);
    }
    std::ranges::sort(fabric.gpus, {}, &Gpu::pci);
    std::ranges::sort(fabric.hcas, {},
                      [](const Hca& hca) { return std::pair(hca.name.size(), std::string_view(hca.name)); });
    return fabric;
}

/// hwloc writes down ports only where it could ask libibverbs for them. Every HCA has one.
std::vector<std::string> assume_ports(std::vector<Hca>& hcas) {
    std::vector<std::string> names;
    for (auto& hca : hcas) {
        if (hca.ports.empty()) {
            names.push_back(hca.name);
            auto& port = hca.ports.emplace_back();
            port.number = 1;
            port.state = "ACTIVE";
        }
    }
    if (names.empty()) {
        return {};
    }
    return {format_text("the file does not tell the ports of {}: one active port each is assumed", joined(names))};
}

/// Returns the number of links that have this bandwidth in MB/s: 20,000 each for NVLink 1, 25,000 for its successors
/// (hwloc 2.9, topology-nvml.c); 0 for anything else.
unsigned count_nvlinks(std::uint64_t bandwidth) {
    const std::uint64_t one = bandwidth % 25000 == 0 ? 25000 : 20000;
    return bandwidth % one == 0 ? static_cast<unsigned>(bandwidth / one) : 0;
}

/// Adds the links in a matrix of hwloc's, of bandwidths between the OS devices of GPUs, and NVSwitches.
void add_links(const HwlocMachine& machine, const char* matrix, GpuLink::Kind kind, std::vector<GpuLink>& links) {
    unsigned count = 1;
    hwloc_distances_s* found = nullptr;
    const auto& hwloc = machine.hwloc;
    if (hwloc.distances_get_by_name(machine.topology.get(), matrix, &count, &found, 0) != 0 || found == nullptr) {
        return;
    }
    const std::span<const hwloc_obj_t> objects(found->objs, found->nbobjs);
    const auto gpus = mapped(objects, [](hwloc_obj_t object) {
        auto* const pci = object == nullptr ? nullptr : pci_parent(object);
        return pci == nullptr ? std::string() : pci_address(pci->attr->pcidev);
    });
    for (std::size_t i = 0; i < gpus.size(); ++i) {
        GpuLink to_switches{gpus[i], "", kind, 0}; // each port of them is an object
        for (std::size_t j = 0; j < gpus.size(); ++j) {
            const auto bandwidth = found->values[i * gpus.size() + j];
            const auto number = kind == GpuLink::Kind::NvLink ? count_nvlinks(bandwidth) : 0;
            if (i == j || bandwidth == 0 || gpus[i].empty() || objects[j] == nullptr) {
                continue;
            }
            if (objects[j]->type == HWLOC_OBJ_PCI_DEVICE) {
                to_switches.count += number;
            } else if (!gpus[j].empty()) {
                links.push_back({gpus[i], gpus[j], kind, number});
            }
        }
        if (to_switches.count > 0) {
            links.push_back(std::move(to_switches));
        }
    }
    hwloc.distances_release(machine.topology.get(), found);
}

/// Returns the NUMA node of a device's CPUs if they are of one: hwloc may place a device at a part of a node, as at an
/// L3 or a group.
std::optional<int> node_of(const Topology& topology, const CpuSet& cpus) {
    const auto nodes = positions_where(
        topology.numa_nodes, [&](const NumaNode& node) { return !node.special && node.cpus.intersects(cpus); });
    return nodes.size() != 1 ? std::nullopt
                             : std::optional(static_cast<int>(topology.numa_nodes[nodes.front()].number));
}

} // namespace

XmlMachine to_machine(const HwlocMachine& loaded) {
    XmlMachine machine{to_topology(loaded), read_hwloc_devices(loaded)};
    machine.name = printable(info(loaded, "HostName").value_or(""), 64);
    machine.notes = keep_one_vendor(machine.fabric.gpus);
    if (loaded.objects(HWLOC_OBJ_PCI_DEVICE).empty()) {
        machine.notes.emplace_back(
            "the file has no PCI devices, and so no GPUs and HCAs: write it with lstopo FILE.xml on the machine");
    }
    append(machine.notes, assume_ports(machine.fabric.hcas));
    append(machine.notes, order_amds(loaded.objects(HWLOC_OBJ_OS_DEVICE), machine.fabric.gpus));
    add_links(loaded, "NVLinkBandwidth", GpuLink::Kind::NvLink, machine.topology.gpu_links);
    add_links(loaded, "XGMIBandwidth", GpuLink::Kind::Xgmi, machine.topology.gpu_links);
    for (auto& gpu : machine.fabric.gpus) {
        gpu.numa_node = node_of(machine.topology, gpu.local_cpus);
    }
    for (auto& hca : machine.fabric.hcas) {
        hca.numa_node = node_of(machine.topology, hca.local_cpus);
    }
    return machine;
}

} // namespace rdma_nccl
