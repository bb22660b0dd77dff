// SPDX-License-Identifier: Apache-2.0
#include "lib/nccl_log/messages.h"

#include "lib/base/text.h"

#include <algorithm>
#include <cerrno>
#include <span>

namespace rdma_nccl {

namespace {

struct Cause {
    std::string_view pattern; ///< a phrase of the message; "ONE*OTHER": two phrases, the second after the first
    std::string_view text;
};

constexpr std::string_view memlock =
    "memory could not be registered (Cannot allocate memory): raise the limit of locked memory (memlock) of the ranks "
    "to unlimited";
constexpr std::string_view no_network =
    "the network that NCCL_NET or NCCL_NET_PLUGIN asks for is not usable: see the causes beside it, or unset it";
constexpr std::string_view no_device =
    "NCCL found no RDMA device with an ACTIVE port that NCCL_IB_HCA allows: see rdma-nccl gids on the node";
constexpr std::string_view no_interface =
    "no network interface fits NCCL_SOCKET_IFNAME: name one that is up with an address, or unset it";
constexpr std::string_view shm_full = "/dev/shm is full or too small: give the ranks' container more (--shm-size)";
constexpr std::string_view unlike_links =
    "InfiniBand and RoCE ports were connected with each other: give NCCL_IB_HCA ports of one kind on all nodes";

// Sources: NCCL src/transport/net_ib*.cc, net_socket.cc, src/misc/socket.cc, ibvwrap.cc, src/init.cc, bootstrap.cc of
// 2.8 to 2.30. Messages were also seen in runs and in users' reports.
constexpr auto info_causes = std::to_array<Cause>({
    {"Failed to open libibverbs.so",
     "libibverbs.so.1 is not installed where the ranks run (their container?): install it and the HCA's provider "
     "library"},
    {"NET/IB : No device found", no_device},
    {"NET/IB: No device found", no_device},
    {"Failed to initialize NET plugin IB", no_transport_cause},
    {"NET/OFI*No eligible providers",
     "libfabric has no provider that the OFI plugin can use: install the EFA driver and libfabric"},
});

constexpr auto warn_causes = std::to_array<Cause>({
    {"Unable to open device",
     "an RDMA device could not be opened: give the container or the job its /dev/infiniband/uverbs*"},
    {"Unable to query device", "an RDMA device could not be queried: see the kernel's log of the node"},
    {"no socket interface found", no_interface},
    {"No IP interface found", no_interface},
    {"Error: network * not found", no_network},
    {"Failed to initialize any NET plugin", no_network},
    {"wrong type * != ",
     "some nodes chose RDMA and others sockets: see which differ in devices, libraries or variables"},
    {"ibv_reg_*Cannot allocate memory", memlock},
    {"ibv_create_*Cannot allocate memory", memlock},
    {"ibv_reg_*failed with error",
     "the GPU's memory could not be registered with the HCA: check nvidia_peermem or DMA-BUF, or set "
     "NCCL_NET_GDR_LEVEL=LOC"},
    {"ibv_query_gid failed",
     "NCCL_IB_GID_INDEX is beyond the GID table of a port: unset it; rdma-nccl gids shows the table"},
    {"ncclIbRoceGetVersionNum",
     "the RoCE version of a GID could not be read (container with its own network?): set NCCL_IB_GID_INDEX"},
    {"Attempted to connect incompatible devices", unlike_links},
    {"device is incompatible", unlike_links},
    {"Duplicate GPU detected", "two ranks use the same GPU: give each its own (CUDA_VISIBLE_DEVICES)"},
    {"Mismatched NCCL version", "ranks have different versions of NCCL: install one on all nodes"},
    {"shared memory*No space left on device", shm_full},
    {"Error while creating shared memory segment", shm_full},
    {"onnect*Connection refused",
     "ranks could not connect over TCP (Connection refused): a rank died early, or a firewall is between"},
    {"onnect*No route to host",
     "ranks could not connect over TCP (No route to host): NCCL_SOCKET_IFNAME names a network that the nodes do "
     "not share, or a firewall is between"},
    {"onnect*timed out",
     "ranks could not connect over TCP (timed out): NCCL_SOCKET_IFNAME names a network that the nodes do not "
     "share, or a firewall is between"},
});

struct Numbered {
    unsigned number;
    std::string_view phrase; ///< the text of the number in the message
    std::string_view text;
};

// The errno of ibv_modify_qp(3), which resolves the peer's address.
constexpr auto modify_causes = std::to_array<Numbered>({
    {ETIMEDOUT, "Connection timed out",
     "a queue pair could not reach its peer's GID (Connection timed out): wrong GID or VLAN, or no route "
     "between the nodes' RoCE networks"},
    {ENODEV, "No such device",
     "a queue pair got a GID without a network interface (No such device): NCCL_IB_GID_INDEX is wrong, or the "
     "interface is in another network namespace"},
    {EINVAL, "Invalid argument",
     "a queue pair's GID does not fit its peer's (Invalid argument): GIDs of different kinds; rdma-nccl gids "
     "shows those of each node"},
    {ENETUNREACH, "Network is unreachable",
     "a queue pair has no route to its peer's GID (Network is unreachable): wrong GID, or no route between the "
     "nodes' RoCE networks"},
    {EHOSTUNREACH, "No route to host",
     "a queue pair has no route to its peer's GID (No route to host): wrong GID, or no route between the "
     "nodes' RoCE networks"},
    {ENOMEM, "Cannot allocate memory", memlock},
});
constexpr std::string_view modify_other = "a queue pair could not be connected: see the message of ibv_modify_qp";

// Values of enum ibv_wc_status from <infiniband/verbs.h>.
constexpr auto completion_causes = std::to_array<Numbered>({
    {4, "IBV_WC_LOC_PROT_ERR",
     "memory was not registered as it was used (completion status 4): GPUDirect of driver and HCA may not fit; "
     "try NCCL_NET_GDR_LEVEL=LOC"},
    {10, "IBV_WC_REM_ACCESS_ERR",
     "a peer's memory could not be accessed (completion status 10): GPUDirect of driver and HCA may not fit; "
     "try NCCL_NET_GDR_LEVEL=LOC"},
    {12, "IBV_WC_RETRY_EXC_ERR",
     "a peer did not answer (completion status 12): it died, or wrong GID or VLAN, a link that went down, MTU, "
     "lost packets (PFC, ECN), UDP 4791 blocked"},
    {13, "IBV_WC_RNR_RETRY_EXC_ERR",
     "a peer was not ready to receive (completion status 13): it hangs or died, or NCCL's versions differ"},
});
// Only a consequence of another error: the status of all other work on a queue pair that failed.
constexpr Numbered flushed = {5, "IBV_WC_WR_FLUSH_ERR", ""};
constexpr std::string_view completion_other = "a transfer over RDMA failed: see NCCL's message \"Got completion\"";

constexpr auto event_causes = std::to_array<Cause>({
    {"port error", "a port of an HCA went down while the ranks ran: check its cable and its switch"},
    {"GID table change", "a GID table changed while the ranks ran: an interface lost or got an address"},
    {"fatal", "an HCA reported a fatal error while the ranks ran: see the kernel's log of the node"},
});

std::string_view find_cause(std::span<const Cause> causes, std::string_view text) {
    const auto found = std::ranges::find_if(causes, [&](const Cause& cause) {
        const auto [phrase, more] = split_once(cause.pattern, '*');
        auto rest = text;
        return take_through(rest, phrase) && rest.find(more.value_or("")) != std::string_view::npos;
    });
    return found == causes.end() ? std::string_view() : found->text;
}

/// Returns the number directly after `phrase`: 12 in "status=12" for "status=".
std::optional<unsigned> number_behind(std::string_view text, std::string_view phrase) {
    return take_through(text, phrase) ? take_number(text) : std::nullopt;
}

std::string_view find_numbered(std::span<const Numbered> causes, std::optional<unsigned> number, std::string_view text,
                               std::string_view other) {
    const auto found = std::ranges::find_if(causes, [&](const Numbered& cause) {
        return number ? cause.number == *number : text.find(cause.phrase) != std::string_view::npos;
    });
    return found == causes.end() ? other : found->text;
}

/// Parses "Call to ibv_modify_qp failed with 110 Connection timed out, on dev ..." (2.24 and newer) and "... failed
/// with error Connection timed out errno 110" (older).
std::string_view modify_cause(std::string_view text) {
    auto number = number_behind(text, "ibv_modify_qp failed with ");
    number = number ? number : number_behind(text, " errno ");
    return find_numbered(modify_causes, number, text, modify_other);
}

/// Parses "NET/IB : Got completion from peer 10.0.0.2<4711> with error 12, opcode 0, ..." (up to 2.17), "... with
/// status=12 opcode=..." (from 2.18) and "... status=IBV_WC_RETRY_EXC_ERR(12) ..." (from 2.28.9).
std::string_view completion_cause(std::string_view text) {
    auto number = number_behind(text, "status=");
    number = number ? number : number_behind(text, "with error ");
    if (number ? *number == flushed.number : text.find(flushed.phrase) != std::string_view::npos) {
        return {};
    }
    return find_numbered(completion_causes, number, text, completion_other);
}

/// Parses "NCCL_IB_DISABLE set by environment to 1.", which NCCL also prints for a value from a conf file.
std::string_view variable_cause(std::string_view text) {
    constexpr std::string_view phrase = " set by environment to ";
    const auto at = text.find(phrase);
    if (at == std::string_view::npos) {
        return {};
    }
    const auto name = text.substr(0, at);
    auto value = trim(text.substr(at + phrase.size()));
    value.remove_suffix(value.ends_with('.') ? 1 : 0);
    if (name == "NCCL_IB_DISABLE" && parse_number<int>(value).value_or(0) != 0) {
        return "NCCL_IB_DISABLE is set (in the environment or in a conf file of NCCL): unset it";
    }
    if (name == "NCCL_NET" && lower_case(value) == "socket") {
        return "NCCL_NET=Socket is set (in the environment or in a conf file of NCCL): unset it";
    }
    return {};
}

} // namespace

std::string_view nccl_cause(std::string_view text, bool warning) {
    if (text.find("ibv_modify_qp failed with ") != std::string_view::npos) {
        return modify_cause(text);
    }
    if (text.find("Got completion ") != std::string_view::npos) {
        return completion_cause(text);
    }
    if (const auto at = text.find(" async "); at != std::string_view::npos && text.find(" Got ") < at) {
        return find_cause(event_causes, text.substr(at));
    }
    if (text.starts_with("NCCL_")) {
        return variable_cause(text);
    }
    if (text.starts_with("NET/IB : GPU Direct RDMA Disabled for HCA ")) {
        return no_peer_memory_cause;
    }
    const auto cause = find_cause(info_causes, text);
    return cause.empty() && warning ? find_cause(warn_causes, text) : cause;
}

} // namespace rdma_nccl
