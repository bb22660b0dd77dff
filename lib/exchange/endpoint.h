// SPDX-License-Identifier: Apache-2.0
// The address where srun listens for the nodes of its step. It is passed in one variable of the step's environment,
// next to the step's key (lib/net/key.h).
#pragma once

#include "lib/net/ip.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

/// The name starts with SLURM so that --export=NONE keeps it (env_array_merge_slurm_spank).
inline constexpr std::string_view endpoint_variable = "SLURM_RDMA_NCCL_EXCHANGE";

struct ExchangeEndpoint {
    std::vector<IpAddress> addresses; ///< srun's host's, at most eight
    std::uint16_t port = 0;
    unsigned seconds = 0; ///< how long nodes wait for each other; a node's own limit may be shorter

    friend bool operator==(const ExchangeEndpoint&, const ExchangeEndpoint&) = default;
};

std::string write_endpoint(const ExchangeEndpoint& endpoint);
/// Parses untrusted input; nullopt when malformed.
std::optional<ExchangeEndpoint> read_endpoint(std::string_view text);

/// Returns all routable addresses of this host's interfaces that are up (getifaddrs(3)).
std::vector<IpAddress> own_addresses();

/// Returns up to eight of own_addresses() that other hosts may reach, IPv4 first. Leaves out bridges without hardware
/// below (/sys/class/net/NAME/brif): containers and virtual machines use them, with the same addresses on every host.
std::vector<IpAddress> published_addresses();

} // namespace rdma_nccl
