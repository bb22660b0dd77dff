// SPDX-License-Identifier: Apache-2.0
// The texts of single sysfs files of RDMA devices, as values. All functions are total: any bytes may come in.
#pragma once

#include "lib/fabric.h"
#include "lib/ip.h"

#include <optional>
#include <string>
#include <string_view>

namespace rdma_nccl {

/// gids/I: exactly eight groups of four hex digits ("fe80:0000:0000:0000:0e42:a1ff:fe2b:3c4d").
std::optional<IpAddress> parse_gid(std::string_view text);
/// The same form, as sysfs prints it.
std::string gid_text(const IpAddress& gid);

/// rate: "200 Gb/sec (4X HDR)" gives 200, "2.5 Gb/sec (1X SDR)" 2.5; Gb/s, above 0 and at most a million.
std::optional<double> parse_rate_gbps(std::string_view text);

/// "10 Gb/sec (4X)", "10 Gb/sec (4X SDR)", "2.5 Gb/sec (1X SDR)": what a kernel older than a port's speed prints for
/// it, and some drivers always (doc/facts/link-rate.md). Real links of that speed went out of use before there were
/// GPUs to feed.
bool is_default_rate(std::string_view text);

/// state, phys_state, node_type: "4: ACTIVE" gives "ACTIVE". A text without that form is given back as it is,
/// printable.
std::string parse_enum_name(std::string_view text);

LinkLayer parse_link_layer(std::string_view text);
/// "InfiniBand", "Ethernet" or "Unknown", as the file says.
std::string link_layer_text(LinkLayer layer);

/// gid_attrs/types/I: "IB/RoCE v1" (older kernels: "RoCE v1") or "RoCE v2".
std::optional<GidType> parse_gid_type(std::string_view text);

/// A name that can stand in NCCL_IB_HCA and in a path: letters, digits, '_', '-', '.'; 1 to 63 characters.
bool is_device_name(std::string_view name);
/// What the kernel accepts (dev_valid_name: 1 to 15 characters, no '/', ':' or blank), in printable ASCII only.
bool is_netdev_name(std::string_view name);

/// Decimal without sign or leading zeros, so that no two names mean one number: "0", "17", not "007".
std::optional<unsigned> parse_index(std::string_view text);

/// mlx5_2 before mlx5_10: runs of digits compare as numbers.
bool natural_name_less(std::string_view a, std::string_view b);

} // namespace rdma_nccl
