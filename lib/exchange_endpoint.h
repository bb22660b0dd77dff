// SPDX-License-Identifier: Apache-2.0
// Where srun listens for the nodes of its step. It travels in one variable of the step's environment, beside the step's
// key (lib/net/key.h).
#pragma once

#include "lib/ip.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

/// Its name starts with SLURM so that --export=NONE keeps it (env_array_merge_slurm_spank).
inline constexpr std::string_view endpoint_variable = "SLURM_RDMA_NCCL_EXCHANGE";

struct ExchangeEndpoint {
    std::vector<IpAddress> addresses; ///< of srun's host, at most eight
    std::uint16_t port = 0;
    unsigned seconds = 0; ///< how long nodes shall wait for each other; a node waits no longer than it may itself

    friend bool operator==(const ExchangeEndpoint&, const ExchangeEndpoint&) = default;
};

std::string write_endpoint(const ExchangeEndpoint& endpoint);
/// Parsed as any input from outside: nullopt when malformed.
std::optional<ExchangeEndpoint> read_endpoint(std::string_view text);

/// All routable addresses of this host's interfaces that are up: getifaddrs(3).
std::vector<IpAddress> own_addresses();

/// Those of them that others may reach, IPv4 first, at most eight: none of a bridge without hardware below, as
/// containers and virtual machines have them (/sys/class/net/NAME/brif), with the same addresses on every host.
std::vector<IpAddress> published_addresses();

} // namespace rdma_nccl
