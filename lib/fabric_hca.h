// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/fabric.h"
#include "lib/fabric_notes.h"

#include <map>
#include <string>
#include <vector>

namespace rdma_nccl {

/// The RDMA devices of /sys/class/infiniband with their ports, in natural order of names. Problems that concern no one
/// device go to `notes`. Hca::netdevs has those of the PCI function; GID tables and Port::netdev_gbps are not read.
std::vector<Hca> read_hcas(const Root& root, const SilentHcas& silent, Notes& notes);

/// Reads the GID tables; adds their interfaces to Hca::netdevs. With `netdevs` (complete with addresses), each table
/// is read until all expected entries are seen (lib/expected_gids.h), else to its end.
void read_gid_tables(const Root& root, Hca& hca, const std::vector<Netdev>* netdevs = nullptr);

/// Only where it hangs: name, PCI path, NUMA node, local CPUs, driver; asks no driver of a device.
Hca read_hca_place(const Root& root, const std::string& name);

/// The device files of verbs: which /dev/infiniband/uverbsN belongs to which HCA (/sys/class/infiniband_verbs/*/ibdev),
/// and whether it is there. NCCL skips an HCA that it cannot open (ncclIbInit), while sysfs shows it all the same.
class VerbsDevices {
public:
    explicit VerbsDevices(const Root& root);

    /// Sets Hca::device_file and Hca::device_access. Permissions are looked at on the live root only; a device cgroup
    /// may still refuse the open.
    void describe(const Root& root, Hca& hca) const;

private:
    bool known_ = false;                        ///< /dev is part of the root
    std::map<std::string, std::string> by_hca_; ///< mlx5_0 to uverbs3
};

} // namespace rdma_nccl
