// SPDX-License-Identifier: Apache-2.0
// Topology files of NCCL: a machine whose places fit together, or a reason. (hwloc's are read in a child: see
// tests/unit/lib/topology/hwloc_topology_test.cpp.)
#include "lib/base/lists.h"
#include "lib/topology/xml.h"
#include "tests/fuzz/check.h"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace rdma_nccl;
    const auto machine = read_nccl_xml({reinterpret_cast<const char*>(data), size});
    if (!machine) {
        fuzz::require_plain(machine.error().message);
        return 0;
    }
    fuzz::require_plain(machine->name);
    fuzz::require_all_plain(machine->notes);
    CpuSet seen;
    for (const auto& core : machine->topology.cores) {
        fuzz::require(!seen.intersects(core.cpus), "each CPU once", core.cpus.list());
        seen |= core.cpus;
    }
    for (const auto& gpu : machine->fabric.gpus) {
        fuzz::require(is_pci_address(gpu.pci) && pci_function_path(gpu.pci_path) == gpu.pci_path, "a place", gpu.pci);
        fuzz::require(seen.contains(gpu.local_cpus), "near CPUs of the machine", gpu.pci);
    }
    for (const auto& hca : machine->fabric.hcas) {
        fuzz::require_plain(hca.name);
        fuzz::require(!hca.ports.empty(), "a port", hca.name);
        (void)Distances(machine->topology)
            .between(place_of(hca, machine->topology), place_of(machine->fabric.hcas.front(), machine->topology));
    }
    return 0;
}
