// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/fabric.h"

#include <map>
#include <string>

namespace rdma_nccl {

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
