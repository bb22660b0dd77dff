// SPDX-License-Identifier: Apache-2.0
#include "tools/verbs/port_counters.h"

#include "lib/base/format.h"
#include "tests/unit/fabric_machine.h"

#include <gtest/gtest.h>

namespace rdma_nccl {
namespace {

const std::string port = "/sys/class/infiniband/mlx5_0/ports/1/";

class PortCountersTest : public testing::Test {
protected:
    PortCountersTest() { machine_.connectx("mlx5_0", "eth1", "10.0.1.1", test::below_root_port("20", "21")); }

    void put(const std::string& file, const std::string& text) { machine_.tree().file(port + file, text + "\n"); }
    PortCounters find(unsigned number = 1) {
        return PortCounters::of(machine_.tree().root(), machine_.read(), "mlx5_0", number);
    }
    PortReading read(const PortCounters& counters) { return counters.read(machine_.tree().root()); }

    test::Machine machine_;
};

TEST_F(PortCountersTest, WordsOfFourBytes) {
    put("counters/port_xmit_data", "100");
    put("counters/port_rcv_data", "7");
    put("counters/unicast_xmit_packets", "1");
    const auto counters = find();
    const auto before = read(counters);
    put("counters/port_xmit_data", "350");
    EXPECT_EQ(counters.sent(before, read(counters), 4096), 1000U);
    put("counters/port_xmit_data", "99");
    EXPECT_EQ(counters.sent(before, read(counters), 4096), std::nullopt) << "it was reset";
}

TEST_F(PortCountersTest, PacketsOfTheConnectionsMtu) {
    put("hw_counters/sent_pkts", "10");
    put("hw_counters/rcvd_pkts", "0");
    const auto counters = find();
    const auto before = read(counters);
    put("hw_counters/sent_pkts", "20");
    EXPECT_EQ(counters.sent(before, read(counters), 1024), 10240U);
}

TEST_F(PortCountersTest, OldCountersEndAtTheirGreatestValue) {
    put("counters/port_xmit_data", "4294967000");
    put("counters/port_rcv_data", "7");
    const auto counters = find();
    const auto before = read(counters);
    put("counters/port_xmit_data", "4294967294");
    EXPECT_EQ(counters.sent(before, read(counters), 4096), 294U * 4);
    put("counters/port_xmit_data", "4294967295");
    EXPECT_EQ(counters.sent(before, read(counters), 4096), std::nullopt);
}

TEST_F(PortCountersTest, NothingToRead) {
    const auto without = find();
    EXPECT_EQ(without.sent(read(without), read(without), 4096), std::nullopt);
    const auto absent = find(3);
    EXPECT_EQ(absent.sent(read(absent), read(absent), 4096), std::nullopt);
    EXPECT_TRUE(counter_notes(read(absent), read(absent), "n01 mlx5_0:3").empty());
}

TEST_F(PortCountersTest, NotesSayWhatGrew) {
    for (const auto* const file : {"packet_seq_err", "implied_nak_seq_err", "out_of_sequence", "np_cnp_sent"}) {
        put(format_text("hw_counters/{}", file), "5");
    }
    put("counters/port_xmit_wait", "N/A (no PMA)");
    const auto counters = find();
    const auto before = read(counters);
    EXPECT_TRUE(counter_notes(before, before, "n02 mlx5_0:1").empty());
    put("hw_counters/packet_seq_err", "105");
    put("hw_counters/implied_nak_seq_err", "25");
    put("hw_counters/np_cnp_sent", "6");
    put("hw_counters/out_of_sequence", "4"); // was reset
    put("counters/port_xmit_wait", "3");     // could not be read before
    const std::vector<std::string> expected{"retransmits: 120 at n02 mlx5_0:1",
                                            "CNPs sent (congestion towards this port): 1 at n02 mlx5_0:1"};
    EXPECT_EQ(counter_notes(before, read(counters), "n02 mlx5_0:1"), expected);
}

TEST_F(PortCountersTest, WhatIsLittleForThePacketsIsNotNoted) {
    const auto notes = [&](std::uint64_t retransmits, std::uint64_t cnps, std::uint64_t ticks, unsigned timeouts) {
        for (const auto* const file :
             {"counters/port_xmit_packets", "counters/port_rcv_packets", "hw_counters/packet_seq_err",
              "hw_counters/np_cnp_sent", "counters/port_xmit_wait", "hw_counters/local_ack_timeout_err"}) {
            put(file, "7");
        }
        const auto counters = find();
        const auto before = read(counters);
        put("counters/port_xmit_packets", "900007");
        put("counters/port_rcv_packets", "100007");
        put("hw_counters/packet_seq_err", std::to_string(7 + retransmits));
        put("hw_counters/np_cnp_sent", std::to_string(7 + cnps));
        put("counters/port_xmit_wait", std::to_string(7 + ticks));
        put("hw_counters/local_ack_timeout_err", std::to_string(7 + timeouts));
        return counter_notes(before, read(counters), "n02");
    };
    EXPECT_TRUE(notes(10, 1000, 100'000'000, 0).empty());
    const std::vector<std::string> expected{"timeouts: 1 at n02", "retransmits: 11 at n02",
                                            "CNPs sent (congestion towards this port): 1001 at n02",
                                            "ticks of waiting to send (pause or no credits): 100000001 at n02"};
    EXPECT_EQ(notes(11, 1001, 100'000'001, 1), expected);
}

} // namespace
} // namespace rdma_nccl
