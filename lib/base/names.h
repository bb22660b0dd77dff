// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace rdma_nccl {

/// True for a name that can be used in NCCL_IB_HCA and in a path: 1 to 63 letters, digits, '_', '-' or '.'.
bool is_device_name(std::string_view name);
/// True for an interface name that the kernel accepts (dev_valid_name: 1 to 15 characters, no '/', ':' or blank), in
/// printable ASCII only.
bool is_netdev_name(std::string_view name);

} // namespace rdma_nccl
