// SPDX-License-Identifier: Apache-2.0
#include "lib/hwloc_topology.h"

#include "lib/format.h"
#include "lib/hwloc_devices.h"
#include "lib/hwloc_library.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>

namespace rdma_nccl {

#ifndef HAVE_HWLOC

namespace {

tl::unexpected<Error> not_built() {
    return fail("built without hwloc: install its headers and build again");
}

} // namespace

Result<Topology> read_topology(const Root& /*root*/) {
    return not_built();
}

Result<XmlMachine> read_topology_xml(const std::string& /*path*/) {
    return not_built();
}

Result<std::string> export_topology(const Root& /*root*/) {
    return not_built();
}

#else

namespace {

enum class Devices { Leave, Read };

/// hwloc takes the directory that /sys and /proc are read below from a variable alone (HWLOC_FSROOT). It is set for
/// copied and emulated machines only: a process with threads, as slurmstepd is, should not change its environment.
class RootVariable {
public:
    explicit RootVariable(const std::string& path) : set_(path != "/") {
        if (set_) {
            ::setenv(name, path.c_str(), 1);
        }
    }
    ~RootVariable() {
        if (set_) {
            ::unsetenv(name);
        }
    }
    RootVariable(const RootVariable&) = delete;
    RootVariable& operator=(const RootVariable&) = delete;

private:
    static constexpr const char* name = "HWLOC_FSROOT";
    bool set_;
};

/// What hwloc finds with these starts CUDA, NVML, an X server ..., or binds this thread to each CPU in turn (x86).
void leave_out_expensive(const HwlocLibrary& hwloc, hwloc_topology_t topology) {
    for (const auto* component : {"cuda", "nvml", "rsmi", "opencl", "levelzero", "gl", "x86"}) {
        (void)hwloc.topology_set_components(topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, component);
    }
}

Result<HwlocTopology> load(const HwlocLibrary& hwloc, Devices devices, const std::string& xml) {
    hwloc_topology_t raw = nullptr;
    if (hwloc.topology_init(&raw) != 0) {
        return fail(format_text("hwloc does not start: {}", ::strerror(errno)), errno);
    }
    HwlocTopology topology(raw, HwlocDestroy{hwloc.topology_destroy});
    leave_out_expensive(hwloc, raw);
    // The whole machine: what this process may use of it is in its masks, and differs from task to task.
    (void)hwloc.topology_set_flags(raw, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
    (void)hwloc.topology_set_cache_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_NONE);
    (void)hwloc.topology_set_type_filter(raw, HWLOC_OBJ_L3CACHE, HWLOC_TYPE_FILTER_KEEP_ALL);
    if (devices == Devices::Read) {
        (void)hwloc.topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    }
    if (!xml.empty() && hwloc.topology_set_xml(raw, xml.c_str()) != 0) {
        return fail(format_text("{}: hwloc cannot read it: {}", xml, ::strerror(errno)), errno);
    }
    if (hwloc.topology_load(raw) != 0) {
        return fail(xml.empty() ? format_text("hwloc cannot read this machine: {}", ::strerror(errno))
                                : format_text("{}: no topology of hwloc's", xml),
                    errno);
    }
    return topology;
}

CpuSet to_cpu_set(const HwlocLibrary& hwloc, hwloc_const_bitmap_t bitmap) {
    CpuSet set;
    if (bitmap == nullptr) {
        return set;
    }
    for (int cpu = hwloc.bitmap_next(bitmap, -1); cpu >= 0 && static_cast<unsigned>(cpu) < most_cpus;
         cpu = hwloc.bitmap_next(bitmap, cpu)) {
        set.add(static_cast<unsigned>(cpu));
    }
    return set;
}

std::vector<hwloc_obj_t> objects(const HwlocLibrary& hwloc, hwloc_topology_t topology, int depth) {
    std::vector<hwloc_obj_t> list(hwloc.get_nbobjs_by_depth(topology, depth));
    for (unsigned i = 0; i < list.size(); ++i) {
        list[i] = hwloc.get_obj_by_depth(topology, depth, i);
    }
    return list;
}

std::vector<hwloc_obj_t> objects(const HwlocLibrary& hwloc, hwloc_topology_t topology, hwloc_obj_type_t type) {
    const int depth = hwloc.get_type_depth(topology, type);
    return depth == HWLOC_TYPE_DEPTH_UNKNOWN || depth == HWLOC_TYPE_DEPTH_MULTIPLE ? std::vector<hwloc_obj_t>()
                                                                                   : objects(hwloc, topology, depth);
}

/// The nearest object of that type at or above; nullptr when there is none.
hwloc_obj_t ancestor(hwloc_obj_t object, hwloc_obj_type_t type) {
    while (object != nullptr && object->type != type) {
        object = object->parent;
    }
    return object;
}

std::vector<NumaNode> numa_nodes(const HwlocLibrary& hwloc, hwloc_topology_t topology) {
    std::vector<NumaNode> nodes;
    for (const auto* object : objects(hwloc, topology, HWLOC_TYPE_DEPTH_NUMANODE)) {
        NumaNode node;
        node.number = object->os_index;
        node.cpus = to_cpu_set(hwloc, object->cpuset);
        node.memory_mib = object->attr->numanode.local_memory >> 20U;
        const auto* package = ancestor(object->parent, HWLOC_OBJ_PACKAGE);
        node.package = package == nullptr ? 0 : package->logical_index;
        nodes.push_back(std::move(node));
    }
    std::sort(nodes.begin(), nodes.end(), [](const NumaNode& a, const NumaNode& b) { return a.number < b.number; });
    return nodes;
}

/// Where memory of a device or with high bandwidth has the same CPUs near, or all of the machine's: plain memory is
/// that with the fewest, and the kernel numbers it first.
const NumaNode* plain_node_of(const std::vector<NumaNode>& nodes, const CpuSet& cpus) {
    const NumaNode* best = nullptr;
    for (const auto& node : nodes) {
        if (node.cpus.intersects(cpus) && (best == nullptr || node.cpus.size() < best->cpus.size())) {
            best = &node;
        }
    }
    return best;
}

Topology to_topology(const HwlocLibrary& hwloc, hwloc_topology_t raw) {
    Topology topology;
    topology.numa_nodes = numa_nodes(hwloc, raw);
    topology.packages = std::max(static_cast<unsigned>(objects(hwloc, raw, HWLOC_OBJ_PACKAGE).size()), 1U);
    auto cores = objects(hwloc, raw, HWLOC_OBJ_CORE);
    if (cores.empty()) {
        cores = objects(hwloc, raw, HWLOC_OBJ_PU);
    }
    for (auto* object : cores) {
        Core core;
        core.cpus = to_cpu_set(hwloc, object->cpuset);
        const auto* package = ancestor(object, HWLOC_OBJ_PACKAGE);
        core.package = package == nullptr ? 0 : package->logical_index;
        const auto* l3 = ancestor(object, HWLOC_OBJ_L3CACHE);
        core.l3 = l3 == nullptr ? core.package : l3->logical_index;
        if (const auto* node = plain_node_of(topology.numa_nodes, core.cpus)) {
            core.numa_node = node->number;
        }
        topology.cores.push_back(std::move(core));
    }
    for (auto& node : topology.numa_nodes) {
        node.special = std::none_of(topology.cores.begin(), topology.cores.end(),
                                    [&node](const Core& core) { return core.numa_node == node.number; });
    }
    return topology;
}

std::optional<int> node_of(const Topology& topology, const CpuSet& cpus) {
    for (const auto& node : topology.numa_nodes) {
        if (!node.special && node.cpus == cpus) {
            return static_cast<int>(node.number);
        }
    }
    return std::nullopt;
}

Result<HwlocTopology> load_below(const HwlocLibrary& hwloc, const Root& root, Devices devices) {
    if (root.path() != "/" && root.exists(topology_file)) {
        return load(hwloc, devices, root.path() + std::string(topology_file));
    }
    if (!root.exists("/sys/devices/system/cpu/cpu0/topology")) { // of this, hwloc complains on stderr
        return fail(format_text("{} has no /sys/devices/system/cpu/cpu0/topology", root.path()));
    }
    const RootVariable variable(root.path());
    return load(hwloc, devices, "");
}

} // namespace

Result<Topology> read_topology(const Root& root) {
    const auto hwloc = HwlocLibrary::load();
    if (!hwloc) {
        return tl::unexpected(hwloc.error());
    }
    return load_below(*hwloc, root, Devices::Leave).map([&hwloc](const HwlocTopology& loaded) {
        Topology topology = to_topology(*hwloc, loaded.get());
        topology.source = hwloc->name();
        return topology;
    });
}

Result<XmlMachine> read_topology_xml(const std::string& path) {
    const auto hwloc = HwlocLibrary::load();
    if (!hwloc) {
        return tl::unexpected(hwloc.error());
    }
    return load(*hwloc, Devices::Read, path).map([&](const HwlocTopology& loaded) {
        XmlMachine machine{to_topology(*hwloc, loaded.get()), read_hwloc_devices(*hwloc, loaded.get())};
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

Result<std::string> export_topology(const Root& root) {
    const auto hwloc = HwlocLibrary::load();
    if (!hwloc) {
        return tl::unexpected(hwloc.error());
    }
    const auto loaded = load_below(*hwloc, root, Devices::Read);
    if (!loaded) {
        return tl::unexpected(loaded.error());
    }
    char* text = nullptr;
    int length = 0;
    if (hwloc->topology_export_xmlbuffer(loaded->get(), &text, &length, 0) != 0) {
        return fail(format_text("hwloc cannot write the topology: {}", ::strerror(errno)), errno);
    }
    std::string xml(text); // the length counts the final zero
    hwloc->free_xmlbuffer(loaded->get(), text);
    return xml;
}

#endif

} // namespace rdma_nccl
