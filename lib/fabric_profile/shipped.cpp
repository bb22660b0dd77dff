// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric_profile/profile.h"

#include <array>

namespace rdma_nccl {

std::span<const ShippedFabricProfile> shipped_fabric_profiles() {
    static constexpr auto profiles = std::to_array<ShippedFabricProfile>({
        {
            "amd-ainic.conf",
#include "build/embedded/etc/profiles.d/amd-ainic.conf.inc"
        },
        {
            "aws-efa.conf",
#include "build/embedded/etc/profiles.d/aws-efa.conf.inc"
        },
        {
            "azure-nd-a100-v4.conf",
#include "build/embedded/etc/profiles.d/azure-nd-a100-v4.conf.inc"
        },
        {
            "azure-nd-h100-v5.conf",
#include "build/embedded/etc/profiles.d/azure-nd-h100-v5.conf.inc"
        },
        {
            "gcp-gib.conf",
#include "build/embedded/etc/profiles.d/gcp-gib.conf.inc"
        },
        {
            "oci-a100.conf",
#include "build/embedded/etc/profiles.d/oci-a100.conf.inc"
        },
        {
            "oci-h100.conf",
#include "build/embedded/etc/profiles.d/oci-h100.conf.inc"
        },
    });
    return profiles;
}

} // namespace rdma_nccl
