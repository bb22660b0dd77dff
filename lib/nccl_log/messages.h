// SPDX-License-Identifier: Apache-2.0
// Parses the NCCL messages that show which network carries each connection. Each function takes the text after "NCCL
// INFO " and accepts any input. Sources: NCCL src/transport/net_ib*.cc, net.cc, p2p.cc, shm.cc, coll_net.cc, init.cc,
// 2.4 to 2.30.
#pragma once

#include "lib/nccl_log/reader.h"
#include "lib/net/ip.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rdma_nccl {

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

} // namespace rdma_nccl
