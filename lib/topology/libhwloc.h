// SPDX-License-Identifier: Apache-2.0
// libhwloc, and machines that it has read. For hwloc_*.cpp, which are compiled where its headers are.
#pragma once

#include "lib/base/cpu_set.h"
#include "lib/base/dynamic_symbols.h"
#include "lib/base/format.h"
#include "lib/base/result.h"
#include "lib/topology/topology.h"

#include <hwloc.h>
#include <memory>
#include <string>
#include <vector>

namespace rdma_nccl {

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

/// Fails with what to install, or if the library is of another major version than the headers.
Result<Libhwloc> load_libhwloc();

/// A machine that hwloc has read.
struct HwlocMachine {
    Libhwloc hwloc;
    std::unique_ptr<hwloc_topology, decltype(Libhwloc::destroy)> topology;

    /// An empty set for nullptr.
    [[nodiscard]] CpuSet cpus(hwloc_const_bitmap_t bitmap) const;
    /// Returns all objects of a type, in the order of the tree.
    [[nodiscard]] std::vector<hwloc_obj_t> objects(hwloc_obj_type_t type) const;
};

enum class Devices { Leave, Read };

/// Reads a machine's XML, or this machine if `xml` is empty.
Result<HwlocMachine> load_machine(const Libhwloc& hwloc, Devices devices, const std::string& xml);

/// Returns CPUs, caches and memory.
Topology to_topology(const HwlocMachine& machine);

/// Returns all of a machine that was read with its devices.
XmlMachine to_machine(const HwlocMachine& loaded);

} // namespace rdma_nccl
