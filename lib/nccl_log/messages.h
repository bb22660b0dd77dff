// SPDX-License-Identifier: Apache-2.0
// Finds NCCL's messages in lines of a log, and the causes of failures that they report, and collects what those of one
// process say. All functions accept any input.
#pragma once

#include "lib/nccl_log/reader.h"

#include <array>
#include <charconv>
#include <concepts>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

inline bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/// Removes everything up to and including `word`. Returns false if `text` does not contain it.
inline bool take_through(std::string_view& text, std::string_view word) {
    const auto at = text.find(word);
    text.remove_prefix(at == std::string_view::npos ? 0 : at + word.size());
    return at != std::string_view::npos;
}

/// Removes the digits at the front and returns their value.
template<std::unsigned_integral Number = unsigned>
std::optional<Number> take_number(std::string_view& text, int base = 10) {
    Number value{};
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
    if (error != std::errc{}) {
        return std::nullopt;
    }
    text.remove_prefix(static_cast<std::size_t>(stop - text.data()));
    return value;
}

/// A message in a line of a log (NCCL src/debug.cc, 2.8 to 2.30): "HOST:PID:TID [DEVICE] NCCL INFO TEXT" and
/// "HOST:PID:TID [DEVICE] FILE:LINE (FUNCTION) NCCL WARN TEXT", after any prefix from torchrun, srun -l or mpirun.
struct NcclMessage {
    std::string_view host; ///< empty if the line does not name it, or not readably: "(none)"
    std::uint32_t pid = 0; ///< 0: not named
    bool version = false;  ///< a separate version line, which never names a process
    bool warning = false;
    bool first = true;   ///< first in its line; a later one's prefix follows other text, so its host may be too long
    bool quoted = false; ///< names no process, and a quote is before it: perhaps a script's text
    bool torn = false;   ///< another message follows in the same line, so the end of this one may be missing
    std::string_view prefix; ///< up to the text: host, pid, place in NCCL or in a plugin
    std::string_view text;
};

/// Returns the first message in `line` and removes it from there; nullopt if none is left. A separate version line
/// ("NCCL version 2.21.5+cuda12.4", "RCCL version : 2.18.3") is a message without host. Pass `first` as false from the
/// second call on.
std::optional<NcclMessage> next_nccl_message(std::string_view& line, bool first);

// What others put around NCCL's lines. A line goes through these functions in this order.

/// Returns false if the line has no message of NCCL, also none with colours inside.
bool may_have_message(std::string_view line);

/// Returns false if take_plain() does not change the line.
bool may_be_wrapped(std::string_view line);

/// Removes the first part of a line up to the end of the string of JSON that holds NCCL's message, or of all of the
/// line, and returns it without colours and escapes, also those that a copy of a log shows as text: "\n", "^[[32m",
/// "[32m". The result may have several lines, points into `buffer`, and may be wrapped once more.
std::string_view take_plain(std::string_view& line, std::string& buffer);

/// Removes Ray's "[repeated 14x across cluster]" (LogDeduplicator in ray/_private/ray_logging) from the end, and
/// returns the number.
std::uint64_t take_repetition(std::string_view& line);

/// Removes the right side of a frame from the end. Returns true if the text reaches it: then its end may be missing.
bool take_frame(std::string_view& line);

/// Returns the cause of RDMA not being used or failing that a message reports, with a remedy. The texts are fixed and
/// contain nothing specific to one process, so equal causes of many processes can be merged. Returns an empty text for
/// a message that is known and reports no fault, and nullopt for one that no rule knows. `warning`: the message is an
/// "NCCL WARN".
std::optional<std::string_view> nccl_cause(std::string_view text, bool warning);

/// A row of the tables of causes: what a message holds, and the cause, which is empty if it reports no fault.
struct KnownCause {
    std::string message;
    std::string_view cause;
};

/// Returns all rules of nccl_cause(), for doc/facts/nccl-log.md.
std::vector<KnownCause> known_causes();

/// Returns true for a cause that, as a warning, ends what was connected over RDMA.
bool ends_rdma(std::string_view cause);

/// Removes the causes that are only a consequence if one is there that can have led to them. A warning that no rule
/// knows counts 0 times.
void drop_consequences(NcclCauses& causes);

/// Removes the causes that only cost time between nodes.
void drop_mild(NcclCauses& causes);

/// Returns true for what NCCL says of its proxy threads when an error of another one has reached them: "[Service
/// thread] Error encountered progressing operation=Connect, res=2", "[Proxy Service 3] Failed to execute operation
/// ...", "Socket recv failed while polling for opId=..." (NCCL 2.18 to 2.30 src/proxy.cc).
bool is_of_proxy(std::string_view warning);

/// GPUDirect RDMA is off for an HCA because nvidia_peermem is not loaded. Connections may still use it through DMA-BUF.
inline constexpr std::string_view no_peer_memory_cause =
    "GPUDirect RDMA is off: load nvidia_peermem, or use NVIDIA's open kernel modules (DMA-BUF)";

