// SPDX-License-Identifier: Apache-2.0
// Where srun listens for the nodes of its step, and the secret by which both sides know each other. It travels in one
// variable of the step's environment, which other users cannot read.
#pragma once

#include "lib/ip.h"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

/// Its name starts with SLURM so that --export=NONE keeps it (env_array_merge_slurm_spank).
inline constexpr std::string_view endpoint_variable = "SLURM_RDMA_NCCL_EXCHANGE";

using Token = std::array<std::uint8_t, 16>;

/// Whoever connects says `question`; whoever listens says `answer`. So a stranger on a port that was srun's cannot
/// answer, although it hears the question.
struct Secret {
    Token question{};
    Token answer{};

    friend bool operator==(const Secret&, const Secret&) = default;
};

/// 256 bits of getrandom(2); nullopt when the kernel has none.
std::optional<Secret> random_secret();

/// As bytes to send.
std::string_view bytes_of(const Token& token);

/// Takes the same time wherever the first difference is; false for another length.
bool equal_in_constant_time(std::string_view bytes, const Token& token);

/// 32 hexadecimal characters for the step's tasks, the same on all its nodes. Neither half of the secret follows from
/// it alone.
std::string launcher_token(const Secret& secret);

struct ExchangeEndpoint {
    std::vector<IpAddress> addresses; ///< of srun's host, at most eight
    std::uint16_t port = 0;
    Secret secret;
    unsigned seconds = 0; ///< how long nodes wait for each other

    friend bool operator==(const ExchangeEndpoint&, const ExchangeEndpoint&) = default;
};

std::string write_endpoint(const ExchangeEndpoint& endpoint);
/// Parsed as any input from outside: nullopt when malformed.
std::optional<ExchangeEndpoint> read_endpoint(std::string_view text);

/// Addresses of this host that others may reach, IPv4 first, at most eight: getifaddrs(3).
std::vector<IpAddress> own_addresses();

} // namespace rdma_nccl
