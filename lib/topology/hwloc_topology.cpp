// SPDX-License-Identifier: Apache-2.0
#include "lib/topology/topology.h"

#include "config.h"
#include "lib/base/dynamic_symbols.h"
#include "lib/base/format.h"
#include "lib/base/text.h"
#include "lib/fabric/readers.h"

#include <cstdlib>
#include <map>
#include <memory>
#include <span>

#ifdef HAVE_HWLOC
#include <hwloc.h>
#endif

namespace rdma_nccl {

#ifndef HAVE_HWLOC

static tl::unexpected<Error> not_built() {
    return fail("built without hwloc: install its headers and build again");
}

Result<Topology> read_topology(const SysRoot& /*root*/) {
    return not_built();
}

Result<XmlMachine> read_topology_xml(const std::string& /*path*/) {
    return not_built();
}

Result<std::string> export_topology(const SysRoot& /*root*/) {
    return not_built();
}

#else

namespace {

/// The functions of libhwloc. It is loaded at run time: the plugin is part of every srun, including those on login
/// nodes without hwloc, and slurmstepd usually has it loaded already.
struct Libhwloc {
    Symbols symbols;
    decltype(&::hwloc_get_api_version) get_api_version = symbols.get("hwloc_get_api_version");
    decltype(&::hwloc_topology_init) init = symbols.get("hwloc_topology_init");
    decltype(&::hwloc_topology_destroy) destroy = symbols.get("hwloc_topology_destroy");
    decltype(&::hwloc_topology_load) load = symbols.get("hwloc_topology_load");
    decltype(&::hwloc_topology_set_flags) set_flags = symbols.get("hwloc_topology_set_flags");
    decltype(&::hwloc_topology_set_xml) set_xml = symbols.get("hwloc_topology_set_xml");
    decltype(&::hwloc_topology_set_components) set_components = symbols.get("hwloc_topology_set_components");
    decltype(&::hwloc_topology_set_cache_types_filter) set_cache_types_filter =
        symbols.get("hwloc_topology_set_cache_types_filter");
    decltype(&::hwloc_topology_set_type_filter) set_type_filter = symbols.get("hwloc_topology_set_type_filter");
    decltype(&::hwloc_topology_set_io_types_filter) set_io_types_filter =
        symbols.get("hwloc_topology_set_io_types_filter");
    decltype(&::hwloc_topology_export_xmlbuffer) export_xmlbuffer = symbols.get("hwloc_topology_export_xmlbuffer");
    decltype(&::hwloc_free_xmlbuffer) free_xmlbuffer = symbols.get("hwloc_free_xmlbuffer");
    decltype(&::hwloc_get_type_depth) get_type_depth = symbols.get("hwloc_get_type_depth");
    decltype(&::hwloc_get_nbobjs_by_depth) get_nbobjs_by_depth = symbols.get("hwloc_get_nbobjs_by_depth");
    decltype(&::hwloc_get_obj_by_depth) get_obj_by_depth = symbols.get("hwloc_get_obj_by_depth");
    decltype(&::hwloc_bitmap_next) bitmap_next = symbols.get("hwloc_bitmap_next");

    /// Returns "hwloc 2.9".
    [[nodiscard]] std::string name() const {
        const unsigned version = get_api_version();
        return format_text("hwloc {}.{}", version >> 16, version >> 8 & 0xffU);
    }
};

Result<Libhwloc> load_libhwloc() {
    auto hwloc = load_functions<Libhwloc>(HWLOC_SONAME, "install hwloc", "install hwloc 2.1 or newer");
    // The structures differ between major versions (hwloc.h, hwloc_get_api_version).
    constexpr unsigned major_version = HWLOC_API_VERSION >> 16;
    if (hwloc && hwloc->get_api_version() >> 16 != major_version) {
        return fail(format_text("{} is {}, but rdma-nccl was built with the headers of hwloc {}: build it again",
                                HWLOC_SONAME, hwloc->name(), major_version));
    }
    return hwloc;
}

/// A machine that hwloc has read.
struct HwlocMachine {
    Libhwloc hwloc;
    std::unique_ptr<hwloc_topology, decltype(Libhwloc::destroy)> topology;

