// SPDX-License-Identifier: Apache-2.0
// What the NCCL logs of a node's ranks say, and the directory for logs that are written to be judged
// (lib/plan/nccl_variables.h). All functions run as the user whose ranks write there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl {

/// A summary of the logs of the node's ranks.
struct LogEvidence {
    unsigned ranks = 0;  ///< processes that logged something of NCCL
    std::string version; ///< NCCL's version
    std::vector<std::string> networks;
    std::uint64_t rdma = 0;     ///< connections over RDMA without GPUDirect
    std::uint64_t rdma_gdr = 0; ///< connections over RDMA with GPUDirect
    std::uint64_t sockets = 0;
    std::uint64_t nvlink = 0; ///< connections between nodes over NVLink
    std::uint64_t other = 0;  ///< connections over networks that we do not know
    std::uint64_t local = 0;  ///< connections inside nodes: GPU to GPU, shared memory
    unsigned nodes = 0;       ///< the most nodes that one communicator spans; 0: not logged (before NCCL 2.20)
    bool info = false;        ///< a line was logged that only NCCL_DEBUG=INFO prints
    std::vector<std::string> hcas;
    std::vector<std::string> causes; ///< causes of failures, the most frequent first

    friend bool operator==(const LogEvidence&, const LogEvidence&) = default;
};

/// Creates a directory in /tmp and returns its path, or an empty text on failure.
std::string make_log_directory(std::uint32_t job_id, std::uint32_t step_id);

/// Reads the logs in the directory, far enough into each to see its connections. Returns nullopt if there are none.
std::optional<LogEvidence> read_log_directory(const std::string& path);

/// Removes the directory and the logs in it.
void remove_log_directory(const std::string& path);

} // namespace rdma_nccl
