// SPDX-License-Identifier: Apache-2.0
// What a failed connection or transfer means, told from what the verbs say and from what is known beside it. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rdma_nccl {

/// What ails a link, most often.
enum class VerbsCause {
    NoRoute,     ///< the kernel has no way to the peer's GID: address, route, ARP
    WrongGid,    ///< a GID entry that is not what it was, or does not suit the peer's
    Namespace,   ///< the GID's network interface is gone, or in another network namespace
    Unreachable, ///< neither RDMA nor IP arrives: VLAN, cable, switch, peer down
    Filtered,    ///< IP arrives, RDMA does not: UDP port 4791 dropped (RoCE v2), VLAN or GID of another network
    Mtu,         ///< small packets arrive, full ones do not: mostly the MTU, else heavy loss
    PeerGone,    ///< it worked, and then there was no answer any more
    Refused,     ///< the peer's HCA answers, and refuses
    Mismatch,    ///< the ends do not suit each other: RoCE and InfiniBand, MTU, settings
    Local,       ///< this side's own doing: memory, limits, a fault of ours or of the HCA
};

/// "no-route", "wrong-gid", ...
std::string_view name_of(VerbsCause cause);

/// What IP says of the peer's address.
enum class IpReach {
    Answers, ///< also by refusing a connection
    NoRoute, ///< no route, or no answer to ARP
    Silent,  ///< nothing came back
};

/// Numbers of ibv_wc_status that are told apart.
inline constexpr int wc_success = 0, wc_loc_len = 1, wc_loc_qp_op = 2, wc_loc_prot = 4, wc_flushed = 5, wc_bad_resp = 7,
                     wc_loc_access = 8, wc_rem_inv_req = 9, wc_rem_access = 10, wc_rem_op = 11, wc_retry_exc = 12,
                     wc_rnr_retry_exc = 13, wc_rem_abort = 16, wc_fatal = 19, wc_resp_timeout = 20, wc_general = 21;

/// "RETRY_EXC_ERR"; "status 99" for what has no name here.
std::string wc_name(int status);

/// What is known of the two ends of a connection.
struct VerbsLink {
    bool ethernet = true;
    unsigned gid_index = 0;
    std::string gid, peer_gid;
    std::string netdev;
    unsigned netdev_mtu = 0; ///< 0: unknown
    unsigned path_mtu = 0;   ///< as agreed
};

/// ibv_modify_qp to RTR or RTS failed with this errno.
struct ConnectFailure {
    int os_error = 0;
};

/// A transfer failed.
struct TransferFailure {
    int status = wc_success; ///< ibv_wc_status; success: nothing has failed, and nothing completed or came for too long
    std::uint32_t vendor_error = 0;
    bool large = false;                          ///< a write of more than the path MTU
    bool small_passed = false;                   ///< before that, on this connection: a write of a few bytes
    bool large_passed = false;                   ///< such a write
    std::optional<IpReach> reach = std::nullopt; ///< absent: not asked
};

struct VerbsDiagnosis {
    VerbsCause cause = VerbsCause::Local;
    std::string text; ///< what it is, and what to look at
};

VerbsDiagnosis diagnose(const ConnectFailure& failure, const VerbsLink& link);
VerbsDiagnosis diagnose(const TransferFailure& failure, const VerbsLink& link);

/// Whether diagnose() wants to know what IP says: it costs a second or two.
bool wants_reach(const TransferFailure& failure, const VerbsLink& link);

} // namespace rdma_nccl
