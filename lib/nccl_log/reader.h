// SPDX-License-Identifier: Apache-2.0
// Parses what NCCL (and RCCL) reports about its network in its log (NCCL_DEBUG=INFO), versions 2.8 to 2.30. Lines
// change between versions, so the parser is lenient: a line may follow any prefix (torchrun, srun -l, timestamps,
// colours), be in a frame or in a string of JSON, be cut, or be interleaved with others. Memory use is bounded for any
// input.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

/// The transport of a connection ("... via NET/IB/0/GDRDMA").
enum class NcclTransport {
    Rdma,       ///< NET/IB and others (networks.h), COLLNET/SHARP: between nodes or inside one
    RdmaGdr,    ///< the same with /GDRDMA: directly from and to GPU memory
    Socket,     ///< NET/Socket, or Libfabric on its tcp provider
    OtherNet,   ///< a network of which neither the name nor the log's lines tell whether it is RDMA
    Nvlink,     ///< P2P/MNNVL: between nodes without a network
    PeerToPeer, ///< P2P/*: inside a node
    SharedMemory,
};
inline constexpr std::size_t nccl_transports = 7;

/// A sorted set that can be searched without constructing a string.
using NcclNames = std::set<std::string, std::less<>>;

/// Problems and their remedies, with the number of messages.
using NcclCauses = std::map<std::string, std::uint64_t, std::less<>>;

/// The facts that one process (host, pid) logged.
struct NcclProcess {
    std::string host;                  ///< empty: its lines do not name it, or not readably
    std::uint32_t pid = 0;             ///< 0: the same; all lines without host and pid are one process
    std::string version;               ///< "2.28.9"
    std::optional<std::uint32_t> rank; ///< in its largest communicator
    std::uint32_t ranks = 0;           ///< number of ranks in that communicator
    std::uint32_t nodes = 0;           ///< the most nodes of a communicator; 0: not logged (before 2.20)
    NcclNames networks;                ///< "IB", "Socket", "AWS Libfabric": chosen, else of the connections
    NcclNames hcas;                    ///< "mlx5_1:1", as "NET/IB : Using" and the device lines name them
    NcclNames gids;                    ///< "mlx5_1:1 index 3 10.0.0.1" or "mlx5_1:1 LID 10", from the QP lines
    std::array<std::uint64_t, nccl_transports> connections{}; ///< [send] and [receive] lines by transport
    std::set<unsigned> senders, receivers; ///< ranks at the ends of the first rings' connections inside a node
    NcclCauses causes;
    bool failed = false;            ///< a warning or a failed call of NCCL ended what was connected over RDMA
    std::uint64_t unread_lines = 0; ///< see NcclLog
};

struct NcclLog {
    std::vector<NcclProcess> processes; ///< in the order of first appearance; at most most_processes
    std::string version;                ///< NCCL's version, if all processes agree
    NcclNames notes;                    ///< sentences: why networks with unfamiliar names count as RDMA or as sockets
    std::string last_warning;           ///< the last one that no rule knows
    std::uint64_t lines = 0;
    std::uint64_t nccl_lines = 0; ///< NCCL messages
    std::uint64_t info_lines = 0; ///< the ones among them that need NCCL_DEBUG=INFO
    /// The ones that name a network in a way that is not understood, or whose process is unknown: cut, or mixed.
    std::uint64_t unread_lines = 0;
    std::uint64_t cut_lines = 0;      ///< lines beyond the limit, of which the rest was not read
    std::uint64_t repeated_lines = 0; ///< lines that Ray left out because they repeat others
    bool truncated = false;           ///< a limit was reached: there were more processes, names or causes than are kept

    static constexpr std::size_t most_processes = 65536;
    /// Networks, HCAs, GIDs, causes and ranks of rings together: 250 MB at most.
    static constexpr std::size_t most_names = 1'000'000;
    static constexpr std::size_t most_names_of_a_process = 512; ///< of each kind
    static constexpr std::size_t longest_line = 16384;          ///< ignores the rest; NCCL cuts at 1024 or 2048

    /// Returns the sum over all processes.
    [[nodiscard]] std::array<std::uint64_t, nccl_transports> connections() const;
};

/// Reads a log in pieces of any size. A line that is torn or mixed with others counts only as far as it is certain.
class NcclLogReader {
public:
    NcclLogReader();
    ~NcclLogReader();

    void read(std::string_view bytes);
    /// Call this between two files: new input then does not continue a last line without a newline.
    void end_of_file();
    /// Returns the result. The last line may lack its newline. Do not read more afterwards.
    NcclLog finish();

private:
    struct State;
    std::unique_ptr<State> state_;
};

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
    unsigned nodes = 0;       ///< the most nodes that one communicator spans; 0: not known
    bool info = false;        ///< a line was logged that only NCCL_DEBUG=INFO prints
    bool failed = false;      ///< a warning or a failed call of NCCL ended what was connected over RDMA
    std::uint64_t unread = 0; ///< lines that are cut or not understood
    std::vector<std::string> hcas;
    std::vector<std::string> causes; ///< causes of failures, the most frequent first; then a warning that is unknown

    friend bool operator==(const LogEvidence&, const LogEvidence&) = default;
};

/// Returns true for one of LogEvidence::causes that comes of a transfer over RDMA: there was a connection.
bool is_of_transfer(std::string_view cause);

/// Summarizes a log, of one node's processes or of all.
LogEvidence summary(const NcclLog& log);

// The directory for logs that are written to be judged (lib/plan/nccl_variables.h). These functions run as the user
// whose ranks write there.

/// Creates a directory in `parent` and returns its path, or an empty text on failure.
std::string make_log_directory(std::uint32_t job_id, std::uint32_t step_id, std::string_view parent = "/tmp");

/// Reads the logs in the directory, far enough into each to see its connections, and nothing more after `deadline`.
/// Returns nullopt if there are none.
std::optional<LogEvidence>
read_log_directory(const std::string& path,
                   std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max());

/// Removes the directory and what is in it of NCCL's: logs, and counters of its profiler plugins.
void remove_log_directory(const std::string& path);

} // namespace rdma_nccl
