// SPDX-License-Identifier: Apache-2.0
// The XML that describes machines, of hwloc and of NCCL. Both come from strangers.
#pragma once

#include "lib/topology/topology.h"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace rdma_nccl {

/// The most that is read of a file: that of a node with 20,000 GPUs has 40 MB.
inline constexpr std::size_t longest_xml = 100'000'000;

/// Returns the next tag of XML without its brackets, `pci busid="..." /`, and moves `text` behind it. Skips text,
/// comments and declarations. Returns nullopt at the end, or where a tag is cut off.
std::optional<std::string_view> next_tag(std::string_view& text);
/// Returns "pci" of such a tag.
std::string_view tag_name(std::string_view tag);
/// Returns the value of an attribute of such a tag; "" if it does not have it.
std::string_view attribute(std::string_view tag, std::string_view key);

/// Reads either kind, which the root element tells.
Result<XmlMachine> read_xml(const std::string& text);

/// Reads hwloc's XML with libhwloc, which damaged files can crash or keep busy (2.9): in a child with limits of time
/// and memory. Fails with hwloc's own reasons.
Result<XmlMachine> read_hwloc_xml(const std::string& text);

/// Reads what NCCL writes to NCCL_TOPO_DUMP_FILE and reads from NCCL_TOPO_FILE (src/graph/xml.cc of 2.30, of
/// RCCL 2.21):
///
///     <system version="1">
///       <cpu numaid="0" affinity="0000ffff,0000ffff" ...>
///         <pci busid="0000:05:00.0" class="0x060400" ...>                     a switch, by its upstream port
///           <pci busid="0000:07:00.0" ...><gpu dev="0" ...><nvlink target="0000:c4:00.0" count="12" .../></gpu></pci>
///           <pci busid="0000:08:00.0" ...><nic><net name="mlx5_0" port="1" guid="0x..." .../></nic></pci>
///
/// It tells neither packages (Topology::packages is 0), cores, memory, nor the host bridges: devices below a cpu
/// without a common switch are in one NUMA node. The GPUs are in the order of `dev`.
Result<XmlMachine> read_nccl_xml(std::string_view text);

} // namespace rdma_nccl