    [[nodiscard]] CpuSet cpus(hwloc_const_bitmap_t bitmap) const {
        CpuSet set;
        for (int cpu = bitmap == nullptr ? -1 : hwloc.bitmap_next(bitmap, -1);
             cpu >= 0 && static_cast<unsigned>(cpu) < most_cpus; cpu = hwloc.bitmap_next(bitmap, cpu)) {
            set.add(static_cast<unsigned>(cpu));
        }
        return set;
    }
    [[nodiscard]] std::vector<hwloc_obj_t> objects(hwloc_obj_type_t type) const {
        const int depth = hwloc.get_type_depth(topology.get(), type);
        if (depth == HWLOC_TYPE_DEPTH_UNKNOWN || depth == HWLOC_TYPE_DEPTH_MULTIPLE) {
            return {};
        }
        std::vector<hwloc_obj_t> list(hwloc.get_nbobjs_by_depth(topology.get(), depth));
        for (unsigned i = 0; i < list.size(); ++i) {
            list[i] = hwloc.get_obj_by_depth(topology.get(), depth, i);
        }
        return list;
    }
};

// The GPUs and HCAs in an hwloc topology with devices, for machines of which there is only an XML file.

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

std::optional<std::string> info(hwloc_obj_t object, std::string_view name) {
    const auto all = infos(object);
    const auto found = std::ranges::find_if(all, [name](const hwloc_info_s& entry) { return entry.name == name; });
    return found == all.end() ? std::nullopt : std::optional<std::string>(found->value);
}

bool is_open_fabrics(hwloc_obj_t object) {
#if HWLOC_API_VERSION >= 0x00030000
    return (object->attr->osdev.types & HWLOC_OBJ_OSDEV_OPENFABRICS) != 0;
#else
    return object->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS;
#endif
}

/// Reads hwloc's PortNState attributes, which exist where hwloc could read the state: 4 is ACTIVE (IB_PORT_ACTIVE,
/// rdma/ib_verbs.h).
std::vector<Port> ports_of(hwloc_obj_t object) {
    constexpr unsigned most_ports = 64;
    std::vector<Port> ports;
    for (unsigned number = 1; number <= most_ports; ++number) {
        const auto state = info(object, format_text("Port{}State", number));
        if (!state) {
            break;
        }
        auto& port = ports.emplace_back();
        port.number = number;
        port.state = *state == "4" ? "ACTIVE" : "DOWN";
    }
    return ports;
}

void add_hca(const HwlocMachine& machine, hwloc_obj_t object, Fabric& fabric) {
    if (object->name == nullptr || !is_open_fabrics(object)) {
        return;
    }
    auto& hca = fabric.hcas.emplace_back();
    hca.name = printable(object->name, 64);
    if (object->parent != nullptr && object->parent->type == HWLOC_OBJ_PCI_DEVICE) {
        hca.pci = pci_address(object->parent->attr->pcidev);
        hca.pci_path = pci_path(object->parent);
    }
    hca.local_cpus = near_cpus(machine, object);
    hca.node_guid = info(object, "NodeGUID").value_or("");
    hca.ports = ports_of(object);
}

/// Puts AMD's GPUs in the order of their OpenCL devices ("opencl0d3"), if the file has those of all: one runtime counts
/// for OpenCL and HIP (clr 6.2, rocdevice.cpp). NVIDIA's stay in the order of their addresses.
void order_by_opencl(const std::vector<hwloc_obj_t>& os_devices, std::vector<Gpu>& gpus) {
    std::map<std::string, unsigned> numbers;
    for (auto* const object : os_devices) {
        const std::string_view name = object->name == nullptr ? "" : object->name;
        const auto number = parse_number<unsigned>(name.substr(name.rfind('d') + 1));
        if (name.starts_with("opencl") && number && object->parent->type == HWLOC_OBJ_PCI_DEVICE) {
            numbers[pci_address(object->parent->attr->pcidev)] = *number;
        }
    }
    if (std::ranges::all_of(gpus, [&](const Gpu& gpu) { return gpu.vendor == "amd" && numbers.contains(gpu.pci); })) {
        std::ranges::sort(gpus, {}, [&](const Gpu& gpu) { return numbers.at(gpu.pci); });
    }
}

/// Finds GPUs of NVIDIA or AMD by PCI class and vendor, and HCAs by OS devices of type OpenFabrics, with the ports and
/// states that the file has. Writes PCI paths in the form of /sys/devices/...
Fabric read_hwloc_devices(const HwlocMachine& machine) {
    Fabric fabric;
    for (auto* const object : machine.objects(HWLOC_OBJ_PCI_DEVICE)) {
        add_gpu(machine, object, fabric);
    }
    for (auto* const object : machine.objects(HWLOC_OBJ_OS_DEVICE)) {
        add_hca(machine, object, fabric);
    }
    std::ranges::sort(fabric.gpus, {}, &Gpu::pci);
    keep_one_vendor(fabric.gpus);
    order_by_opencl(machine.objects(HWLOC_OBJ_OS_DEVICE), fabric.gpus);
    std::ranges::sort(fabric.hcas, {},
                      [](const Hca& hca) { return std::pair(hca.name.size(), std::string_view(hca.name)); });
    return fabric;
}

// The topology.

enum class Devices { Leave, Read };

/// Asks for the whole machine: a process's masks tell what it may use, which differs from task to task. CPU kinds and
/// memory attributes are not needed, and reading them takes time.
void set_flags(const Libhwloc& hwloc, hwloc_topology_t topology) {
    constexpr unsigned long whole = HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED;
#if HWLOC_API_VERSION >= 0x00020800
    constexpr unsigned long lean = HWLOC_TOPOLOGY_FLAG_NO_CPUKINDS | HWLOC_TOPOLOGY_FLAG_NO_MEMATTRS;
    if (hwloc.set_flags(topology, whole | lean) == 0) {
        return; // otherwise the library is older than the header
    }
#endif
    (void)hwloc.set_flags(topology, whole);
}

/// Reads an XML file, or this machine if `xml` is empty.
Result<HwlocMachine> load(const Libhwloc& hwloc, Devices devices, const std::string& xml) {
    hwloc_topology_t raw = nullptr;
    if (hwloc.init(&raw) != 0) {
        return os_failure("hwloc does not start");
    }
    HwlocMachine machine{hwloc, {raw, hwloc.destroy}};
    // Components that start CUDA, NVML, an X server ..., or that bind this thread to each CPU in turn (x86).
    for (const auto* component : {"cuda", "nvml", "rsmi", "opencl", "levelzero", "gl", "x86"}) {
        (void)hwloc.set_components(raw, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, component);
    }
    set_flags(hwloc, raw);
    (void)hwloc.set_cache_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_NONE);
    (void)hwloc.set_type_filter(raw, HWLOC_OBJ_L3CACHE, HWLOC_TYPE_FILTER_KEEP_ALL);
    if (devices == Devices::Read) {
        (void)hwloc.set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    }
    if (!xml.empty() && hwloc.set_xml(raw, xml.c_str()) != 0) {
        return os_failure(xml + ": hwloc cannot read it");
    }
    if (hwloc.load(raw) != 0) {
        return xml.empty() ? os_failure("hwloc cannot read this machine")
                           : fail(xml + ": no topology of hwloc's", errno);
    }
    return machine;
}

/// Returns the number of the nearest object of that type at or above.
std::optional<unsigned> number_above(hwloc_obj_t object, hwloc_obj_type_t type) {
    while (object != nullptr && object->type != type) {
        object = object->parent;
    }
    return object == nullptr ? std::nullopt : std::optional(object->logical_index);
}

std::vector<NumaNode> numa_nodes(const HwlocMachine& machine) {
    std::vector<NumaNode> nodes;
    for (const auto* object : machine.objects(HWLOC_OBJ_NUMANODE)) {
        auto& node = nodes.emplace_back();
        node.number = object->os_index;
        node.cpus = machine.cpus(object->cpuset);
        node.memory_mib = object->attr->numanode.local_memory >> 20U;
        node.package = number_above(object->parent, HWLOC_OBJ_PACKAGE).value_or(0);
    }
    std::ranges::sort(nodes, {}, &NumaNode::number);
    return nodes;
}

/// Returns the NUMA node with the plain memory near these CPUs. Nodes of device memory or high-bandwidth memory may
/// list the same CPUs, or all of the machine's. The plain node has the fewest CPUs; in a tie it is the first, as the
/// kernel numbers it first.
const NumaNode* plain_node_of(const std::vector<NumaNode>& nodes, const CpuSet& cpus) {
    const NumaNode* best = nullptr;
    for (const auto& node : nodes) {
        if (node.cpus.intersects(cpus) && (best == nullptr || node.cpus.size() < best->cpus.size())) {
            best = &node;
        }
    }
    return best;
}

Topology to_topology(const HwlocMachine& machine) {
    Topology topology;
    topology.numa_nodes = numa_nodes(machine);
    topology.packages = std::max(static_cast<unsigned>(machine.objects(HWLOC_OBJ_PACKAGE).size()), 1U);
    auto cores = machine.objects(HWLOC_OBJ_CORE);
    if (cores.empty()) {
        cores = machine.objects(HWLOC_OBJ_PU);
    }
    for (auto* object : cores) {
        auto& core = topology.cores.emplace_back();
        core.cpus = machine.cpus(object->cpuset);
        core.package = number_above(object, HWLOC_OBJ_PACKAGE).value_or(0);
        core.l3 = number_above(object, HWLOC_OBJ_L3CACHE).value_or(core.package);
        if (const auto* node = plain_node_of(topology.numa_nodes, core.cpus)) {
            core.numa_node = node->number;
        }
    }
    for (auto& node : topology.numa_nodes) {
        node.special = find_by(topology.cores, &Core::numa_node, std::optional(node.number)) == nullptr;
    }
    return topology;
}

/// Returns the NUMA node of a device's CPUs if they are of one: hwloc may place a device at a part of a node, as at an
/// L3 or a group.
std::optional<int> node_of(const Topology& topology, const CpuSet& cpus) {
    const auto nodes = positions_where(
        topology.numa_nodes, [&](const NumaNode& node) { return !node.special && node.cpus.intersects(cpus); });
    return nodes.size() != 1 ? std::nullopt
                             : std::optional(static_cast<int>(topology.numa_nodes[nodes.front()].number));
}

Result<HwlocMachine> load_below(const SysRoot& root, Devices devices) {
    const auto hwloc = load_libhwloc();
    if (!hwloc) {
        return tl::unexpected(hwloc.error());
    }
    if (root.path() != "/" && root.exists(topology_file)) {
        return load(*hwloc, devices, root.path() + std::string(topology_file));
    }
    // Without the first CPU's topology, hwloc prints an error to stderr. CPU 0 may be offline (hwloc 2.4.1 or newer).
    const auto online = CpuSet::parse_list(root.read("/sys/devices/system/cpu/online").value_or(""));
    const auto directory =
        format_text("/sys/devices/system/cpu/cpu{}/topology", online.value_or(CpuSet()).first().value_or(0));
    if (!root.exists(directory)) {
        return fail(format_text("{} has no {}", root.path(), directory));
    }
    // HWLOC_FSROOT is the only way to tell hwloc below which directory to read /sys and /proc. Set for copied and
    // emulated machines only: a process with threads, such as slurmstepd, should not change its environment.
    if (root.path() == "/") {
        return load(*hwloc, devices, "");
    }
    ::setenv("HWLOC_FSROOT", root.path().c_str(), 1);
    auto loaded = load(*hwloc, devices, "");
    ::unsetenv("HWLOC_FSROOT");
    return loaded;
}

} // namespace

