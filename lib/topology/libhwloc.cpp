// SPDX-License-Identifier: Apache-2.0
#include "config.h"

#ifdef HAVE_HWLOC

#include "lib/topology/libhwloc.h"

namespace rdma_nccl {

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

} // namespace rdma_nccl

#endif
