// SPDX-License-Identifier: Apache-2.0
#include "lib/counters.h"

#include "tests/unit/tree.h"

#include <gtest/gtest.h>

namespace rdma_nccl {
namespace {

using Readings = std::vector<CounterReading>;

class Counters : public testing::Test {
protected:
    void SetUp() override {
        tree_.file("/sys/class/infiniband/mlx5_1/ports/1/counters/port_xmit_data", "17\n");
        tree_.file("/sys/class/infiniband/mlx5_1/ports/1/counters/port_rcv_data", "18446744073709551615\n");
        tree_.file("/sys/class/net/eth0/statistics/tx_bytes", "5\n");
        tree_.file("/sys/class/net/eth0/statistics/rx_bytes", "6\n");
    }

    test::Tree tree_;
};

TEST_F(Counters, OfPortsAndInterfaces) {
    EXPECT_EQ(read_counters(tree_.root(), std::vector<std::string>{"mlx5_1:1"}, std::vector<std::string>{"eth0"}),
              (Readings{{"mlx5_1/1/port_xmit_data", 17, 17},
                        {"mlx5_1/1/port_rcv_data", 18446744073709551615U, 18446744073709551615U},
                        {"eth0/tx_bytes", 5, 5},
                        {"eth0/rx_bytes", 6, 6}}));
}

TEST_F(Counters, WhatCannotBeReadIsNone) {
    tree_.file("/sys/class/net/eth0/statistics/tx_bytes", "-1\n");
    tree_.file("/sys/class/net/eth0/statistics/rx_bytes", "\n");
    tree_.file("/sys/class/infiniband/mlx5_1/ports/1/counters/port_xmit_data", "18446744073709551616\n");
    EXPECT_EQ(read_counters(tree_.root(), std::vector<std::string>{"mlx5_1:1", "mlx5_1:2", "mlx5_9:1"},
                            std::vector<std::string>{"eth0", "eth9", ""}),
              (Readings{{"mlx5_1/1/port_rcv_data", 18446744073709551615U, 18446744073709551615U}}));
}

TEST_F(Counters, AtTheEndTheyAreReadAgain) {
    auto counters = read_counters(tree_.root(), std::vector<std::string>{"mlx5_1:1"}, std::vector<std::string>{"eth0"});
    tree_.file("/sys/class/infiniband/mlx5_1/ports/1/counters/port_xmit_data", "20\n");
    tree_.file("/sys/class/net/eth0/statistics/rx_bytes", "7\n");
    tree_.remove("/sys/class/net/eth0/statistics/tx_bytes");
    read_again(tree_.root(), counters);
    EXPECT_EQ(counters, (Readings{{"mlx5_1/1/port_xmit_data", 17, 20},
                                  {"mlx5_1/1/port_rcv_data", 18446744073709551615U, 18446744073709551615U},
                                  {"eth0/rx_bytes", 6, 7}}));
}

} // namespace
} // namespace rdma_nccl
