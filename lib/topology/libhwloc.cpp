// SPDX-License-Identifier: Apache-2.0
#include "lib/topology/libhwloc.h"

#ifdef HAVE_HWLOC

#include "lib/base/dynamic_symbols.h"
#include "lib/base/format.h"

#include <dlfcn.h>

namespace rdma_nccl {

namespace {

constexpr unsigned major_version(unsigned api_version) {
    return api_version >> 16;
}

} // namespace

Result<HwlocLibrary> HwlocLibrary::load() {
    // Never closed: slurmstepd and hwloc's own components use it too.
    void* const handle = ::dlopen(HWLOC_SONAME, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
        return fail(format_text("{} cannot be loaded: install hwloc ({})", HWLOC_SONAME, ::dlerror()));
    }
    HwlocLibrary library{};
    Symbols symbols(handle);
    symbols.find(library.get_api_version, "hwloc_get_api_version");
    symbols.find(library.topology_init, "hwloc_topology_init");
    symbols.find(library.topology_destroy, "hwloc_topology_destroy");
    symbols.find(library.topology_load, "hwloc_topology_load");
    symbols.find(library.topology_set_flags, "hwloc_topology_set_flags");
    symbols.find(library.topology_set_xml, "hwloc_topology_set_xml");
    symbols.find(library.topology_set_components, "hwloc_topology_set_components");
    symbols.find(library.topology_set_cache_types_filter, "hwloc_topology_set_cache_types_filter");
    symbols.find(library.topology_set_type_filter, "hwloc_topology_set_type_filter");
    symbols.find(library.topology_set_io_types_filter, "hwloc_topology_set_io_types_filter");
    symbols.find(library.topology_export_xmlbuffer, "hwloc_topology_export_xmlbuffer");
    symbols.find(library.free_xmlbuffer, "hwloc_free_xmlbuffer");
    symbols.find(library.get_type_depth, "hwloc_get_type_depth");
    symbols.find(library.get_nbobjs_by_depth, "hwloc_get_nbobjs_by_depth");
    symbols.find(library.get_obj_by_depth, "hwloc_get_obj_by_depth");
    symbols.find(library.bitmap_next, "hwloc_bitmap_next");
    if (!symbols.missing().empty()) {
        return fail(format_text("{} has no {}: install hwloc 2.1 or newer", HWLOC_SONAME, symbols.missing()));
    }
    // The structures differ between major versions (hwloc.h, hwloc_get_api_version).
    if (major_version(library.get_api_version()) != major_version(HWLOC_API_VERSION)) {
        return fail(format_text("{} is {}, but rdma-nccl was built with the headers of hwloc {}: build it again",
                                HWLOC_SONAME, library.name(), major_version(HWLOC_API_VERSION)));
    }
    return library;
}

std::string HwlocLibrary::name() const {
    const unsigned version = get_api_version();
    return format_text("hwloc {}.{}", major_version(version), version >> 8 & 0xffU);
}

} // namespace rdma_nccl

#endif
