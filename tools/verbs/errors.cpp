// SPDX-License-Identifier: Apache-2.0
#include "tools/verbs/errors.h"

#include "lib/base/format.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

namespace rdma_nccl {

namespace {

// Headers of a full RoCE v2 packet of a write: IPv4, UDP, BTH, RETH, ICRC. IPv6 has 20 bytes more.
constexpr unsigned roce_headers = 20 + 8 + 12 + 16 + 4;

constexpr std::pair<int, std::string_view> status_names[] = {
    {wc_loc_len, "LOC_LEN_ERR"},
    {wc_loc_qp_op, "LOC_QP_OP_ERR"},
    {wc_loc_prot, "LOC_PROT_ERR"},
    {wc_flushed, "WR_FLUSH_ERR"},
    {wc_bad_resp, "BAD_RESP_ERR"},
    {wc_loc_access, "LOC_ACCESS_ERR"},
    {wc_rem_inv_req, "REM_INV_REQ_ERR"},
    {wc_rem_access, "REM_ACCESS_ERR"},
    {wc_rem_op, "REM_OP_ERR"},
    {wc_retry_exc, "RETRY_EXC_ERR"},
    {wc_rnr_retry_exc, "RNR_RETRY_EXC_ERR"},
    {wc_rem_abort, "REM_ABORT_ERR"},
    {wc_fatal, "FATAL_ERR"},
    {wc_resp_timeout, "RESP_TIMEOUT_ERR"},
    {wc_general, "GENERAL_ERR"},
};

std::string status_text(const TransferFailure& failure) {
    if (failure.status == wc_success) {
        return "nothing completes";
    }
    return failure.vendor_error == 0
               ? wc_name(failure.status)
               : format_text("{}, vendor error 0x{:x}", wc_name(failure.status), failure.vendor_error);
}

/// Returns true if the peer's HCA has sent nothing back.
bool no_answer(int status) {
    return status == wc_success || status == wc_retry_exc || status == wc_resp_timeout || status == wc_flushed;
}

VerbsDiagnosis gone(const TransferFailure& failure, const VerbsLink& link) {
    return {
        VerbsCause::PeerGone,
        format_text("{} stopped answering ({}) after it had worked: its process or node has ended, or the link went "
                    "down; look at that node, and at the link's state on both",
                    link.peer_gid, status_text(failure))};
}

VerbsDiagnosis mtu(const TransferFailure& failure, const VerbsLink& link) {
    auto text =
        format_text("small packets reach {}, packets of {} bytes do not ({}): MTU, or heavy loss: the MTU of a "
                    "switch port or of an interface on the way is too small for RDMA's, or most packets are dropped",
                    link.peer_gid, link.path_mtu, status_text(failure));
    if (link.ethernet && link.netdev_mtu != 0 && link.netdev_mtu < link.path_mtu + roce_headers) {
        text += format_text("; {} itself has MTU {} here", link.netdev, link.netdev_mtu);
    }
    text += "; set the same MTU on all nodes (ip link) and a greater one on the switches, and see `ping -M do -s "
            "SIZE` between them; where that passes, look at the counters of drops and errors of both ports and of the "
            "switches";
    return {VerbsCause::Mtu, text};
}

VerbsDiagnosis nothing_arrives(const TransferFailure& failure, const VerbsLink& link) {
    const auto what = status_text(failure);
    if (!link.ethernet) {
        return {VerbsCause::Unreachable,
                format_text("no answer from {} ({}): no path through the fabric, or another partition; see the subnet "
                            "manager, `ibstat` and `ibtracert`",
                            link.peer_gid, what)};
    }
    if (failure.reach == IpReach::Answers) {
        return {
            VerbsCause::Filtered,
            format_text("no answer from {} ({}), although IP reaches it: a firewall or a switch drops UDP port 4791 "
                        "(RoCE v2), or PFC has stopped this traffic class; see `nft list ruleset` on both nodes and "
                        "the switches' filters; else GID index {} ({}) belongs to another network or VLAN",
                        link.peer_gid, what, link.gid_index, link.gid)};
    }
    return {
        VerbsCause::Unreachable,
        format_text("no answer from {} ({}), and IP does not reach it either: other VLAN or subnet than GID index {} "
                    "({}, {}), a link or switch that is down, that node, or a firewall that lets nothing through; see "
                    "`ping -I {} {}`",
                    link.peer_gid, what, link.gid_index, link.gid, link.netdev, link.netdev, link.peer_gid)};
}

} // namespace

std::string_view name_of(VerbsCause cause) {
    constexpr std::array<std::string_view, 10> names{"no-route", "wrong-gid", "namespace", "unreachable", "filtered",
                                                     "mtu",      "peer-gone", "refused",   "mismatch",    "local"};
    return names.at(static_cast<std::size_t>(cause));
}

std::string wc_name(int status) {
    const auto* const found = std::ranges::find(status_names, status, &std::pair<int, std::string_view>::first);
    return found != std::end(status_names) ? std::string(found->second) : format_text("status {}", status);
}

VerbsDiagnosis diagnose(const ConnectFailure& failure, const VerbsLink& link) {
    const std::string why = std::strerror(failure.os_error);
    switch (failure.os_error) {
    case ENETUNREACH:
    case EHOSTUNREACH:
    case ETIMEDOUT:
    case EHOSTDOWN:
        return {VerbsCause::NoRoute,
                format_text("no way from GID index {} ({}) to {} ({}): no route, or nobody answers to ARP there: other "
                            "subnet or VLAN, peer down, or a wrong GID index; see `ip route get {}` and `ip neigh`",
                            link.gid_index, link.gid, link.peer_gid, why, link.peer_gid)};
    case ENODEV:
    case ENXIO:
        return {VerbsCause::Namespace,
                format_text("the network interface of GID index {} ({}) is gone or in another network namespace ({}); "
                            "in a container give it the host's network or the HCA's interface",
                            link.gid_index, link.gid, why)};
    case EINVAL:
    case EADDRNOTAVAIL:
    case ENOENT:
        return {VerbsCause::WrongGid,
                format_text("the HCA does not connect GID index {} ({}) with {} ({}): the entry is empty or of another "
                            "RoCE version or address family than the peer's; see `rdma-nccl gids` on both nodes",
                            link.gid_index, link.gid, link.peer_gid, why)};
    default:
        return {VerbsCause::Local, format_text("the HCA does not connect GID index {} ({}) with {}: {}", link.gid_index,
                                               link.gid, link.peer_gid, why)};
    }
}

bool wants_reach(const TransferFailure& failure, const VerbsLink& link) {
    return link.ethernet && no_answer(failure.status) && !failure.small_passed && !failure.large_passed;
}

VerbsDiagnosis diagnose(const TransferFailure& failure, const VerbsLink& link) {
    if (no_answer(failure.status)) {
        if (!failure.small_passed && !failure.large_passed) {
            return nothing_arrives(failure, link);
        }
        return failure.large && !failure.large_passed ? mtu(failure, link) : gone(failure, link);
    }
    switch (failure.status) {
    case wc_rem_access:
    case wc_rem_inv_req:
    case wc_rem_op:
    case wc_rem_abort:
    case wc_rnr_retry_exc:
        return {
            VerbsCause::Refused,
            format_text("{} refuses writes ({}): its process has ended or begun anew, or another one answers in its "
                        "place (two nodes with the same GID); see `rdma-nccl gids` on both",
                        link.peer_gid, status_text(failure))};
    default:
        return {VerbsCause::Local,
                format_text("the HCA reports {} for a write to {}: a fault of this side's memory, HCA or driver; see "
                            "`dmesg`",
                            status_text(failure), link.peer_gid)};
    }
}

} // namespace rdma_nccl
