// SPDX-License-Identifier: Apache-2.0
// What NCCL says of its network in its log (NCCL_DEBUG=INFO), versions 2.8 to 2.30, also RCCL's. The lines move between
// versions and are read leniently: behind any prefix (torchrun, srun -l, times, colours), cut, interleaved. Memory is
// bounded, whatever comes.
#pragma once

#include "lib/evidence.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

/// What carries the bytes of a connection ("... via NET/IB/0/GDRDMA").
enum class NcclTransport {
    Rdma,       ///< NET/IB, IBext, UCX, COLLNET/SHARP, Libfabric on RDMA: between nodes, or inside one
    RdmaGdr,    ///< the same with /GDRDMA: straight from and to the GPU's memory
    Socket,     ///< NET/Socket, Libfabric on its tcp provider
    OtherNet,   ///< a network that we do not know, or Libfabric on a provider that the log does not name
    Nvlink,     ///< P2P/MNNVL: between nodes without a network
    PeerToPeer, ///< P2P/*: inside a node
    SharedMemory,
};
inline constexpr std::size_t nccl_transports = 7;

/// Sorted, and searched without making a string.
using NcclNames = std::set<std::string, std::less<>>;

/// What one process (host, pid) said.
struct NcclProcess {
    std::string host;
    std::uint32_t pid = 0;
    std::string version;               ///< "2.28.9"
    std::optional<std::uint32_t> rank; ///< in its largest communicator
    std::uint32_t ranks = 0;           ///< of that communicator
    std::uint32_t nodes = 0;           ///< the most nodes that a communicator of it spans; 0: not said (before 2.20)
    NcclNames networks;                ///< "IB", "Socket", "AWS Libfabric": "Using network ..."
    NcclNames hcas;                    ///< "mlx5_1:1", as "NET/IB : Using" and the device lines name them
    NcclNames gids;                    ///< "mlx5_1:1 index 3 10.0.0.1" or "mlx5_1:1 LID 10", from the QP lines
    std::array<std::uint64_t, nccl_transports> connections{}; ///< [send] and [receive] lines by transport
    std::map<std::string, std::uint64_t, std::less<>> causes; ///< what went wrong, in words that say what to do, and
                                                              ///< how often
};

struct NcclLog {
    std::vector<NcclProcess> processes; ///< in the order in which they were first seen; at most most_processes
    std::string version;                ///< of NCCL, if the processes agree
    std::uint64_t lines = 0;
    std::uint64_t nccl_lines = 0; ///< messages of NCCL
    std::uint64_t info_lines = 0; ///< of them, those of NCCL_DEBUG=INFO
    bool truncated = false;       ///< a limit was reached: more processes, names or causes than are kept

    static constexpr std::size_t most_processes = 65536;
    static constexpr std::size_t most_names =
        1'000'000; ///< of networks, HCAs, GIDs and causes, together: 250 MB at most
    static constexpr std::size_t most_names_of_a_process = 512; ///< of one of these
    static constexpr std::size_t longest_line = 16384; ///< of longer ones the end is not looked at; NCCL cuts at 1024
                                                       ///< or 2048

    /// Of all processes.
    [[nodiscard]] std::array<std::uint64_t, nccl_transports> connections() const;
};

/// Takes a log in pieces of any size. Lines that are torn or mixed with others count only for what is certain.
class NcclLogReader {
public:
    NcclLogReader();
    ~NcclLogReader();
    NcclLogReader(NcclLogReader&& other) noexcept;
    NcclLogReader& operator=(NcclLogReader&& other) noexcept;

    void read(std::string_view bytes);
    /// Between two files: what comes does not continue a last line without newline.
    void end_of_file();
    /// The last line may have no newline. Nothing can be read afterwards.
    NcclLog finish();

private:
    struct State;
    std::unique_ptr<State> state_;
};

/// `processes` of one node, or of all.
LogEvidence summary(const NcclLog& log);

} // namespace rdma_nccl