Result<Topology> read_topology(const SysRoot& root) {
    return load_below(root, Devices::Leave).map([](const HwlocMachine& loaded) {
        Topology topology = to_topology(loaded);
        topology.source = loaded.hwloc.name();
        return topology;
    });
}

Result<XmlMachine> read_topology_xml(const std::string& path) {
    const auto load_file = [&path](const Libhwloc& hwloc) { return load(hwloc, Devices::Read, path); };
    return load_libhwloc().and_then(load_file).map([&](const HwlocMachine& loaded) {
        XmlMachine machine{to_topology(loaded), read_hwloc_devices(loaded)};
        machine.topology.source = path;
        for (auto& gpu : machine.fabric.gpus) {
            gpu.numa_node = node_of(machine.topology, gpu.local_cpus);
        }
        for (auto& hca : machine.fabric.hcas) {
            hca.numa_node = node_of(machine.topology, hca.local_cpus);
        }
        return machine;
    });
}

Result<std::string> export_topology(const SysRoot& root) {
    return load_below(root, Devices::Read).and_then([](const HwlocMachine& loaded) -> Result<std::string> {
        char* text = nullptr;
        int length = 0;
        if (loaded.hwloc.export_xmlbuffer(loaded.topology.get(), &text, &length, 0) != 0) {
            return os_failure("hwloc cannot write the topology");
        }
        std::string xml(text); // `length` includes the final NUL
        loaded.hwloc.free_xmlbuffer(loaded.topology.get(), text);
        return xml;
    });
}

#endif

} // namespace rdma_nccl
