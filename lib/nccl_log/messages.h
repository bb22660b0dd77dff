// SPDX-License-Identifier: Apache-2.0
// Finds NCCL's messages in lines of a log, and parses what they say. All functions accept any input.
#pragma once

#include "lib/nccl_log/reader.h"
#include "lib/net/ip.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rdma_nccl {

inline bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/// A message in a line of a log (NCCL src/debug.cc, 2.8 to 2.30): "HOST:PID:TID [DEVICE] NCCL INFO TEXT" and
/// "HOST:PID:TID [DEVICE] FILE:LINE (FUNCTION) NCCL WARN TEXT", after any prefix from torchrun, srun -l or mpirun.
struct NcclMessage {
    std::string_view host; ///< empty if the line does not name it
    std::uint32_t pid = 0;
    bool warning = false;
    bool first = true; ///< first in its line; a later one's prefix follows other text, so its host may be too long
    bool torn = false; ///< another message follows in the same line, so the end of this one may be missing
    std::string_view text;
};

/// Returns the first message in `line` and removes it from there; nullopt if none is left. A separate version line
/// ("NCCL version 2.21.5+cuda12.4", "RCCL version : 2.18.3") is a message without host. Pass `first` as false from the
/// second call on.
std::optional<NcclMessage> next_nccl_message(std::string_view& line, bool first);

/// Returns `line` without escape sequences for colours. The result points into `buffer`.
std::string_view without_colours(std::string_view line, std::string& buffer);

// What each message says that shows which network carries each connection, from the text after "NCCL INFO ". Sources:
// NCCL src/transport/net_ib*.cc, net.cc, p2p.cc, shm.cc, coll_net.cc, init.cc, 2.4 to 2.30.

/// Returns the transport of a libfabric provider, or nullopt if it is unknown or can be both.
std::optional<NcclTransport> transport_of_provider(std::string_view provider);

/// "Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA"
struct NcclConnection {
    std::optional<NcclTransport> transport; ///< nullopt: Libfabric
    bool gdr = false;
};
/// With `torn`, returns only a result that any continuation of the text would give.
std::optional<NcclConnection> parse_connection(std::string_view text, bool torn);

/// "Using network IB", "Using network AWS Libfabric"
std::optional<std::string_view> parse_network(std::string_view text);

/// "2.21.5" of "NCCL version 2.21.5+cuda12.4" or "RCCL version : 2.18.3+hip6.0"
std::optional<std::string_view> parse_version(std::string_view text);

/// A port in "NET/IB : Using [0]mlx5_0:1/RoCE [1]={[1] mlx5_1:1/IB, ...} ; OOB ..." or "NET/IB: [0]
/// mlx5_0:uverbs0:1/RoCE provider=...". next_device() advances `text` past it.
struct NcclDevice {
    unsigned index = 0;
    std::string_view name;
    unsigned port = 0;
};
std::optional<NcclDevice> next_device(std::string_view& text);
bool names_devices(std::string_view text);

/// "mlx5_0+mlx5_2" of "NET/IB : Made virtual device [3] name=mlx5_0+mlx5_2 speed=... ndevs=2"
std::optional<std::string_view> parse_merged(std::string_view text);

/// "NET/IB: NCCL Dev 0 IbDev 0 Port 1 qpn 257 mtu 3 GID 3 (0/100000AFFFF0000) ..." or "... LID 10 subnet-prefix ..."
struct NcclQueuePair {
    unsigned device = 0; ///< the index of the "Using" line
    unsigned port = 0;
    std::optional<unsigned> lid;
    unsigned gid_index = 0;
    IpAddress gid;
};
std::optional<NcclQueuePair> parse_queue_pair(std::string_view text);

/// "efa" of "NET/OFI Selected Provider is efa (found 16 nics)"
std::optional<std::string_view> parse_provider(std::string_view text);

/// "ncclCommInitRank comm 0x.. rank 3 nranks 16 cudaDev 3 ... Init COMPLETE" and "comm 0x.. rank 3 nRanks 16 nNodes 2
/// ..."
struct NcclCommunicator {
    std::uint32_t rank = 0;
    std::uint32_t ranks = 0;
    std::uint32_t nodes = 0; ///< 0: not logged
};
std::optional<NcclCommunicator> parse_communicator(std::string_view text);

/// Returns the cause of RDMA not being used or failing that a message reports, with a remedy. The texts are fixed and
/// contain nothing specific to one process, so equal causes of many processes can be merged. Returns an empty text for
/// a message that reports no fault, which includes most of NCCL's warnings. `warning`: the message is an "NCCL WARN".
std::string_view nccl_cause(std::string_view text, bool warning);

/// GPUDirect RDMA is off for an HCA because nvidia_peermem is not loaded. Connections may still use it through DMA-BUF.
inline constexpr std::string_view no_peer_memory_cause =
    "GPUDirect RDMA is off: load nvidia_peermem, or use NVIDIA's open kernel modules (DMA-BUF)";

/// Only a consequence if another cause is known.
inline constexpr std::string_view no_transport_cause = "NCCL's RDMA transport could not start on a node";

} // namespace rdma_nccl