/// GPUDirect RDMA is off for a GPU and an HCA. Connections may use another HCA.
inline constexpr std::string_view too_far_cause =
    "GPUDirect RDMA is off between GPUs and HCAs that are farther apart than NCCL_NET_GDR_LEVEL allows: see rdma-nccl "
    "topo";

/// GPUDirect RDMA is off for libfabric's devices. Connections may use another device.
inline constexpr std::string_view no_libfabric_gdr_cause =
    "GPUDirect RDMA is off: libfabric or its provider does not offer it here; see NCCL's messages NET/OFI";

/// Returns "2.21.5" of "NCCL version 2.21.5+cuda12.4" or "RCCL version : 2.18.3+hip6.0".
std::optional<std::string_view> parse_version(std::string_view text);

/// Limits the names, causes and ranks of rings that are kept of all processes together.
struct NameBudget {
    std::size_t names = 0;
    bool exhausted = false; ///< something was left out

    /// Counts one more name of a list that has `already` many. Returns false if that is too much.
    bool may_add(std::size_t already);
    /// Adds a name in printable form if it is new.
    void add(NcclNames& list, std::string_view name);
};

/// What lines say of a network whose name does not tell. The texts give the reason, "its devices are HCAs".
struct NetworkSigns {
    std::string rdma, sockets; ///< empty: nothing says so

    [[nodiscard]] std::string& of(NcclTransport transport) { return transport == NcclTransport::Rdma ? rdma : sockets; }
    [[nodiscard]] bool empty() const { return rdma.empty() && sockets.empty(); }
    /// Returns true if the reason is libfabric's provider: nothing else counts then.
    [[nodiscard]] bool of_provider() const;
    /// Takes over what is not said here, and all of it from a provider.
    void add(const NetworkSigns& other);
    /// Returns OtherNet if nothing is said, or both.
    [[nodiscard]] NcclTransport transport() const;
};

/// Of all processes of a log, by the network's name.
using JobSigns = std::map<std::string, NetworkSigns, std::less<>>;

class LogProcess {
public:
    LogProcess(std::string_view host, std::uint32_t pid) {
        facts_.host = host;
        facts_.pid = pid;
    }

    [[nodiscard]] bool is(std::string_view host, std::uint32_t pid) const {
        return facts_.pid == pid && facts_.host == host;
    }
    void rename(std::string_view host) { facts_.host = host; }
    /// Takes a message that does not name NCCL's version. `cut`: its end may be missing. Returns false for a warning
    /// that no rule knows.
    bool take(const NcclMessage& message, bool cut, NameBudget& budget);
    void take_version(std::string_view version) { facts_.version = version; }
    /// Adds what this process says of its networks.
    void add_signs(JobSigns& job) const;
    /// Returns the result once all messages were taken. `version` and `job` are for a process that does not say it
    /// itself. Adds to `notes` which networks were judged by their lines.
    NcclProcess finish(const std::string& version, const JobSigns& job, NcclNames& notes);

private:
    /// Takes a message at level INFO. Returns false if it may name a cause, too.
    bool take_info(std::string_view text, bool cut, NameBudget& budget);
    void take_warning(const NcclMessage& message, bool cut, NameBudget& budget);
    bool take_connection(std::string_view text, bool cut, NameBudget& budget);
    void take_edge(std::string_view text, NameBudget& budget);
    void take_signs(std::string_view text, bool cut);
    [[nodiscard]] NetworkSigns signs_of(bool gpu_direct) const;
    void count_unclear(const JobSigns& job, NcclNames& notes);
    void take_devices(std::string_view text, NameBudget& budget);
    void take_merged(std::string_view text, NameBudget& budget);
    bool take_communicator(std::string_view text);
    bool take_queue_pair(std::string_view text, NameBudget& budget);
    std::uint64_t& connections(NcclTransport transport) {
        return facts_.connections.at(static_cast<std::size_t>(transport));
    }

    NcclProcess facts_;
    NcclNames carriers_;                      ///< networks that the connections name
    NcclNames initialized_;                   ///< networks that have started, perhaps not the one that was chosen
    bool warns_of_ib_ = false;                ///< a warning is of an HCA's port or transfer
    std::map<unsigned, std::string> devices_; ///< "mlx5_0", by the index of the "Using" line
    std::vector<std::string> merged_;         ///< names of members of virtual devices
    NetworkSigns signs_;
    bool has_network_ = false;             ///< devices that are named later are those of GPU-initiated networking
    std::optional<NetworkSigns> provider_; ///< of libfabric, if the log names it: nothing else counts then
    /// Connections without and with GPUDirect, over networks whose names do not tell what carries them.
    std::map<std::string, std::array<std::uint64_t, 2>, std::less<>> unclear_;
    bool rings_connected_ = false;      ///< what follows connects trees
    std::uint64_t last_queue_pair_ = 0; ///< hash of the last QP line's facts: most of them repeat many times
};

} // namespace rdma_nccl
