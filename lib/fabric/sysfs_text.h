// SPDX-License-Identifier: Apache-2.0
// Parses the texts of single sysfs files of RDMA devices. All functions accept any bytes.
#pragma once

#include "lib/fabric/fabric.h"
#include "lib/net/ip.h"

#include <optional>
#include <string>
#include <string_view>

namespace rdma_nccl {

/// Parses gids/I: exactly eight groups of four hex digits ("fe80:0000:0000:0000:0e42:a1ff:fe2b:3c4d").
std::optional<IpAddress> parse_gid(std::string_view text);
/// Writes a GID in the same form, as sysfs prints it.
std::string gid_text(const IpAddress& gid);

/// Parses rate, in Gb/s: "200 Gb/sec (4X HDR)" gives 200, "2.5 Gb/sec (1X SDR)" gives 2.5. Fails unless the rate is
/// above 0 and at most a million.
std::optional<double> parse_rate_gbps(std::string_view text);

/// Returns true for "10 Gb/sec (4X)", "10 Gb/sec (4X SDR)" and "2.5 Gb/sec (1X SDR)". A kernel prints these for a port
/// whose speed is newer than the kernel, and some drivers always do. Real links of these speeds went out of use before
/// RDMA was used with GPUs (doc/facts/link-rate.md).
bool is_default_rate(std::string_view text);

/// Parses state, phys_state and node_type: "4: ACTIVE" gives "ACTIVE". Returns a text of another form as it is, made
/// printable.
std::string parse_enum_name(std::string_view text);

LinkLayer parse_link_layer(std::string_view text);
/// Returns "InfiniBand", "Ethernet" or "Unknown", as in the file.
std::string link_layer_text(LinkLayer layer);

/// Parses gid_attrs/types/I: "IB/RoCE v1" (older kernels: "RoCE v1") or "RoCE v2".
std::optional<GidType> parse_gid_type(std::string_view text);

/// Parses a decimal number without sign or leading zeros, so that no two names mean the same number: "0", "17", not
/// "007".
std::optional<unsigned> parse_index(std::string_view text);

/// Compares runs of digits as numbers: mlx5_2 comes before mlx5_10.
bool natural_name_less(std::string_view a, std::string_view b);

} // namespace rdma_nccl
