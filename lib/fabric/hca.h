// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/base/bounded_notes.h"
#include "lib/fabric/fabric.h"

#include <map>
#include <string>
#include <vector>

namespace rdma_nccl {

/// Reads the RDMA devices in /sys/class/infiniband with their ports, in natural order of names. Adds problems that
/// concern no single device to `notes`. Hca::netdevs gets those of the PCI function only; GID tables and
/// Port::netdev_gbps are not read.
std::vector<Hca> read_hcas(const SysRoot& root, const UnresponsiveHcas& silent, Notes& notes);

/// Reads the GID tables, and adds their interfaces to Hca::netdevs. With `netdevs` (complete with addresses), reads
/// each table only until all expected entries are found (lib/fabric/expected_gids.h); otherwise to its end.
void read_gid_tables(const SysRoot& root, Hca& hca, const std::vector<Netdev>* netdevs = nullptr);

/// Reads only a device's location: PCI path, NUMA node, local CPUs and driver. Never queries a device's driver.
Hca read_hca_place(const SysRoot& root, const std::string& name);

/// The verbs device files: which /dev/infiniband/uverbsN belongs to which HCA (/sys/class/infiniband_verbs/*/ibdev),
/// and whether it exists. NCCL skips an HCA that it cannot open (ncclIbInit), but sysfs still shows it.
class VerbsDevices {
public:
    explicit VerbsDevices(const SysRoot& root);

    /// Sets Hca::device_file and Hca::device_access. Checks permissions on the live root only; a device cgroup may
    /// still refuse to open the file.
    void describe(const SysRoot& root, Hca& hca) const;

private:
    bool known_ = false;                        ///< the root has a /dev
    std::map<std::string, std::string> by_hca_; ///< maps mlx5_0 to uverbs3
};

} // namespace rdma_nccl
