// SPDX-License-Identifier: Apache-2.0
#include "config.h"
#include "lib/topology/libhwloc.h"
#include "lib/topology/sysfs_topology.h"
#include "lib/topology/topology.h"
#include "lib/topology/xml.h"

#include <cstdlib>

namespace rdma_nccl {

// The library.

Result<Libhwloc> load_libhwloc() {
    auto hwloc =
        load_functions<Libhwloc>(HWLOC_SONAME, "install hwloc", "install hwloc 2.1 or newer", Loaded::WhileUsed);
    // The structures differ between major versions (hwloc.h, hwloc_get_api_version).
    constexpr unsigned major_version = HWLOC_API_VERSION >> 16;
    if (hwloc && hwloc->get_api_version() >> 16 != major_version) {
        return fail(format_text("{} is {}, but rdma-nccl was built with the headers of hwloc {}: build it again",
                                HWLOC_SONAME, hwloc->name(), major_version));
    }
    return hwloc;
}

CpuSet HwlocMachine::cpus(hwloc_const_bitmap_t bitmap) const {
    CpuSet set;
    for (int cpu = bitmap == nullptr ? -1 : hwloc.bitmap_next(bitmap, -1);
         cpu >= 0 && static_cast<unsigned>(cpu) < most_cpus; cpu = hwloc.bitmap_next(bitmap, cpu)) {
        set.add(static_cast<unsigned>(cpu));
    }
    return set;
}

std::vector<hwloc_obj_t> HwlocMachine::objects(hwloc_obj_type_t type) const {
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

/// Asks for the whole machine: a process's masks tell what it may use, which differs from task to task. CPU kinds and
/// memory attributes are not needed, and reading them takes time.
static void set_flags(const Libhwloc& hwloc, hwloc_topology_t topology) {
    constexpr unsigned long whole = HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED;
#if HWLOC_API_VERSION >= 0x00020800
    constexpr unsigned long lean = HWLOC_TOPOLOGY_FLAG_NO_CPUKINDS | HWLOC_TOPOLOGY_FLAG_NO_MEMATTRS;
    if (hwloc.set_flags(topology, whole | lean) == 0) {
        return; // otherwise the library is older than the header
    }
#endif
    (void)hwloc.set_flags(topology, whole);
}

Result<HwlocMachine> load_machine(const Libhwloc& hwloc, Devices devices, const std::string& xml) {
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
    // If any cache is wanted, hwloc opens ten files of each CPU, most of what it takes to read a machine; before 2.10
    // it always does (hwloc/topology-linux.c).
    (void)hwloc.set_cache_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_NONE);
    if (devices == Devices::Read) {
        (void)hwloc.set_type_filter(raw, HWLOC_OBJ_L3CACHE, HWLOC_TYPE_FILTER_KEEP_ALL);
        (void)hwloc.set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    }
    const auto size = static_cast<int>(xml.size() + 1); // with the final NUL
    if ((!xml.empty() && hwloc.set_xmlbuffer(raw, xml.c_str(), size) != 0) || hwloc.load(raw) != 0) {
        return os_failure(format_text("{} cannot read {}", hwloc.name(), xml.empty() ? "this machine" : "it"));
    }
    return machine;
}

// The topology.

namespace {

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

/// True for a copied machine whose topology is in a file.
bool has_xml(const SysRoot& root) {
    return root.path() != "/" && root.exists(topology_file);
}

Result<HwlocMachine> load_below(const Libhwloc& hwloc, const SysRoot& root, Devices devices) {
    // Without the first CPU's topology, hwloc prints an error to stderr. CPU 0 may be offline (hwloc 2.4.1 or newer).
    const auto online = CpuSet::parse_list(root.read("/sys/devices/system/cpu/online").value_or(""));
    const auto directory =
        format_text("/sys/devices/system/cpu/cpu{}/topology", online.value_or(CpuSet()).first().value_or(0));
    if (!root.exists(directory)) {
        return fail(format_text("{} has no {}", root.path(), directory));
    }
    // HWLOC_FSROOT is the only way to tell hwloc below which directory to read /sys and /proc. Set for copied and
    // emulated machines only: a process with threads should not change its environment.
    if (root.path() == "/") {
        return load_machine(hwloc, devices, "");
    }
    ::setenv("HWLOC_FSROOT", root.path().c_str(), 1);
    auto loaded = load_machine(hwloc, devices, "");
    ::unsetenv("HWLOC_FSROOT");
    return loaded;
}

} // namespace

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
        core.l3 = number_above(object, HWLOC_OBJ_L3CACHE);
        if (const auto* node = plain_node_of(topology.numa_nodes, core.cpus)) {
            core.numa_node = node->number;
        }
    }
    for (auto& node : topology.numa_nodes) {
        node.special = find_by(topology.cores, &Core::numa_node, std::optional(node.number)) == nullptr;
    }
    return topology;
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
    const auto hwloc = load_libhwloc();
    if (!hwloc) { // a container's image
        return read_sysfs_topology(root);
    }
    auto topology = load_below(*hwloc, root, Devices::Leave).map(to_topology);
    if (topology) {
        find_l3_caches(root, *topology);
    }
    return topology;
}

Result<std::string> export_topology(const SysRoot& root) {
    if (has_xml(root)) {
        return root.read(topology_file, longest_xml);
    }
    const auto load = [&root](const Libhwloc& hwloc) { return load_below(hwloc, root, Devices::Read); };
    return load_libhwloc().and_then(load).and_then([](const HwlocMachine& loaded) -> Result<std::string> {
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

} // namespace rdma_nccl
