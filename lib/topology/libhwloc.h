// SPDX-License-Identifier: Apache-2.0
// Loads hwloc at run time: the plugin is part of every srun, including those on login nodes without hwloc, and
// slurmstepd usually has it loaded already. Only files that need hwloc's types include this one; it is empty when built
// without hwloc.h.
#pragma once

#include "config.h"
#include "lib/base/result.h"

#ifdef HAVE_HWLOC

#include <hwloc.h>
#include <memory>
#include <string>

namespace rdma_nccl {

/// The functions of libhwloc that this project uses.
struct HwlocLibrary {
    decltype(&::hwloc_get_api_version) get_api_version;
    decltype(&::hwloc_topology_init) topology_init;
    decltype(&::hwloc_topology_destroy) topology_destroy;
    decltype(&::hwloc_topology_load) topology_load;
    decltype(&::hwloc_topology_set_flags) topology_set_flags;
    decltype(&::hwloc_topology_set_xml) topology_set_xml;
    decltype(&::hwloc_topology_set_components) topology_set_components;
    decltype(&::hwloc_topology_set_cache_types_filter) topology_set_cache_types_filter;
    decltype(&::hwloc_topology_set_type_filter) topology_set_type_filter;
    decltype(&::hwloc_topology_set_io_types_filter) topology_set_io_types_filter;
    decltype(&::hwloc_topology_export_xmlbuffer) topology_export_xmlbuffer;
    decltype(&::hwloc_free_xmlbuffer) free_xmlbuffer;
    decltype(&::hwloc_get_type_depth) get_type_depth;
    decltype(&::hwloc_get_nbobjs_by_depth) get_nbobjs_by_depth;
    decltype(&::hwloc_get_obj_by_depth) get_obj_by_depth;
    decltype(&::hwloc_bitmap_next) bitmap_next;

    /// Fails when the library is missing, or does not match the headers of this build.
    static Result<HwlocLibrary> load();

    /// Returns "hwloc 2.9".
    [[nodiscard]] std::string name() const;
};

struct HwlocDestroy {
    decltype(&::hwloc_topology_destroy) destroy = nullptr;
    void operator()(hwloc_topology_t topology) const { destroy(topology); }
};
using HwlocTopology = std::unique_ptr<hwloc_topology, HwlocDestroy>;

} // namespace rdma_nccl

#endif
