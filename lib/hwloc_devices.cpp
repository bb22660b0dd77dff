// SPDX-License-Identifier: Apache-2.0
#include "lib/hwloc_devices.h"

#ifdef HAVE_HWLOC

#include "lib/format.h"
#include "lib/gpus.h"
#include "lib/text.h"

#include <algorithm>
#include <span>

namespace rdma_nccl {

namespace {

/// Of the first object above that is no device.
CpuSet near_cpus(const HwlocLibrary& hwloc, hwloc_obj_t object) {
    while (object != nullptr && object->cpuset == nullptr) {
        object = object->parent;
    }
    CpuSet cpus;
    if (object == nullptr) {
        return cpus;
    }
    for (int cpu = hwloc.bitmap_next(object->cpuset, -1); cpu >= 0 && static_cast<unsigned>(cpu) < most_cpus;
         cpu = hwloc.bitmap_next(object->cpuset, cpu)) {
        cpus.add(static_cast<unsigned>(cpu));
    }
    return cpus;
}

std::string pci_address(const decltype(hwloc_obj_attr_u::pcidev)& pci) {
    return format_text("{:04x}:{:02x}:{:02x}.{:x}", pci.domain, static_cast<unsigned>(pci.bus),
                       static_cast<unsigned>(pci.dev), static_cast<unsigned>(pci.func));
}

/// "/sys/devices/pci0000:50/0000:50:01.0/0000:53:00.0" of a PCI device or bridge.
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

void add_gpu(const HwlocLibrary& hwloc, hwloc_obj_t object, Fabric& fabric) {
    const auto& pci = object->attr->pcidev;
    const auto vendor = gpu_vendor(format_text("0x{:04x}00", static_cast<unsigned>(pci.class_id)),
                                   format_text("0x{:04x}", static_cast<unsigned>(pci.vendor_id)));
    if (!vendor.empty()) {
        Gpu gpu;
        gpu.pci = pci_address(pci);
        gpu.pci_path = pci_path(object);
        gpu.vendor = vendor;
        gpu.local_cpus = near_cpus(hwloc, object);
        fabric.gpus.push_back(std::move(gpu));
    }
}

std::span<const hwloc_info_s> infos(hwloc_obj_t object) {
#if HWLOC_API_VERSION >= 0x00030000
    return {object->infos.array, object->infos.count};
#else
    return {object->infos, object->infos_count};
#endif
}

std::optional<std::string> info(hwloc_obj_t object, std::string_view name) {
    for (const auto& entry : infos(object)) {
        if (entry.name == name) {
            return entry.value;
        }
    }
    return std::nullopt;
}

bool is_open_fabrics(hwloc_obj_t object) {
#if HWLOC_API_VERSION >= 0x00030000
    return (object->attr->osdev.types & HWLOC_OBJ_OSDEV_OPENFABRICS) != 0;
#else
    return object->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS;
#endif
}

/// hwloc notes PortNState where it could read it: 4 is ACTIVE (IB_PORT_ACTIVE, rdma/ib_verbs.h).
std::vector<Port> ports_of(hwloc_obj_t object) {
    constexpr unsigned most_ports = 64;
    std::vector<Port> ports;
    for (unsigned number = 1; number <= most_ports; ++number) {
        const auto state = info(object, format_text("Port{}State", number));
        if (!state) {
            break;
        }
        Port port;
        port.number = number;
        port.state = *state == "4" ? "ACTIVE" : "DOWN";
        ports.push_back(std::move(port));
    }
    return ports;
}

void add_hca(const HwlocLibrary& hwloc, hwloc_obj_t object, Fabric& fabric) {
    if (object->name == nullptr || !is_open_fabrics(object)) {
        return;
    }
    Hca hca;
    hca.name = printable(object->name, 64);
    if (object->parent != nullptr && object->parent->type == HWLOC_OBJ_PCI_DEVICE) {
        hca.pci = pci_address(object->parent->attr->pcidev);
        hca.pci_path = pci_path(object->parent);
    }
    hca.local_cpus = near_cpus(hwloc, object);
    hca.node_guid = info(object, "NodeGUID").value_or("");
    hca.ports = ports_of(object);
    fabric.hcas.push_back(std::move(hca));
}

} // namespace

Fabric read_hwloc_devices(const HwlocLibrary& hwloc, hwloc_topology_t topology) {
    Fabric fabric;
    const auto each = [&](int depth, auto add) {
        for (unsigned i = 0; i < hwloc.get_nbobjs_by_depth(topology, depth); ++i) {
            add(hwloc, hwloc.get_obj_by_depth(topology, depth, i), fabric);
        }
    };
    each(HWLOC_TYPE_DEPTH_PCI_DEVICE, add_gpu);
    each(HWLOC_TYPE_DEPTH_OS_DEVICE, add_hca);
    const auto by_name = [](const auto& a, const auto& b) { return a.pci < b.pci; };
    std::sort(fabric.gpus.begin(), fabric.gpus.end(), by_name);
    std::sort(fabric.hcas.begin(), fabric.hcas.end(), [](const Hca& a, const Hca& b) {
        return a.name.size() != b.name.size() ? a.name.size() < b.name.size() : a.name < b.name;
    });
    return fabric;
}

} // namespace rdma_nccl

#endif
