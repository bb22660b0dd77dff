// SPDX-License-Identifier: Apache-2.0
#include "lib/topology/topology.h"

#include "config.h"
#include "lib/base/dynamic_symbols.h"
#include "lib/base/format.h"
#include "lib/base/text.h"
#include "lib/fabric/readers.h"
#include "lib/net/message.h"
#include "lib/topology/xml.h"

#include <array>
#include <cstdlib>
#include <map>
#include <memory>
#include <span>
#include <sys/prctl.h>
#include <sys/resource.h>

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

Result<XmlMachine> read_hwloc_xml(const std::string& /*text*/) {
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
    decltype(&::hwloc_topology_set_xmlbuffer) set_xmlbuffer = symbols.get("hwloc_topology_set_xmlbuffer");
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
    decltype(&::hwloc_distances_get_by_name) distances_get_by_name = symbols.get("hwloc_distances_get_by_name");
    decltype(&::hwloc_distances_release) distances_release = symbols.get("hwloc_distances_release");
#if HWLOC_API_VERSION >= 0x00030000
    decltype(&::hwloc_topology_get_infos) topology_infos = symbols.get("hwloc_topology_get_infos");
#endif

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

/// Puts AMD's GPUs in the order of their OpenCL devices ("opencl0d3"), if the file has those of all: one runtime counts
/// for OpenCL and HIP (clr 6.2, rocdevice.cpp). NVIDIA's stay in the order of their addresses.
void order_by_opencl(const std::vector<hwloc_obj_t>& os_devices, std::vector<Gpu>& gpus) {
    std::map<std::string, unsigned> numbers;
    for (auto* const object : os_devices) {
        const std::string_view name = object->name == nullptr ? "" : object->name;
        const auto number = parse_number<unsigned>(name.substr(name.rfind('d') + 1));
        auto* const pci = pci_parent(object);
        if (name.starts_with("opencl") && number && pci != nullptr) {
            numbers[pci_address(pci->attr->pcidev)] = *number;
        }
    }
    if (std::ranges::all_of(gpus, [&](const Gpu& gpu) { return gpu.vendor == "amd" && numbers.contains(gpu.pci); })) {
        std::ranges::sort(gpus, {}, [&](const Gpu& gpu) { return numbers.at(gpu.pci); });
    }
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
    keep_one_vendor(fabric.gpus);
    order_by_opencl(machine.objects(HWLOC_OBJ_OS_DEVICE), fabric.gpus);
    std::ranges::sort(fabric.hcas, {},
                      [](const Hca& hca) { return std::pair(hca.name.size(), std::string_view(hca.name)); });
    return fabric;
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

/// Reads a machine's XML, or this machine if `xml` is empty.
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
    const auto size = static_cast<int>(xml.size() + 1); // with the final NUL
    if ((!xml.empty() && hwloc.set_xmlbuffer(raw, xml.c_str(), size) != 0) || hwloc.load(raw) != 0) {
        return os_failure(format_text("{} cannot read {}", hwloc.name(), xml.empty() ? "this machine" : "it"));
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
    topology.source = machine.hwloc.name();
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

/// True for a copied machine whose topology is in a file.
bool has_xml(const SysRoot& root) {
    return root.path() != "/" && root.exists(topology_file);
}

Result<HwlocMachine> load_below(const SysRoot& root, Devices devices) {
    const auto hwloc = load_libhwloc();
    if (!hwloc) {
        return tl::unexpected(hwloc.error());
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

XmlMachine to_machine(const HwlocMachine& loaded) {
    XmlMachine machine{to_topology(loaded), read_hwloc_devices(loaded)};
    machine.name = printable(info(loaded, "HostName").value_or(""), 64);
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

// Reading XML, in a child.

/// What the child found.
struct Reading {
    static constexpr std::string_view message_name = "topology";

    XmlMachine machine;
    std::string problem; ///< why there is no machine; empty: there is one
};

} // namespace

constexpr std::size_t longest_path = 4096;
constexpr std::size_t most_objects = 200'000;

static void fields(auto& f, Is<CpuSet> auto& set) {
    auto list = set.list();
    f("list", list, std::size_t{6} * most_cpus);
    if constexpr (!std::is_const_v<std::remove_reference_t<decltype(set)>>) {
        set = CpuSet::parse_list(list).value_or(CpuSet());
    }
}

static void fields(auto& f, Is<Core> auto& core) {
    f("cpus", core.cpus);
    f("package", core.package);
    f("numa_node", core.numa_node);
    f("l3", core.l3);
}

static void fields(auto& f, Is<NumaNode> auto& node) {
    f("number", node.number);
    f("cpus", node.cpus);
    f("memory_mib", node.memory_mib);
    f("package", node.package);
    f("special", node.special);
}

static void fields(auto& f, Is<GpuLink> auto& link) {
    f("gpu", link.gpu);
    f("peer", link.peer);
    f("kind", link.kind, GpuLink::Kind::Xgmi);
    f("count", link.count);
}

static void fields(auto& f, Is<Topology> auto& topology) {
    f("cores", topology.cores, most_objects);
    f("numa_nodes", topology.numa_nodes, most_objects);
    f("packages", topology.packages);
    f("source", topology.source);
    f("gpu_links", topology.gpu_links, most_objects);
}

static void fields(auto& f, Is<Gpu> auto& gpu) {
    f("pci", gpu.pci);
    f("pci_path", gpu.pci_path, longest_path);
    f("vendor", gpu.vendor);
    f("numa_node", gpu.numa_node);
    f("local_cpus", gpu.local_cpus);
}

static void fields(auto& f, Is<Port> auto& port) {
    f("number", port.number);
    f("state", port.state);
}

static void fields(auto& f, Is<Hca> auto& hca) {
    f("name", hca.name);
    f("pci", hca.pci);
    f("pci_path", hca.pci_path, longest_path);
    f("numa_node", hca.numa_node);
    f("local_cpus", hca.local_cpus);
    f("node_guid", hca.node_guid);
    f("ports", hca.ports);
}

static void fields(auto& f, Is<Netdev> auto& netdev) {
    f("name", netdev.name);
    f("pci_path", netdev.pci_path, longest_path);
}

namespace {

void fields(auto& f, Is<Reading> auto& reading) {
    f("topology", reading.machine.topology);
    f("gpus", reading.machine.fabric.gpus, most_objects);
    f("hcas", reading.machine.fabric.hcas, most_objects);
    f("netdevs", reading.machine.fabric.netdevs, most_objects);
    f("name", reading.machine.name);
    f("problem", reading.problem);
}

/// Lets this process take a GiB more than it has (proc_pid_statm(5)), and leave no core file.
void limit_self() {
    constexpr rlim_t more = rlim_t{1} << 30;
    const auto root = SysRoot::open("/");
    const auto sizes = root ? root->read("/proc/self/statm") : tl::unexpected(root.error());
    const auto pages = parse_number<rlim_t>(split_once(sizes.value_or(""), ' ').key);
    if (pages) {
        const rlim_t most = *pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + more;
        const rlimit limit{most, most};
        (void)::setrlimit(RLIMIT_AS, &limit);
    }
    (void)::prctl(PR_SET_DUMPABLE, 0);
}

/// hwloc's reasons on one line, without what it ignored and the name that it gives a file without a name.
std::string reasons_in(std::string_view text) {
    constexpr std::string_view prefix = "xmlbuffer: ";
    std::vector<std::string_view> reasons;
    for (auto line : split(text, '\n')) {
        if (!reasons.empty() && line.starts_with("Failed to parse")) {
            break; // says nothing more
        }
        line.remove_prefix(line.starts_with(prefix) ? prefix.size() : 0);
        if (!line.empty() && line.find("ignoring") == std::string_view::npos) {
            reasons.push_back(line);
        }
    }
    return printable(joined(reasons, " "), 300);
}

/// For a child: hwloc tells its reasons on stderr only, and only if asked.
Reading read_here(const Libhwloc& hwloc, const std::string& text) {
    limit_self();
    const auto said = open_pipe(O_CLOEXEC | O_NONBLOCK);
    if (said) {
        (void)::dup2(said->writer.get(), STDERR_FILENO);
    }
    ::setenv("HWLOC_XML_VERBOSE", "1", 1);
    const auto loaded = load(hwloc, Devices::Read, text);
    if (loaded) {
        return {to_machine(*loaded), ""};
    }
    std::array<char, 4096> bytes{};
    const ssize_t count = said ? ::read(said->reader.get(), bytes.data(), bytes.size()) : 0;
    const auto why = reasons_in({bytes.data(), static_cast<std::size_t>(std::max(count, ssize_t{0}))});
    return {{}, why.empty() ? loaded.error().message : format_text("{} cannot read it: {}", hwloc.name(), why)};
}

/// Returns a message if the XML is of a newer version than the library, which has its own number ("2.0" of 2.1
/// to 2.13).
std::optional<std::string> newer_version(std::string_view text, const Libhwloc& hwloc) {
    constexpr std::string_view key = "version=\"";
    const auto tag = next_tag(text).value_or("");
    const auto at = tag.find(key);
    const auto version = at == std::string_view::npos ? "" : tag.substr(at + key.size());
    const auto major = parse_number<unsigned>(version.substr(0, version.find('.')));
    const unsigned most = hwloc.get_api_version() >> 16;
    return !major || *major <= most
               ? std::nullopt
               : std::optional(
                     format_text("XML version {}, this libhwloc ({}) reads up to {}: write the file with lstopo "
                                 "--export-xml-flags v{}",
                                 printable(version.substr(0, version.find('"')), 16), hwloc.name(), most, most));
}

} // namespace

Result<XmlMachine> read_hwloc_xml(const std::string& text) {
    const auto hwloc = load_libhwloc();
    if (!hwloc) {
        return tl::unexpected(hwloc.error());
    }
    if (const auto problem = newer_version(text, *hwloc)) {
        return fail(*problem);
    }
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    auto reading = ChildValue<Reading>::start([&] { return read_here(*hwloc, text); }).finish(deadline);
    if (!reading) {
        return fail(format_text("{} {} it: the file is damaged or too large", hwloc->name(),
                                std::chrono::steady_clock::now() < deadline ? "crashed when it read"
                                                                            : "needs more than 30 s to read"));
    }
    return reading->problem.empty() ? Result<XmlMachine>(std::move(reading->machine)) : fail(reading->problem);
}

Result<Topology> read_topology(const SysRoot& root) {
    if (has_xml(root)) {
        return root.read(topology_file, longest_xml)
            .and_then(read_xml)
            .map([](const XmlMachine& machine) { return machine.topology; })
            .map_error([&](const Error& error) {
                return Error{format_text("{}{}: {}", root.path(), topology_file, error.message), error.os_error};
            });
    }
    return load_below(root, Devices::Leave).map(to_topology);
}

Result<std::string> export_topology(const SysRoot& root) {
    if (has_xml(root)) {
        return root.read(topology_file, longest_xml);
    }
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
