// SPDX-License-Identifier: Apache-2.0
// What read_fabric() promises of every Fabric, and those who use one rely on.
#pragma once

#include "lib/base/text.h"
#include "lib/fabric/fabric.h"
#include "lib/fabric/kernel_text.h"
#include "tests/fuzz/check.h"

#include <set>
#include <string>

namespace fuzz {

inline void check_gids(const rdma_nccl::Port& port) {
    unsigned next = 0;
    for (const auto& gid : port.gids) {
        require(gid.index >= next && gid.index < port.gid_table_length, "slots in order, inside the table");
        next = gid.index + 1;
        require(gid.value != rdma_nccl::IpAddress(), "no empty slot");
        require(gid.type.has_value() == (gid.type_problem == rdma_nccl::TypeProblem::None),
                "a type, or why there is none");
        require(gid.netdev.empty() || rdma_nccl::is_netdev_name(gid.netdev), "an interface name", gid.netdev);
        require_plain(gid.type_text);
    }
    require(port.gid_table_length <= 65536, "as many slots as are looked at");
}

inline void check_hca(const rdma_nccl::Hca& hca) {
    require(rdma_nccl::is_device_name(hca.name), "a device name", hca.name);
    require(hca.pci.empty() || rdma_nccl::is_pci_address(hca.pci), "a PCI address", hca.pci);
    for (const auto& text : {hca.node_type, hca.driver, hca.physical_function, hca.node_guid, hca.system_image_guid,
                             hca.firmware, hca.board, hca.device_file}) {
        require_plain(text);
    }
    require_all_plain(hca.problems);
    unsigned next = 1;
    for (const auto& port : hca.ports) {
        require(port.number >= next, "ports in order, from 1");
        next = port.number + 1;
        require_plain(port.state);
        require_plain(port.physical_state);
        require(port.rate_gbps >= 0 && port.rate_gbps <= 1e6, "a rate");
        require(port.believable_rate_gbps() >= port.netdev_gbps, "a rate not below the interface's");
        require_all_plain(port.problems);
        check_gids(port);
    }
}

inline void check_netdev(const rdma_nccl::Netdev& netdev) {
    require(rdma_nccl::is_netdev_name(netdev.name), "an interface name", netdev.name);
    require(netdev.upper.empty() || rdma_nccl::is_netdev_name(netdev.upper), "an interface name", netdev.upper);
    for (const auto& lower : netdev.lowers) {
        require(rdma_nccl::is_netdev_name(lower), "an interface name", lower);
    }
    require(netdev.speed_gbps >= 0, "a speed");
    for (const auto& entry : netdev.addresses) {
        require(entry.prefix_length <= (entry.address.is_ipv4() ? 32U : 128U), "a prefix length of the family");
    }
}

template<typename Items>
void require_different_names(const Items& items) {
    std::set<std::string> names;
    for (const auto& item : items) {
        require(names.insert(item.name).second, "a name that no other has", item.name);
    }
}

inline void check_fabric(const rdma_nccl::Fabric& fabric) {
    require_different_names(fabric.hcas);
    require_different_names(fabric.netdevs);
    for (const auto& hca : fabric.hcas) {
        check_hca(hca);
    }
    for (const auto& netdev : fabric.netdevs) {
        check_netdev(netdev);
    }
    for (const auto& gpu : fabric.gpus) {
        require(rdma_nccl::is_pci_address(gpu.pci), "a PCI address", gpu.pci);
        require_plain(gpu.uuid);
    }
    for (const auto& name : fabric.default_route_netdevs) {
        require(rdma_nccl::is_netdev_name(name), "an interface name", name);
    }
    require_all_plain(fabric.problems);
}

} // namespace fuzz
