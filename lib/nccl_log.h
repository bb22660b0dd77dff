// SPDX-License-Identifier: Apache-2.0
// What NCCL says of its network in its log (NCCL_DEBUG=INFO), versions 2.8 to 2.30, also RCCL's. The lines move between
// versions and are read leniently: behind any prefix (torchrun, srun -l, times, colours), cut, interleaved. Memory is
// bounded, whatever comes.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

/// What carries the bytes of a connection ("... via NET/IB/0/GDRDMA").
enum class NcclTransport {
    Rdma,       ///< NET/IB, IBext, UCX, AWS Libfabric, COLLNET/SHARP: between nodes, or inside one
    RdmaGdr,    ///< the same with /GDRDMA: straight from and to the GPU's memory
    Socket,     ///< NET/Socket
    OtherNet,   ///< a network that we do not know
    Nvlink,     ///< P2P/MNNVL: between nodes without a network
    PeerToPeer, ///< P2P/*: inside a node
    SharedMemory,
};
inline constexpr std::size_t nccl_transports = 7;

/// What one process (host, pid) said.
struct NcclProcess {
    std::string host;
    std::uint32_t pid = 0;
    std::string version;            ///< "2.28.9"
    std::set<std::string> networks; ///< "IB", "Socket", "AWS Libfabric": "Using network ..."
    std::set<std::string> hcas;     ///< "mlx5_1:1", as "NET/IB : Using" and the device lines name them
    std::set<std::string> gids;     ///< "mlx5_1:1 index 3 10.0.0.1", from the QP lines
    std::array<std::uint64_t, nccl_transports> connections{}; ///< [send] and [receive] lines by transport
    std::map<std::string, std::uint64_t> causes; ///< what went wrong, in words that say what to do, and how often
};

struct NcclLog {
    std::vector<NcclProcess> processes; ///< in the order in which they were first seen; at most most_processes
    std::uint64_t lines = 0;
    std::uint64_t nccl_lines = 0;
    bool truncated = false; ///< a limit was reached: more processes, names or causes than are kept

    static constexpr std::size_t most_processes = 65536;

    /// Of all processes.
    [[nodiscard]] std::array<std::uint64_t, nccl_transports> connections() const;
};

/// Takes a log in pieces of any size.
class NcclLogReader {
public:
    NcclLogReader();
    ~NcclLogReader();
    NcclLogReader(NcclLogReader&&) noexcept;
    NcclLogReader& operator=(NcclLogReader&&) noexcept;

    void read(std::string_view bytes);
    /// The last line may have no newline.
    NcclLog finish();

private:
    struct State;
    std::unique_ptr<State> state_;
};

} // namespace rdma_nccl
