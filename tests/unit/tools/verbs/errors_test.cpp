// SPDX-License-Identifier: Apache-2.0
#include "tools/verbs/errors.h"

#include <cerrno>
#include <gtest/gtest.h>

namespace rdma_nccl {
namespace {

const VerbsLink roce = {.ethernet = true,
                        .gid_index = 3,
                        .gid = "10.77.1.1",
                        .peer_gid = "10.77.1.2",
                        .netdev = "eth1",
                        .netdev_mtu = 9000,
                        .path_mtu = 4096};

VerbsLink infiniband() {
    auto link = roce;
    link.ethernet = false;
    return link;
}

void expect_words(const VerbsDiagnosis& diagnosis, std::initializer_list<const char*> words) {
    for (const auto* const word : words) {
        EXPECT_NE(diagnosis.text.find(word), std::string::npos) << word << " is not in: " << diagnosis.text;
    }
}

TEST(VerbsErrorsTest, ConnectByErrno) {
    const struct {
        int os_error;
        VerbsCause cause;
        std::initializer_list<const char*> words;
    } rows[] = {
        {EHOSTUNREACH, VerbsCause::NoRoute, {"10.77.1.2", "ARP", "subnet", "ip route get 10.77.1.2"}},
        {ENETUNREACH, VerbsCause::NoRoute, {"no route"}},
        {ETIMEDOUT, VerbsCause::NoRoute, {"ip neigh", "GID index 3"}},
        {EHOSTDOWN, VerbsCause::NoRoute, {"no route"}},
        {ENODEV, VerbsCause::Namespace, {"network namespace", "GID index 3"}},
        {ENXIO, VerbsCause::Namespace, {"network namespace"}},
        {EINVAL, VerbsCause::WrongGid, {"GID index 3 (10.77.1.1)", "RoCE version", "rdma-nccl gids"}},
        {EADDRNOTAVAIL, VerbsCause::WrongGid, {"rdma-nccl gids"}},
        {ENOENT, VerbsCause::WrongGid, {"empty"}},
        {EIO, VerbsCause::Local, {"Input/output error"}},
    };
    for (const auto& row : rows) {
        const auto diagnosis = diagnose(row.os_error, roce);
        EXPECT_EQ(diagnosis.cause, row.cause) << row.os_error << ": " << diagnosis.text;
        expect_words(diagnosis, row.words);
    }
}

TEST(VerbsErrorsTest, NothingArrivesAndIpTellsWhy) {
    TransferFailure failure{.status = wc_retry_exc, .vendor_error = 0x81};
    EXPECT_TRUE(wants_reach(failure, roce));
    auto diagnosis = diagnose(failure, roce);
    EXPECT_EQ(diagnosis.cause, VerbsCause::Unreachable);
    expect_words(diagnosis, {"RETRY_EXC_ERR, vendor error 0x81", "VLAN", "ping -I eth1 10.77.1.2"});
    failure.ip_reaches = true;
    diagnosis = diagnose(failure, roce);
    EXPECT_EQ(diagnosis.cause, VerbsCause::Filtered);
    expect_words(diagnosis,
                 {"UDP port 4791", "firewall", "PFC", "VLAN", "GID index 3 (10.77.1.1)", "nft list ruleset"});
}

TEST(VerbsErrorsTest, InfinibandHasNoFirewall) {
    const TransferFailure failure{.status = wc_retry_exc};
    EXPECT_FALSE(wants_reach(failure, infiniband()));
    const auto diagnosis = diagnose(failure, infiniband());
    EXPECT_EQ(diagnosis.cause, VerbsCause::Unreachable);
    expect_words(diagnosis, {"subnet manager", "partition"});
    EXPECT_EQ(diagnosis.text.find("4791"), std::string::npos) << diagnosis.text;
}

TEST(VerbsErrorsTest, WhatIsLargeIsLost) {
    auto link = roce;
    const TransferFailure failure{.status = wc_retry_exc, .large = true, .small_passed = true};
    EXPECT_FALSE(wants_reach(failure, link));
    auto diagnosis = diagnose(failure, link);
    EXPECT_EQ(diagnosis.cause, VerbsCause::Mtu);
    expect_words(diagnosis, {"packets of 4096 bytes", "MTU, or heavy loss", "switch", "counters"});
    EXPECT_EQ(diagnosis.text.find("eth1"), std::string::npos) << "that one is large enough";

    link.netdev_mtu = 1500;
    diagnosis = diagnose(failure, link);
    EXPECT_EQ(diagnosis.cause, VerbsCause::Mtu);
    expect_words(diagnosis, {"eth1 itself has MTU 1500"});
}

TEST(VerbsErrorsTest, WhatWorkedOnceIsGone) {
    for (const int status : {wc_success, wc_retry_exc, wc_resp_timeout, wc_flushed}) {
        const TransferFailure failure{.status = status, .small_passed = true, .large_passed = true};
        EXPECT_FALSE(wants_reach(failure, roce));
        const auto diagnosis = diagnose(failure, roce);
        EXPECT_EQ(diagnosis.cause, VerbsCause::PeerGone) << wc_name(status);
        expect_words(diagnosis, {"10.77.1.2", "process or node has ended"});
    }
    const TransferFailure small{.status = wc_retry_exc, .small_passed = true};
    EXPECT_EQ(diagnose(small, roce).cause, VerbsCause::PeerGone) << "its size is not what ails it";
    const auto silent = diagnose(TransferFailure{.small_passed = true, .large_passed = true}, roce);
    expect_words(silent, {"nothing completes"});
}

TEST(VerbsErrorsTest, ThePeerRefuses) {
    for (const int status : {wc_rem_access, wc_rem_inv_req, wc_rem_op, wc_rem_abort, wc_rnr_retry_exc}) {
        const TransferFailure failure{.status = status, .small_passed = true};
        EXPECT_FALSE(wants_reach(failure, roce)) << "it answers";
        const auto diagnosis = diagnose(failure, roce);
        EXPECT_EQ(diagnosis.cause, VerbsCause::Refused) << wc_name(status);
        expect_words(diagnosis, {"10.77.1.2", "same GID"});
    }
}

TEST(VerbsErrorsTest, OwnFaults) {
    for (const int status :
         {wc_loc_len, wc_loc_qp_op, wc_loc_prot, wc_loc_access, wc_bad_resp, wc_fatal, wc_general, 99}) {
        const auto diagnosis = diagnose(TransferFailure{.status = status}, roce);
        EXPECT_EQ(diagnosis.cause, VerbsCause::Local) << wc_name(status);
        expect_words(diagnosis, {wc_name(status).c_str(), "dmesg"});
    }
    EXPECT_EQ(wc_name(99), "status 99");
}

TEST(VerbsErrorsTest, EveryCauseHasAName) {
    EXPECT_EQ(name_of(VerbsCause::NoRoute), "no-route");
    EXPECT_EQ(name_of(VerbsCause::Mtu), "mtu");
    EXPECT_EQ(name_of(VerbsCause::Mismatch), "mismatch");
    EXPECT_EQ(name_of(VerbsCause::Local), "local");
}

} // namespace
} // namespace rdma_nccl
