// SPDX-License-Identifier: Apache-2.0
// Finds the probable cause of a failed connection or transfer from the verbs status and other known facts; pure, but
// for ip_reaches(), which finds one of these facts.
#pragma once

#include "lib/net/ip.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rdma_nccl {

/// The most probable cause of a failure.
enum class VerbsCause {
    NoRoute,     ///< the kernel has no path to the peer's GID: address, route, ARP
    WrongGid,    ///< the GID entry has changed, or does not match the peer's
    Namespace,   ///< the GID's network interface is gone, or in another network namespace
    Unreachable, ///< neither RDMA nor IP arrives: VLAN, cable, switch, peer down
    Filtered,    ///< IP arrives, RDMA does not: UDP port 4791 dropped (RoCE v2), VLAN or GID of another network
    Mtu,         ///< small packets arrive, full ones do not: usually the MTU, or heavy loss
    PeerGone,    ///< it worked, and then the peer stopped answering
    Refused,     ///< the peer's HCA answers with an error
    Mismatch,    ///< the ends do not match: RoCE and InfiniBand, MTU, settings
    Local,       ///< caused on this side: memory, limits, a fault of rdma-nccl or of the HCA
};

/// Returns a name like "no-route" or "wrong-gid".
std::string_view name_of(VerbsCause cause);

/// The values of ibv_wc_status that are distinguished.
inline constexpr int wc_success = 0, wc_loc_len = 1, wc_loc_qp_op = 2, wc_loc_prot = 4, wc_flushed = 5, wc_bad_resp = 7,
                     wc_loc_access = 8, wc_rem_inv_req = 9, wc_rem_access = 10, wc_rem_op = 11, wc_retry_exc = 12,
                     wc_rnr_retry_exc = 13, wc_rem_abort = 16, wc_fatal = 19, wc_resp_timeout = 20, wc_general = 21;

/// Returns a name like "RETRY_EXC_ERR", or "status 99" for a status without a name.
std::string wc_name(int status);

/// Known facts about the two ends of a connection.
struct VerbsLink {
    bool ethernet = true;
    unsigned gid_index = 0;
    std::string gid, peer_gid;
    std::string netdev;
    unsigned netdev_mtu = 0; ///< 0: unknown
    unsigned path_mtu = 0;   ///< as agreed with the peer
};

/// A failed transfer.
struct TransferFailure {
    int status = wc_success; ///< ibv_wc_status; success: no error, but nothing completed or arrived for too long
    std::uint32_t vendor_error = 0;
    bool large = false;        ///< the failed write was larger than the path MTU
    bool small_passed = false; ///< a write of a few bytes succeeded before on this connection
    bool large_passed = false; ///< so did a write larger than the path MTU
    bool ip_reaches = false;   ///< the test over IP was made, and the peer answered
};

struct VerbsDiagnosis {
    VerbsCause cause = VerbsCause::Local;
    std::string text; ///< the cause, and what to check
};

/// `os_error`: of ibv_modify_qp() to RTR or RTS.
VerbsDiagnosis diagnose(int os_error, const VerbsLink& link);
VerbsDiagnosis diagnose(const TransferFailure& failure, const VerbsLink& link);

/// Returns true if diagnose() needs `ip_reaches`, whose test takes up to four seconds.
bool wants_reach(const TransferFailure& failure, const VerbsLink& link);

// --- The test over IP ---

/// An ICMP error such as "destination unreachable", from a socket's error queue (ip(7), IP_RECVERR).
struct IcmpError {
    bool v6 = false;
    std::uint8_t type = 0, code = 0;
    std::optional<IpAddress> from;
};

/// Returns whether the error shows that packets arrive: a firewall prohibits them (RFC 1122 3.2.2.1 and RFC 1812
/// 5.2.7.1: codes 9, 10 and 13; RFC 4443: code 1), or the peer itself sent the error. firewalld rejects packets this
/// way, and TCP reports "no route to host".
bool icmp_is_answer(const IcmpError& error, const IpAddress& peer);

/// Tests whether IP reaches a peer from one of this host's addresses, by the answer to a TCP connection to a port
/// without a listener, which may be a refusal. `netdev`: the interface for link-local addresses.
bool ip_reaches(const IpAddress& from, const IpAddress& to, const std::string& netdev, std::chrono::milliseconds limit);

} // namespace rdma_nccl
