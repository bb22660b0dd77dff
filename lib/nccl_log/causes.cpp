// SPDX-License-Identifier: Apache-2.0
#include "lib/nccl_log/messages.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>

namespace rdma_nccl {

namespace {

struct Cause {
    std::string_view pattern; ///< a phrase of the message; "ONE*OTHER": two phrases, the second after the first
    std::string_view text;    ///< empty: no fault
};

constexpr std::string_view memlock =
    "memory could not be registered (Cannot allocate memory): raise the limit of locked memory (memlock) of the ranks "
    "to unlimited";
constexpr std::string_view no_network =
    "the network that NCCL_NET or NCCL_NET_PLUGIN asks for is not usable: see the causes beside it, or unset it";
constexpr std::string_view no_transport = "NCCL's RDMA transport could not start on a node";
constexpr std::string_view no_device =
    "NCCL found no RDMA device with an ACTIVE port that NCCL_IB_HCA allows: see rdma-nccl gids on the node";
constexpr std::string_view no_interface =
    "no network interface fits NCCL_SOCKET_IFNAME: name one that is up with an address, or unset it";
constexpr std::string_view shm_full = "/dev/shm is full or too small: give the ranks' container more (--shm-size)";
constexpr std::string_view unlike_links =
    "InfiniBand and RoCE ports were connected with each other: give NCCL_IB_HCA ports of one kind on all nodes";
constexpr std::string_view no_verbs =
    "libibverbs.so.1 is not installed where the ranks run (their container?): install it and the HCA's provider "
    "library";
constexpr std::string_view plugin_library =
    "the network plugin could not be loaded, because a library lacks a symbol: update rdma-core or libfabric where the "
    "ranks run (their container?)";
constexpr std::string_view old_libc = "the network plugin could not be loaded, because it needs a newer C or C++ "
                                      "library than the ranks have: use one that "
                                      "is built for their image, or a newer image";
constexpr std::string_view gpu_not_registered =
    "the GPU's memory could not be registered with the HCA: check nvidia_peermem or DMA-BUF, or set "
    "NCCL_NET_GDR_LEVEL=LOC";
constexpr std::string_view not_fused = "NCCL could not fuse HCA ports into one device: set NCCL_NET_MERGE_LEVEL=LOC";
constexpr std::string_view bad_fusion =
    "NCCL_NET_FORCE_MERGE names ports that NCCL cannot fuse: see NCCL's message TOPO/NET, or unset it";
constexpr std::string_view no_provider =
    "libfabric has no provider that the OFI plugin can use: install the network's driver (EFA, Slingshot) and a "
    "libfabric with its provider";
constexpr std::string_view ofi_open =
    "the OFI plugin could not open an adapter: give the container or the job its devices (/dev/infiniband/uverbs*, "
    "/dev/cxi*), and on Slingshot a VNI";
constexpr std::string_view ofi_transfer =
    "a transfer over libfabric failed: a peer died, a link went down, or (EFA) the security group does not let its own "
    "members through; see NCCL's message NET/OFI";
constexpr std::string_view ofi_memory =
    "the OFI plugin could not register memory: its provider does not reach the GPU's memory, or the limit of locked "
    "memory (memlock) is too low; see NCCL's message NET/OFI";
constexpr std::string_view ucx_failed =
    "the UCX plugin failed: see NCCL's message \"UCX error\" and what UCX itself printed before it";
constexpr std::string_view verbs_failed = "a call of libibverbs failed: see NCCL's message \"Call to ibv_\"";
constexpr std::string_view not_created =
    "an HCA's queues could not be created: the limit of locked memory (memlock) is the likely cause; raise it to "
    "unlimited for the ranks";
constexpr std::string_view no_query = "an RDMA device could not be queried: see the kernel's log of the node";
constexpr std::string_view ofi_start =
    "the OFI plugin could not start, so its network is not used: see its messages NET/OFI";
constexpr std::string_view doca =
    "GPU-initiated networking over DOCA failed: update rdma-core and the HCA's driver, or set NCCL_GIN_TYPE=2";
constexpr std::string_view no_gin =
    "GPU-initiated networking is asked for, but not possible on all ranks: it needs mlx5 HCAs, NCCL_GIN_ENABLE=1, and "
    "nvidia_peermem or DMA-BUF";
constexpr std::string_view gid_changed = "a GID table changed while the ranks ran: an interface lost or got an address";
constexpr std::string_view fatal_event =
    "an HCA reported a fatal error while the ranks ran: see the kernel's log of the node";
constexpr std::string_view queue_event =
    "a queue pair of an HCA failed while the ranks ran: see NCCL's message \"async event\", and the logs of its peers";
constexpr std::string_view after_event = "a communicator ended after a fatal error of its HCA";
constexpr std::string_view flushed = // the status of all other work on a queue pair that failed
    "a transfer was given up (completion status 5) after another one failed: the log of another rank has the first "
    "error";
constexpr std::string_view peer_left = "a peer closed its connection: the log of another rank has the first error";

// Sources: NCCL src/transport/net_ib*.cc, net_socket.cc, src/misc/socket.cc, ibvwrap.cc, ibvsymbols.cc,
// mlx5dvsymbols.cc, src/graph/{topo,paths}.cc, src/gin, src/plugin, src/init.cc, bootstrap.cc of 2.8 to 2.30;
// aws-ofi-nccl src/nccl_ofi_*.cpp of 1.4 to 1.21. Messages were also seen in runs and in users' reports.
constexpr auto info_causes = std::to_array<Cause>({
    {"Failed to open libibverbs.so", no_verbs},
    {"not open libibverbs.so.1", no_verbs}, // "Count", in RCCL "Could": the last that NCCL 2.30 tries
    {"NET/IB*No device found", no_device},
    {"Failed to initialize NET plugin IB", no_transport},
    {"NET/Socket*GPU Direct RDMA Disabled", ""},
    {"NET/FastSocket*GPU Direct RDMA Disabled", ""},
    {"NET/*: GPU Direct RDMA Disabled for HCA", no_peer_memory_cause},
    {"GPU Direct RDMA Disabled for *(distance", too_far_cause},
    {"NET/Plugin*undefined symbol", plugin_library},
    {"NET/Plugin*version `GLIBC", old_libc},               // also GLIBCXX_3.4.30
    {"NET/Plugin*not found (required by", plugin_library}, // dlopen(3): version `IBVERBS_1.14' not found
    {"NET/OFI*No eligible providers", no_provider},
    {"NET/OFI*disabling GDR", no_libfabric_gdr_cause},
    {"NET/OFI*GDR not supported", no_libfabric_gdr_cause},
    {"Tried merging multiple devices together and failed", not_fused},
});

constexpr auto warn_causes = std::to_array<Cause>({
    {"dlvsym failed on mlx5dv_get_data_direct_sysfs_path", ""}, // only ConnectX-8 with Data Direct needs it
    {"dlvsym failed on mlx5dv_reg_dmabuf_mr", ""},
    {"ANP plugin loaded successfully", ""},
    {"NUMA auto balancing enabled", ""},
    {"Could not find real path of", ""}, // an HCA without a PCI function (Soft-RoCE)
    {"Missing \"", ""},                  // RCCL: "iommu=pt", "HSA_FORCE_FINE_GRAIN_PCIE=1"
    {"Unable to open device",
     "an RDMA device could not be opened: give the container or the job its /dev/infiniband/uverbs*"},
    {"Unable to query device", no_query},
    {"dlvsym failed on ibv_",
     "libibverbs lacks a symbol that NCCL needs, so RDMA is not used: update rdma-core where the ranks run (their "
     "container?)"},
    {"dlvsym failed on mlx5dv_",
     "libmlx5 lacks a symbol that GPU-initiated networking needs: update rdma-core where the ranks run (their "
     "container?)"},
    {"interface found", no_interface},
    {"Error: network * not found", no_network},
    {"Failed to initialize any NET plugin", no_network},
    {"wrong type * != ",
     "some nodes chose RDMA and others sockets: see which differ in devices, libraries or variables"},
    {"ibv_reg_*Cannot allocate memory", memlock},
    {"ibv_create_*Cannot allocate memory", memlock},
    {"ibv_reg_*failed with error", gpu_not_registered},
    {"ibv_query_gid failed",
     "NCCL_IB_GID_INDEX is beyond the GID table of a port: unset it; rdma-nccl gids shows the table"},
    {"Call to ibv_query_*failed", no_query},
    {"Call to ibv_de*failed", ""}, // destroy, dereg, dealloc: the end of a communicator
    {"Call to ibv_*failed with", verbs_failed},
    {"ibv_create_*failed", not_created}, // old versions give no reason
    {"Call to ibv_*failed", verbs_failed},
    {"ncclIbRoceGetVersionNum",
     "the RoCE version of a GID could not be read (container with its own network?): set NCCL_IB_GID_INDEX"},
    {"Attempted to connect incompatible devices", unlike_links},
    {"device is incompatible", unlike_links},
    {"Attempted to merge incompatible devices",
     "NCCL cannot fuse an InfiniBand and a RoCE port: give NCCL_IB_HCA ports of one kind"},
    {"Fusing NET devices from different NUMA domains",
     "NCCL cannot fuse HCA ports of different NUMA nodes: change NCCL_NET_FORCE_MERGE, or set "
     "NCCL_NET_MERGE_LEVEL=PORT"},
    {"Could not force merge NICs", bad_fusion},
    {"Specified fused NIC", bad_fusion},
    {"TOPO/NET : Only matched", bad_fusion},
    {"DOCA ", doca},
    {"GIN Error", doca},
    {"GIN not supported", no_gin},
    {"GIN is disabled", no_gin},
    {"No GIN-capable devices", no_gin},
    {"Unable to use GIN", no_gin},
    {"User requested GIN", no_gin},
    {"NET/OFI*find any optimal provider", no_provider},
    {"NET/OFI*fi_getinfo() call failed", no_provider},
    {"NET/OFI*Only EFA provider is supported",
     "the OFI plugin is built for EFA alone, and there is none: use one that is built for the network"},
    {"NET/OFI*Couldn't open", ofi_open},
    {"NET/OFI*completed with error", ofi_transfer},
    {"NET/OFI*nable to register memory", ofi_memory},
    {"UCX error", ucx_failed},       // nccl-rdma-sharp-plugins src/ucx_plugin.c
    {"NET/OFI*nitializ", ofi_start}, // "Failing initialization", "Failed to initialize"
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
    {"GID table changed", gid_changed},
    {"communicator encountered a fatal error", after_event},
    {"onnection closed by remote peer", peer_left},
    {"onnection reset by peer", peer_left},
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
    {5, "IBV_WC_WR_FLUSH_ERR", flushed},
    {9, "IBV_WC_REM_INV_REQ_ERR",
     "a peer refused a transfer (completion status 9): ranks that disagree about its size, or different versions of "
     "NCCL"},
    {10, "IBV_WC_REM_ACCESS_ERR",
     "a peer's memory could not be accessed (completion status 10): GPUDirect of driver and HCA may not fit; "
     "try NCCL_NET_GDR_LEVEL=LOC"},
    {12, "IBV_WC_RETRY_EXC_ERR",
     "a peer did not answer (completion status 12): it died, or wrong GID or VLAN, a link that went down, MTU, "
     "lost packets (PFC, ECN), UDP 4791 blocked"},
    {13, "IBV_WC_RNR_RETRY_EXC_ERR",
     "a peer was not ready to receive (completion status 13): it hangs or died, or NCCL's versions differ"},
});
constexpr std::string_view completion_other = "a transfer over RDMA failed: see NCCL's message \"Got completion\"";

constexpr auto event_causes = std::to_array<Cause>({
    {"port error", "a port of an HCA went down while the ranks ran: check its cable and its switch"},
    {"GID table change", gid_changed},
    {"fatal", fatal_event}, // from 2.14 on
    {"catastrophic", fatal_event},
    {"CQ error", fatal_event},
    {"work queue error", queue_event},
});

constexpr std::array consequences = {no_transport, ofi_start, flushed, after_event, peer_left};
constexpr std::array not_started = {no_transport, ofi_start}; // which a warning that no rule knows may not explain
// No error, and so no reason for one.
constexpr std::array mild = {no_peer_memory_cause, too_far_cause, no_libfabric_gdr_cause, not_fused};
// Beside those of queue pairs and completions.
constexpr std::array endings = {gpu_not_registered, unlike_links, modify_other, completion_other,
                                ofi_transfer,       fatal_event,  queue_event,  after_event,
                                ofi_memory,         ucx_failed,   verbs_failed, not_created};

std::optional<std::string_view> find_cause(std::span<const Cause> causes, std::string_view text) {
    const auto found = std::ranges::find_if(causes, [&](const Cause& cause) {
        const auto [phrase, more] = split_once(cause.pattern, '*');
        auto rest = text;
        return take_through(rest, phrase) && rest.find(more.value_or("")) != std::string_view::npos;
    });
    return found == causes.end() ? std::nullopt : std::optional(found->text);
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

std::optional<std::string_view> nccl_cause(std::string_view text, bool warning) {
    if (text.find("ibv_modify_qp failed with ") != std::string_view::npos) {
        return modify_cause(text);
    }
    if (text.find("Got completion ") != std::string_view::npos) {
        return completion_cause(text);
    }
    if (auto event = text; event.starts_with("NET/IB") && take_through(event, " async ") &&
                           event.find("event") != std::string_view::npos) {
        return find_cause(event_causes, event).value_or("");
    }
    if (text.starts_with("NCCL_") && !warning) {
        return variable_cause(text);
    }
    const auto cause = find_cause(info_causes, text);
    return !cause && warning ? find_cause(warn_causes, text) : cause;
}

std::vector<KnownCause> known_causes() {
    std::vector<KnownCause> rows;
    const auto add = [&](std::string_view kind, std::span<const Cause> causes) {
        for (const auto& [pattern, text] : causes) {
            rows.push_back({format_text("{}{}", kind, pattern), text});
        }
    };
    const auto add_numbered = [&](std::string_view kind, std::span<const Numbered> causes, std::string_view other) {
        for (const auto& [number, phrase, text] : causes) {
            rows.push_back({format_text("{}{} {}", kind, number, phrase), text});
        }
        rows.push_back({std::string(kind), other});
    };
    for (const std::string_view set :
         {"NCCL_IB_DISABLE set by environment to 1", "NCCL_NET set by environment to Socket"}) {
        rows.push_back({std::string(set), variable_cause(set)});
    }
    add("", info_causes);
    add("WARN ", warn_causes);
    add_numbered("ibv_modify_qp failed with ", modify_causes, modify_other);
    add_numbered("Got completion ... status=", completion_causes, completion_other);
    add("async event: ", event_causes);
    return rows;
}

namespace {

bool is_of(std::span<const Numbered> causes, std::string_view cause) {
    return std::ranges::find(causes, cause, &Numbered::text) != causes.end();
}

} // namespace

bool ends_rdma(std::string_view cause) {
    return is_of(modify_causes, cause) || is_of(completion_causes, cause) || contains(endings, cause);
}

bool is_of_transfer(std::string_view cause) {
    constexpr std::array others = {completion_other, queue_event, ofi_transfer};
    return is_of(completion_causes, cause) || contains(others, cause);
}

bool is_of_proxy(std::string_view warning) {
    constexpr auto phrases = std::to_array<std::string_view>(
        {"[Service thread]", "[Proxy ", "Proxy Call to rank ", "Socket recv failed while polling for opId="});
    return std::ranges::any_of(phrases, [&](auto phrase) { return warning.find(phrase) != std::string_view::npos; });
}

void drop_consequences(NcclCauses& causes) {
    if (causes.contains(std::string(ofi_start))) { // NCCL looks for its own devices then, of which EFA has none
        causes.erase(std::string(no_device));
    }
    const auto is_consequence = [](const auto& cause) {
        return contains(consequences, cause.first) || is_of_proxy(cause.first);
    };
    std::uint64_t most = 0;
    bool explained = false;
    for (const auto& cause : causes) {
        if (!is_consequence(cause) && !contains(mild, cause.first)) {
            explained = true;
            most = std::max(most, cause.second);
        }
    }
    std::erase_if(causes, [&](const auto& cause) {
        return explained && is_consequence(cause) && (most > 0 || !contains(not_started, cause.first));
    });
}

void drop_mild(NcclCauses& causes) {
    std::erase_if(causes, [](const auto& cause) { return contains(mild, cause.first); });
}

} // namespace rdma_nccl
