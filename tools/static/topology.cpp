// SPDX-License-Identifier: Apache-2.0
// In place of lib/topology/hwloc_*.cpp, which are 80 kB for a library that this program does not load. Without them the
// linker drops the readers of XML, too.
#include "lib/topology/topology.h"

#include "lib/base/format.h"
#include "lib/topology/sysfs_topology.h"
#include "lib/topology/xml.h"

namespace rdma_nccl {

static tl::unexpected<Error> no_hwloc(std::string_view what) {
    return fail(format_text("{}: the static rdma-nccl loads no hwloc", what));
}

Result<Topology> read_topology(const SysRoot& root) {
    return read_sysfs_topology(root);
}

Result<XmlMachine> read_hwloc_xml(const std::string& /*text*/) {
    return no_hwloc("XML of hwloc");
}

Result<std::string> export_topology(const SysRoot& /*root*/) {
    return no_hwloc("XML of the topology");
}

} // namespace rdma_nccl
