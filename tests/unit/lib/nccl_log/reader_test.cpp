// SPDX-License-Identifier: Apache-2.0
#include "lib/nccl_log/reader.h"

#include "lib/base/text.h"
#include "lib/nccl_log/messages.h"
#include "tests/unit/nccl_log_facts.h"
#include "tests/unit/tree.h"

#include <chrono>
#include <gtest/gtest.h>

namespace rdma_nccl {
namespace {

using test::facts_of;
using test::read_log;

struct Shape {
    const char* text; ///< behind "NCCL INFO "
    const char* facts;
};

void expect_facts(const Shape& shape, bool with_networks) {
    const auto log = read_log(std::string("n01:100:101 [0] NCCL INFO ") + shape.text + "\n");
    ASSERT_EQ(log.processes.size(), 1U) << shape.text;
    auto process = log.processes[0];
    if (!with_networks) {
        process.networks.clear();
    }
    EXPECT_EQ(facts_of(process), shape.facts) << shape.text;
    EXPECT_TRUE(log.processes[0].causes.empty()) << shape.text;
}

TEST(NcclLog, ConnectionsOfAllVersions) {
    const Shape shapes[] = {
        // 2.4 to 2.11
        {"Ring 00 : 0 -> 8 [send] via NET/IB/0/GDRDMA", "gdr 1"},
        {"Ring 00 : 8 -> 0 [receive] via NET/IB/0", "rdma 1"},
        {"Ring 00 : 0[0] -> 1[1] via P2P/IPC", "p2p 1"},
        {"Ring 00 : 0[0] -> 1[1] via direct shared memory", "shm 1"},
        {"Channel 00 : 0[17000] -> 8[17000] [send] via NET/IB/0/GDRDMA/Shared", "gdr 1"},
        {"Channel 01 : 8[5e000] -> 0[5e000] [receive] via NET/Socket/0/Shared", "socket 1"},
        {"Channel 00 : 0[17000] -> 1[2a000] via direct shared memory", "shm 1"},
        // 2.12 to 2.17: the channel's connection
        {"Channel 00/0 : 0[17000] -> 8[17000] [send] via NET/IB/0/GDRDMA", "gdr 1"},
        {"Channel 03/0 : 9[2a000] -> 1[2a000] [receive] via NET/IB/3(1)/GDRDMA", "gdr 1"},
        {"Channel 03/1 : 9[2a000] -> 1[2a000] [send] via NET/IB/3(1)", "rdma 1"},
        // 2.18 on: NVML numbers
        {"Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA", "gdr 1"},
        {"Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0", "rdma 1"},
        {"Channel 00/0 : 0[0] -> 8[0] [send] via NET/Socket/1", "socket 1"},
        {"Channel 02/0 : 1[1] -> 2[0] [send] via NET/IB/8/GDRDMA(PCI)", "gdr 1"},
        {"Channel 02/0 : 1[1] -> 2[0] [send] via NET/IB/8(3)/GDRDMA(PCI)/Shared", "gdr 1"},
        {"Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/Shared", "rdma 1"},
        {"Channel 00 : 0[0] -> 1[1] via SHM/direct/direct", "shm 1"},
        {"Channel 00 : 0[0] -> 1[1] via SHM/CE/direct", "shm 1"},
        {"Channel 00 : 0[0] -> 1[1] via SHM/direct", "shm 1"}, // 2.30
        {"Channel 00/0 : 0[0] -> 1[1] via P2P/direct pointer", "p2p 1"},
        {"Channel 00/0 : 0[0] -> 1[1] via P2P/IPC/read", "p2p 1"},
        {"Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/CE", "p2p 1"},
        {"Channel 00/0 : 0[0] -> 1[1] via P2P/indirect/2[2]", "p2p 1"},
        {"Channel 00/0 : 0[0] -> 4[0] via P2P/MNNVL", "nvlink 1"},
        {"Channel 00/0 : 0[0] -> 4[0] via P2P/MNNVL/CE", "nvlink 1"},
        {"CollNet 00/0 : 3 [send] via COLLNET/SHARP/0/GDRDMA", "gdr 1"},
        {"Coll 00 : 3 [receive] via COLLNET/SHARP/0", "rdma 1"},
        // RCCL adds the communicator
        {"Channel 00/0 : 0[c1000] -> 8[c1000] [send] via NET/IB/0/GDRDMA comm 0x55d0 nRanks 16", "gdr 1"},
        {"Channel 00/0 : 0[c1000] -> 8[c1000] [send] via NET/IB/0 comm 0x55d0 nRanks 16", "rdma 1"},
        {"Channel 00 : 0[c1000] -> 1[c5000] via P2P/IPC comm 0x55d0 nRanks 16", "p2p 1"},
        // Plugins
        {"Channel 00/0 : 0[0] -> 8[0] [send] via NET/IBext/0/GDRDMA", "gdr 1"},
        {"Channel 00/0 : 0[0] -> 8[0] [send] via NET/IBext_v8/0", "rdma 1"},
        {"Channel 00/0 : 0[0] -> 8[0] [send] via NET/UCX/0/GDRDMA", "gdr 1"},
        {"Channel 00/0 : 0[0] -> 8[0] [send] via NET/Socket_v8/0", "socket 1"},
        {"Channel 00/0 : 0[0] -> 8[0] [send] via NET/GPUDirectTCPX_v7/0/GDRDMA", "socket 1"},
        {"Channel 00/0 : 0[0] -> 8[0] [send] via NET/FastSocket/0", "socket 1"},
        {"Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB-CAST/0/GDRDMA", "gdr 1"},
        {"Channel 00/0 : 0[0] -> 8[0] [send] via NET/RCCL-ANP/0 comm 0x55d0 nRanks 16", "rdma 1"},
        {"Channel 00/0 : 0[0] -> 8[0] [send] via NET/SPCX/2(0)/GDRDMA", "gdr 1"},
        {"Channel 00/0 : 0[0] -> 8[0] [send] via NET/AWS Libfabric/0/GDRDMA", "gdr 1"}, // see below
        {"Channel 00/0 : 0[0] -> 8[0] [send] via NET/AWS Libfabric/0", "other 1"},
        {"Channel 00/0 : 0[0] -> 8[0] [send] via NET/Unheard/0", "other 1"},
        {"CollNet 00/0 : 3 [send] via COLLNET/Unheard/0", "rdma 1"},
        // What looks like one, and is none
        {"Channel 00/02 :    0   1   2   3", ""},
        {"Channel via NET/IB/0", ""},
        {"Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB", ""},
        {"Channel 00/0 : 0[0] -> 8[0] [send] via NET/", ""},
        {"Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/x", ""},
        {"Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDR", ""},
        {"Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/3(1", ""},
        {"Channel 00/0 : 0[0] -> 4[0] via P2P/MNN", ""},
        {"Channel 00/0 : 0[0] -> 4[0] via P2P", ""},
        {"Connected all rings", ""},
        {"Connected all rings, use ring PXN 0 GDR 1", ""},
        {"Trees [0] 1/-1/-1->0->-1 [1] 1/-1/-1->0->-1", ""},
        {"4 coll channels, 4 collnet channels, 0 nvls channels, 4 p2p channels", ""},
    };
    for (const auto& shape : shapes) {
        expect_facts(shape, false); // see NetworksOfConnectionsAndPlugins
    }
}

TEST(NcclLog, NetworksDevicesAndGids) {
    const Shape shapes[] = {
        {"Using network IB", "IB"},
        {"Using network Socket", "Socket"},
        {"Using network AWS Libfabric", "AWS Libfabric"},
        {"Using network IBext_v8", "IBext_v8"},
        {"NET/IB : Using [0]mlx5_0:1/RoCE ; OOB eth0:10.0.0.1<0>", "mlx5_0:1"},
        {"NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.1<0>", "mlx5_0:1, mlx5_1:1"},
        {"NET/IB : Using [0]={[0] mlx5_0:1/RoCE, [1] mlx5_1:1/RoCE} [1]mlx5_bond_2:2/RoCE [RO]; OOB ib0:10.0.0.1<0>",
         "mlx5_0:1, mlx5_1:1, mlx5_bond_2:2"},
        {"NET/IB : Using [0]mlx5_0:1/IB/SHARP [1]mlx5_1:1/IB/SHARP [RO]; OOB ib0:10.0.0.1<0>", "mlx5_0:1, mlx5_1:1"},
        {"NET/IB : Using [0]mlx5_0:1:0:1/RoCE [1]mlx5_1:1:12/RoCE [2]mlx5_2:1::1/IB [RO]; OOB eth0:10.0.0.1<0>",
         "mlx5_0:1, mlx5_1:1, mlx5_2:1"}, // rail and plane, 2.30.5 on
        {"NET/IB : Using [0]mlx5_0:1:0:1/RoCE [1]mlx5_1:1:1", "mlx5_0:1"},
        {"NET/IB : Using [RO]; OOB eth0:10.0.0.1<0>", ""}, // behind "No device found", 2.24 on
        {"NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE [2]mlx5_2:1", "mlx5_0:1, mlx5_1:1"}, // cut at 1024 bytes
        {"NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE [2]mlx5_", "mlx5_0:1, mlx5_1:1"},
        {"NET/IB: [0] mlx5_0:uverbs0:1/RoCE provider=Mlx5 speed=400000 context=0x55 pciPath=/sys/x ar=0", "mlx5_0:1"},
        {"NET/IB : Made virtual device [3] name=mlx5_0+mlx5_2 speed=800000 ndevs=2", "mlx5_0, mlx5_2"},
        {"NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'", "mlx5_0"},
        {"GPU Direct RDMA (DMABUF) enabled for HCA 1 'roce0+roce1'", "roce0, roce1"},
        {"NET/OFI : GPU Direct RDMA Enabled for HCA 0 'cxi0'", "cxi0"},
        {"NET/Socket : GPU Direct RDMA Disabled for HCA 0 'eth0'", ""},
        {"NET/Socket : Using [0]eth0:10.0.0.1<0> [1]docker0:172.17.0.1<0>", ""},
        {"NET/IB: Dev 0 Port 1 qpn 257 mtu 3 GID 3 (0/100000AFFFF0000)", "HCA 0:1 index 3 10.0.0.1"},
        {"NET/IB: Dev 0 Port 1 qpn 257 mtu 3 query_ece={supported=1, vendor_id=0x15b3, options=0x3, comp_mask=0x0} "
         "GID 3 (80FE/FEFFFFFF3EB3A2B8) fifoRkey=0x1 fifoLkey=0x1",
         "HCA 0:1 index 3 fe80::b8a2:b33e:ffff:fffe"},
        {"NET/IB: NCCL Dev 0 IbDev 2 Port 1 qpn 257 mtu 5 GID 3 (0/100000AFFFF0000) fifoRkey=0x1 fifoLkey=0x1",
         "HCA 2:1 index 3 10.0.0.1"},
        {"NET/IB: ncclIbRtrQp: NCCL Dev 0 IbDev 0 Port 1 qp_num 257 mtu 5 GID 3 (0/0200000AFFFF0000) fifoRkey=0x1",
         "HCA 0:1 index 3 10.0.0.2"},
        {"NET/IB: NCCL Dev 1 IbDev 1 Port 1 qpn 7 mtu 5 LID 10 subnet-prefix 83033 FLID 0 fifoRkey=0x1 fifoLkey=0x1",
         "HCA 1:1 LID 10"},
        {"NET/IB: Dev 0 Port 1 qpn 257 mtu 5 LID 10", ""}, // may be 100
        {"NET/IB: NCCL Dev 0 IbDev 2 Port 1 qpn 257 mtu 5 GID 3 (0/100000AFF", ""},
        {"NCCL version 2.28.9+cuda13.0", "2.28.9"},
        {"RCCL version : 2.18.3+hip6.0 HEAD:2f6d59e+", "2.18.3"},
        {"RCCL version 2.22.3-develop:1a2b", "2.22.3"},
        {"comm 0x5581 rank 3 nranks 16 cudaDev 3 busId 31000 - Init COMPLETE", "rank 3 of 16"},
        {"ncclCommInitRank comm 0x5581 rank 3 nranks 16 cudaDev 3 nvmlDev 3 busId 31000 commId 0x1 - Init COMPLETE",
         "rank 3 of 16"},
        {"comm 0x5581 rank 3 nRanks 16 nNodes 2 localRanks 8 localRank 3 MNNVL 0", "rank 3 of 16 on 2"},
        {"comm 0x5581 rank 0 nranks 1", ""}, // may be 16
    };
    for (const auto& shape : shapes) {
        expect_facts(shape, true);
    }
}

constexpr const char* info = "n01:100:101 [0] NCCL INFO ";

TEST(NcclLog, QueuePairsAreNamedByTheDevicesOfTheProcess) {
    const std::string text =
        std::string(info) +
        "NET/IB : Using [0]={[0] mlx5_0:1/RoCE, [1] mlx5_1:1/RoCE} [2]mlx5_7:1/IB [RO]; OOB e:1<0>\n" + info +
        "NET/IB: NCCL Dev 0 IbDev 1 Port 1 qpn 257 mtu 3 GID 3 (0/100000AFFFF0000) x\n" + info +
        "NET/IB: NCCL Dev 0 IbDev 1 Port 1 qpn 258 mtu 3 GID 3 (0/100000AFFFF0000) x\n" + info +
        "NET/IB : Made virtual device [2] name=mlx5_0+mlx5_1 speed=800000 ndevs=2\n";
    const auto log = read_log(text);
    EXPECT_EQ(facts_of(log.processes.at(0)), "mlx5_0:1, mlx5_1:1, mlx5_7:1; mlx5_1:1 index 3 10.0.0.1");
}

TEST(NcclLog, NumbersOfLibibverbsDevicesNameNoQueuePairs) {
    const auto of = [](const std::string& using_line) {
        const auto log =
            read_log(std::string(info) + "NET/IB: [1] mlx5_1:uverbs1:1/RoCE provider=Mlx5\n" + using_line + info +
                     "NET/IB: NCCL Dev 0 IbDev 1 Port 1 qpn 257 mtu 3 GID 3 (0/100000AFFFF0000) x\n");
        return facts_of(log.processes.at(0));
    };
    EXPECT_EQ(of(""), "mlx5_1:1; HCA 1:1 index 3 10.0.0.1");
    EXPECT_EQ(of(std::string(info) + "NET/IB : Using [0]mlx5_1:1/RoCE [1]mlx5_3:1/RoCE ; OOB e:1<0>\n"),
              "mlx5_1:1, mlx5_3:1; mlx5_3:1 index 3 10.0.0.1");
}

TEST(NcclLog, AnIndexOfTwoDevicesNamesNone) {
    const auto log = read_log(
        std::string(info) + "NET/IB : Using [0]={[0] mlx5_0:1/RoCE, [1] mlx5_1:1/RoCE} [1]mlx5_7:1/IB ; OOB e:1<0>\n" +
        info + "NET/IB: NCCL Dev 0 IbDev 1 Port 1 qpn 257 mtu 3 GID 3 (0/100000AFFFF0000) x\n");
    EXPECT_EQ(facts_of(log.processes.at(0)), "mlx5_0:1, mlx5_1:1, mlx5_7:1; HCA 1:1 index 3 10.0.0.1");
}

TEST(NcclLog, LibfabricIsWhatItsProviderIs) {
    const auto with = [](const std::string& provider) {
        return facts_of(read_log(info + provider + "\n" + info +
                                 "Channel 00/0 : 0[0] -> 8[0] [send] via NET/AWS Libfabric/0/GDRDMA\n" + info +
                                 "Channel 00/0 : 8[0] -> 0[0] [receive] via NET/Libfabric/0\n")
                            .processes.at(0));
    };
    const std::string networks = "AWS Libfabric, Libfabric; ";
    EXPECT_EQ(with("NET/OFI Selected Provider is efa (found 16 nics)"), networks + "rdma 1, gdr 1");
    EXPECT_EQ(with("NET/OFI Selected provider is efa, fabric is efa-direct (found 16 nics)"),
              networks + "rdma 1, gdr 1");
    EXPECT_EQ(with("NET/OFI Selected Provider is cxi (found 4 nics)"), networks + "rdma 1, gdr 1");
    EXPECT_EQ(with("NET/OFI Selected Provider is psm2 (found 2 nics)"), networks + "rdma 1, gdr 1");
    EXPECT_EQ(with("NET/OFI Selected Provider is psm3 (found 2 nics)"), networks + "rdma 1, gdr 1");
    EXPECT_EQ(with("NET/OFI Selected Provider is verbs;ofi_rxm (found 2 nics)"), networks + "rdma 1, gdr 1");
    EXPECT_EQ(with("NET/OFI Selected Provider is tcp;ofi_rxm (found 2 nics)"), networks + "socket 2");
    EXPECT_EQ(with("NET/OFI Selected Provider is sockets (found 2 nics)"), networks + "socket 2");
    EXPECT_EQ(with("NET/OFI Selected Provider is efa"), networks + "rdma 1, gdr 1"); // aws-ofi-nccl before 1.5
    // Without a provider, GPUDirect speaks for the network that has it.
    EXPECT_EQ(with("NET/OFI Selected Provider is e"), networks + "gdr 1, other 1");
    EXPECT_EQ(with("NET/OFI Initializing"), networks + "gdr 1, other 1");
}

struct Sign {
    const char* lines; ///< of the process, each behind "NCCL INFO "
    const char* facts;
    const char* note;
};

/// Messages of one process, separated by '|', and then two connections over a network that is in no table.
std::string with_unheard(const std::string& lines, const char* end = "") {
    const std::string all = lines + "|Channel 00/0 : 0[0] -> 8[0] [send] via NET/Unheard/0" + end +
                            "|Channel 00/0 : 8[0] -> 0[0] [receive] via NET/Unheard/1";
    std::string text;
    for (const auto line : split(all, '|')) {
        text += info + std::string(line) + "\n";
    }
    return text;
}

TEST(NcclLog, AnUnfamiliarNetworkIsWhatItsLinesSay) {
    constexpr const char* hcas = "NET/IB : Using [0]roce0:1/RoCE [RO]; OOB eth0:10.0.0.1<0>";
    const Sign signs[] = {
        {"Using network Unheard", "Unheard; other 2", ""},
        {hcas, "Unheard; roce0:1; rdma 2", "network Unheard counts as RDMA: its devices are HCAs"},
        {"NET/Unheard : Using [0]roce0:1/RoCE [1]roce1:1/RoCE", "Unheard; roce0:1, roce1:1; rdma 2",
         "network Unheard counts as RDMA: its devices are HCAs"},
        {"NET/Unheard : Using [0]roce0:1::1/RoCE", "Unheard; roce0:1; rdma 2",
         "network Unheard counts as RDMA: its devices are HCAs"},
        {"NET/Unheard : Using [0]eth0:10.0.0.1<0> [1]eth1:10.1.0.1<0>", "Unheard; socket 2",
         "network Unheard counts as sockets: its devices are network interfaces"},
        {"NET/Unheard : Using [0]eth0:fd00::1%eth0<0>", "Unheard; socket 2",
         "network Unheard counts as sockets: its devices are network interfaces"},
        {"NET/Unheard : Using [0]eth0:10.0.0.1", "Unheard; socket 2",
         "network Unheard counts as sockets: its devices are network interfaces"},
        {"NET/Unheard : Using [0]eth0:10.0.0.1 [1]eth1:10.1.0.1", "Unheard; socket 2",
         "network Unheard counts as sockets: its devices are network interfaces"},
        {"NET/OFI Selected Provider is cxi (found 4 nics)", "Unheard; rdma 2",
         "network Unheard counts as RDMA: its provider is cxi"},
        {"Plugin Path : /opt/hpcx/nccl_spectrum-x_plugin/lib/libnccl-net.so", "Unheard; rdma 2",
         "network Unheard counts as RDMA: its plugin is nccl_spectrum-x_plugin"},
        {"Successfully loaded external network plugin /opt/anp/librccl-anp.so", "Unheard; rdma 2",
         "network Unheard counts as RDMA: its plugin is librccl-anp"},
        {"NET/Plugin: Loaded net plugin NCCL RDMA Plugin v10 (v10)", "Unheard; rdma 2",
         "network Unheard counts as RDMA: its plugin is NCCL RDMA Plugin"},
        // What does not tell, or tells both:
        {"NET/IB : Using [RO]; OOB eth0:10.0.0.1<0>", "Unheard; other 2", ""},
        {"Bootstrap : Using [0]eth0:10.0.0.1<0>", "Unheard; other 2", ""},
        {"NET/Socket : Using [0]eth0:10.0.0.1<0>", "Unheard; other 2", ""},
        {"NET/Unheard : Using [0]roce0:1", "Unheard; other 2", ""},
        {"NET/Plugin: Loaded net plugin Unheard (v10)", "Unheard; other 2", ""},
        {"NET/IB : Using [0]roce0:1/RoCE [RO]|NET/Unheard : Using [0]eth0:10.0.0.1<0>", "Unheard; roce0:1; other 2",
         ""},
        // GPU-initiated networking lists HCAs, whatever network was chosen before (NCCL 2.28).
        {"Assigned NET plugin Unheard to comm|NET/IB : Using [0]roce0:1/RoCE [RO]", "Unheard; roce0:1; other 2", ""},
    };
    for (const auto& sign : signs) {
        const auto log = read_log(with_unheard(sign.lines));
        EXPECT_EQ(facts_of(log.processes.at(0)), sign.facts) << sign.lines;
        EXPECT_EQ(test::listed(log.notes), sign.note) << sign.lines;
    }
    const auto direct = read_log(with_unheard("Using network Unheard", "/GDRDMA"));
    EXPECT_EQ(facts_of(direct.processes.at(0)), "Unheard; rdma 1, gdr 1");
    EXPECT_EQ(test::listed(direct.notes), "network Unheard counts as RDMA: its connections use GPUDirect");
}

TEST(NcclLog, WhatOneProcessSaysOfItsNetworkHoldsForAll) {
    const auto of = [](const std::string& first, const std::string& second) {
        const auto log = read_log(
            "n01:100:1 [0] NCCL INFO " + first + "\n" +
            "n01:100:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/Libfabric/0/GDRDMA\n"
            "n02:100:1 [0] NCCL INFO " +
            second + "\n" + "n02:100:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [receive] via NET/Libfabric/0\n");
        return facts_of(log.processes.at(0)) + " | " + facts_of(log.processes.at(1));
    };
    const std::string efa = "NET/OFI Selected Provider is efa (found 16 nics)";
    const std::string tcp = "NET/OFI Selected Provider is tcp (found 1 nics)";
    EXPECT_EQ(of(efa, "NET/OFI Initializing"), "Libfabric; gdr 1 | Libfabric; rdma 1");
    EXPECT_EQ(of("NET/OFI Initializing", efa), "Libfabric; gdr 1 | Libfabric; rdma 1");
    EXPECT_EQ(of(efa, tcp), "Libfabric; gdr 1 | Libfabric; socket 1"); // its own word counts first
    EXPECT_EQ(of("NET/OFI Initializing", "NET/OFI Initializing"), "Libfabric; gdr 1 | Libfabric; rdma 1");
    // A provider counts before what speaks for RDMA alone, and needs no note.
    EXPECT_EQ(of("NET/OFI Initializing", tcp), "Libfabric; socket 1 | Libfabric; socket 1");
    const auto direct =
        read_log("n01:100:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/Libfabric/0/GDRDMA\n"
                 "n02:100:1 [0] NCCL INFO " +
                 efa + "\nn02:100:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [receive] via NET/Libfabric/0/GDRDMA\n");
    EXPECT_TRUE(direct.notes.empty());
    // Also the word of a process that has no connection of its own.
    const auto log = read_log("n01:100:1 [0] NCCL INFO NET/OFI Selected Provider is cxi (found 4 nics)\n"
                              "n01:100:1 [0] NCCL INFO Using network AWS Libfabric\n"
                              "n01:101:1 [1] NCCL INFO Using network AWS Libfabric\n"
                              "n01:101:1 [1] NCCL INFO Channel 00/0 : 1[1] -> 2[0] [send] via NET/AWS Libfabric/0\n");
    EXPECT_EQ(facts_of(log.processes.at(1)), "AWS Libfabric; rdma 1");
}

TEST(NcclLog, WhatIsNotUnderstoodIsCounted) {
    const auto unread = [](const std::string& text) { return read_log(info + text + "\n").unread_lines; };
    EXPECT_EQ(unread("Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0"), 0U);
    EXPECT_EQ(unread("Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDR"), 1U);
    EXPECT_EQ(unread("Channel 00/0 : 0[0] -> 8[0] [send] via a tunnel"), 1U);
    EXPECT_EQ(unread("Channel 00/02 :    0   1   2   3"), 0U);
    EXPECT_EQ(unread("Connected all rings"), 0U);
    EXPECT_EQ(unread("Using network IBn02:1:1 [0] NCCL INFO Using network IB"), 2U); // torn, and of an unknown process
}

TEST(NcclLog, TheLastUnknownWarningIsQuoted) {
    const auto last = [](const std::string& lines) {
        std::string text;
        for (const auto line : split(lines, '|')) {
            text += "\nn01:1:1 [0] transport/x.cc:1 NCCL WARN " + std::string(line) + "\n";
        }
        return summary(read_log(text)).causes;
    };
    using Texts = std::vector<std::string>;
    EXPECT_EQ(last("first|Cuda failure 'out of memory'"), Texts{"NCCL's last warning: Cuda failure 'out of memory'"});
    EXPECT_EQ(
        last("first|Duplicate GPU detected : rank 1 and rank 0"),
        (Texts{"two ranks use the same GPU: give each its own (CUDA_VISIBLE_DEVICES)", "NCCL's last warning: first"}));
    EXPECT_EQ(last("ANP plugin loaded successfully with telemetry disabled : /opt/librccl-anp.so"), Texts{});
    EXPECT_EQ(last("Could not find real path of rxe0 (/sys/class/infiniband/rxe0/device)"), Texts{});
    EXPECT_EQ(last(std::string(300, 'x')).at(0).size(), std::string("NCCL's last warning: ...").size() + 200);
}

TEST(NcclLog, NetworksOfConnectionsAndPlugins) {
    const auto networks = [](const std::string& lines) {
        std::string text;
        for (const auto line : split(lines, '|')) {
            text += info + std::string(line) + "\n";
        }
        return test::listed(read_log(text).processes.at(0).networks);
    };
    const std::string connection = "Channel 00/0 : 0[0] -> 8[0] [send] via ";
    EXPECT_EQ(networks(connection + "NET/IBext/0/GDRDMA"), "IBext");
    EXPECT_EQ(networks(connection + "NET/Libfabric/0"), "Libfabric");
    EXPECT_EQ(networks("Ring 00 : 1 -> 0 [receive] via NET/Socket/0"), "Socket");
    EXPECT_EQ(networks("CollNet 00/0 : 3 [send] via COLLNET/SHARP/0/GDRDMA"), ""); // of collectives alone
    EXPECT_EQ(networks("Using network IB|" + connection + "NET/Socket/0"), "IB");
    EXPECT_EQ(networks("Assigned NET plugin IB to comm"), "IB");
    EXPECT_EQ(networks("Assigned NET plugin IB to "), "");
    EXPECT_EQ(networks("Initialized NET plugin gIB"), "gIB");
    EXPECT_EQ(networks("Initialized NET plugin IB|Initialized NET plugin Socket|Assigned NET plugin Socket to comm"),
              "Socket");
    EXPECT_EQ(networks("Initialized NET plugin IB|" + connection + "NET/Socket/0"), "Socket");
    EXPECT_EQ(networks("Using network Socket n01:1:1 [0] NCCL INFO Connected all rings"), "Socket") << "on one line";
    EXPECT_EQ(networks("Using network AWS n01:1:1 [0] NCCL INFO Connected all rings"), "") << "perhaps AWS Libfabric";
    EXPECT_EQ(networks("Using network IBn01:1:1 [0] NCCL INFO Connected all rings"), "");
    EXPECT_EQ(networks("Initialized NET plugin IB|group.cc:69 -> 3 [Async thread]"), "") << "it was not chosen";
}

TEST(NcclLog, BlanksUpToATerminalsEdgeEndALine) {
    const std::string edge(40, ' ');
    const std::string line = "NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IBext/0/GDRDMA";
    const auto log =
        read_log("n01:1:1 [0] " + line + edge + "n01:2:2 [1] " + line + edge + "n02:3:3 [0] " + line + edge);
    ASSERT_EQ(log.processes.size(), 3U);
    EXPECT_EQ(log.processes[2].host, "n02");
    EXPECT_EQ(log.connections().at(static_cast<std::size_t>(NcclTransport::RdmaGdr)), 3U);
    EXPECT_EQ(log.unread_lines, 0U);
}

TEST(NcclLog, SixteenBlanksAnywhereEndALineAndFewerDoNot) {
    for (std::size_t at = 0; at < 17; ++at) {
        for (std::size_t blanks = 1; blanks < 34; ++blanks) {
            const auto log = read_log(std::string(at, '>') + " n01:1:1 [0] NCCL INFO Using network AWS" +
                                      std::string(blanks, ' ') + "n01:1:1 [0] NCCL INFO Connected all rings");
            EXPECT_EQ(log.processes.at(0).networks.size(), blanks >= 16 ? 1 : 0) << at << ", " << blanks << " blanks";
        }
    }
}

TEST(NcclLog, WarningsNameNetworkAndHcas) {
    const auto facts = [](const std::string& lines) {
        std::string text;
        for (const auto line : split(lines, '|')) {
            text += "n01:1:1 [0] " + std::string(line) + "\n";
        }
        const auto process = read_log(text).processes.at(0);
        return test::listed(process.networks) + " " + test::listed(process.hcas);
    };
    const std::string warn = "x.cc:1 NCCL WARN ";
    EXPECT_EQ(facts(warn + "NET/IB : mlx5_0:1 Got async event : port error"), "IB mlx5_0:1");
    EXPECT_EQ(facts(warn + "NET/IB : mlx5_1:2 async fatal event on QP (0x7f01): transport error"), "IB mlx5_1:2");
    EXPECT_EQ(facts(warn + "NET/IB : Got async event : port error"), "IB ");
    EXPECT_EQ(facts(warn + "Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_2:1, curr state "
                           "INIT, next state RTR"),
              "IB mlx5_2:1");
    const auto completion = warn + "NET/IB: Got completion from peer 10.0.0.2<4711> with status=12 opcode=0 len=0 ";
    EXPECT_EQ(facts(completion + "vendor err 129 (Send) hca mlx5_3"), "IB mlx5_3");
    EXPECT_EQ(facts(completion + "vendor err 129 (Send)"), "IB ");
    EXPECT_EQ(facts("NCCL INFO Using network IBext|" + completion + "vendor err 129"), "IBext ");
    EXPECT_EQ(facts("ib_plugin.c:1 NCCL WARN NET/IB : Got completion from peer 10.0.0.2<4711> with error 5"), " ")
        << "of a plugin";
    EXPECT_EQ(facts(warn + "NET/IB : Unable to open device mlx5_0"), " ") << "it is not used";
    EXPECT_EQ(facts(warn + "NET/IB : No IP interface found."), " ");
    EXPECT_EQ(facts("NCCL INFO Initialized NET plugin gIB|" + warn + "Unknown device code index 7"), " ");
    EXPECT_EQ(facts("NCCL INFO Initialized NET plugin gIB|" + warn + "NUMA auto balancing enabled"), "gIB ");
}

TEST(NcclLog, LibfabricNamesItsDevices) {
    const auto log = read_log(std::string(info) + "NET/OFI GUID of rdmap9s0: 0123456789abcdef\n" + info +
                              "NET/OFI GUID for dev[0]: 00112233\n" + info + "NET/OFI GUID of \n");
    EXPECT_EQ(facts_of(log.processes.at(0)), "rdmap9s0");
}

TEST(NcclLog, ANumberInFrontOfAHostIsNoHost) {
    const auto hosts = [](const std::string& prefixes) {
        std::string text;
        for (const auto prefix : split(prefixes, '|')) {
            text += std::string(prefix) + ":65:66 [0] NCCL INFO Connected all rings\n";
        }
        std::string names;
        for (const auto& process : read_log(text).processes) {
            names += (names.empty() ? "" : " ") + process.host;
        }
        return names;
    };
    EXPECT_EQ(hosts("gpu7|  8.1   -1gpu7|0gpu7|gpu7"), "gpu7");
    EXPECT_EQ(hosts("  8.1   -1gpu7|gpu7|-1gpu7|0gpu7"), "gpu7");
    EXPECT_EQ(hosts("1gpu7|2gpu7"), "1gpu7 2gpu7"); // both may be hosts
    EXPECT_EQ(hosts("1a|11a|100|1100"), "1a 11a 100 1100");
    EXPECT_EQ(read_log("gpu7:65:66 [0] NCCL INFO x\n0gpu7:67:68 [0] NCCL INFO x\n").processes.size(), 2U);
}

TEST(NcclLog, HostsOfAllRanksAreNodes) {
    const auto nodes = [](const std::string& ranks) {
        std::string text;
        for (const auto rank : split(ranks, '|')) {
            text += std::string(rank) + " nranks 2 cudaDev 0 busId 1 - Init START\n";
        }
        return summary(read_log(text)).nodes;
    };
    const std::string first = "n01:100:1 [0] NCCL INFO comm 0x1 rank 0";
    EXPECT_EQ(nodes(first + "|n02:200:1 [0] NCCL INFO comm 0x2 rank 1"), 2U);
    EXPECT_EQ(nodes(first + "|n01:200:1 [0] NCCL INFO comm 0x2 rank 1"), 1U);
    EXPECT_EQ(nodes(first), 0U);
    EXPECT_EQ(nodes(first + "|n02:200:1 [0] NCCL INFO comm 0x2 rank 0"), 0U);
    EXPECT_EQ(nodes(first + "|n02:200:1 [0] NCCL INFO comm 0x2 rank 1|n03:1:1 [0] NCCL INFO comm 0x3 rank 0"), 0U);
}

TEST(NcclLog, ARingThatClosesInsideANode) {
    const auto ring = [](const std::string& edges, const std::string& via = "P2P/CUMEM") {
        std::string text;
        for (const auto edge : split(edges, ',')) {
            text += std::string(edge).find(" -> ") == std::string::npos
                        ? info + std::string(edge) + "\n"
                        : info + ("Channel 00/0 : " + std::string(edge) + " via " + via + "\n");
        }
        return summary(read_log(text)).nodes;
    };
    EXPECT_EQ(ring("0[0] -> 1[1],1[1] -> 2[2],2[2] -> 0[0]"), 1U);
    EXPECT_EQ(ring("0[0] -> 1[1],1[1] -> 0[0]", "SHM/direct/direct"), 1U);
    EXPECT_EQ(ring("0[0] -> 1[1],1[1] -> 2[2]"), 0U);
    // Trees go both ways: they close no ring.
    EXPECT_EQ(ring("0[0] -> 1[1],Connected all rings,1[1] -> 0[0]"), 0U);
    EXPECT_EQ(ring("0[0] -> 1[1],1[1] -> 0[0]", "NET/IB/0"), 0U);
    EXPECT_EQ(ring("0[0] -> 0[0]"), 0U);
    // Beside one inside the node, another communicator has others; how many ranks this one has, no line says.
    EXPECT_EQ(ring("0[0] -> 1[1],1[1] -> 0[0],Channel 00/0 : 0 [send] via NET/IB/0"), 0U);
    EXPECT_EQ(ring("comm 0x1 rank 0 nranks 2 cudaDev 0,0[0] -> 1[1],1[1] -> 0[0],Channel 00/0 : 0 [send] via NET/IB/0"),
              1U);
}

TEST(NcclLog, ManyProcessesAndOneVersion) {
    const auto log = read_log("NCCL version 2.21.5+cuda12.4\n"
                              "n01:100:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0/GDRDMA\n"
                              "n02:100:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [receive] via NET/IB/0\n"
                              "n01:101:1 [1] NCCL INFO Using network Socket\n"
                              "loss 0.5\n"
                              "n01:100:2 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[0] [send] via NET/IB/0/GDRDMA\n");
    ASSERT_EQ(log.processes.size(), 3U);
    EXPECT_EQ(facts_of(log.processes[0]), "2.21.5; IB; gdr 2");
    EXPECT_EQ(facts_of(log.processes[1]), "2.21.5; IB; rdma 1");
    EXPECT_EQ(facts_of(log.processes[2]), "2.21.5; Socket");
    EXPECT_EQ(log.processes[1].host, "n02");
    EXPECT_EQ(log.processes[2].pid, 101U);
    EXPECT_EQ(log.lines, 6U);
    EXPECT_EQ(log.nccl_lines, 4U);
    EXPECT_EQ(log.info_lines, 4U);
    EXPECT_EQ(log.version, "2.21.5");
    EXPECT_FALSE(log.truncated);
    EXPECT_EQ(log.connections(), (std::array<std::uint64_t, nccl_transports>{1, 2, 0, 0, 0, 0, 0}));
}

TEST(NcclLog, VersionsThatDifferAreNotGuessed) {
    const auto log = read_log("NCCL version 2.21.5+cuda12.4\nNCCL version 2.22.3+cuda12.4\n"
                              "n01:100:1 [0] NCCL INFO Using network IB\n");
    EXPECT_EQ(log.version, "");
    EXPECT_EQ(log.processes.at(0).version, "");
}

TEST(NcclLog, TheLargestCommunicatorGivesTheRank) {
    const auto log =
        read_log("n1:1:1 [0] NCCL INFO comm 0x1 rank 1 nRanks 2 nNodes 1 localRanks 2 localRank 1 MNNVL 0\n"
                 "n1:1:1 [0] NCCL INFO comm 0x2 rank 9 nRanks 16 nNodes 2 localRanks 8 localRank 1 MNNVL 0\n"
                 "n1:1:1 [0] NCCL INFO comm 0x3 rank 0 nRanks 4 nNodes 4 localRanks 1 localRank 0 MNNVL 0\n");
    EXPECT_EQ(facts_of(log.processes.at(0)), "rank 9 of 16 on 4");
}

/// Each piece ends a line in the middle or not; the facts do not depend on it.
TEST(NcclLog, PiecesOfAnySize) {
    std::string text;
    for (int i = 0; i < 50; ++i) {
        text += format_text("n0{}:10{}:1 [0] NCCL INFO Channel 0{}/0 : 0[0] -> 1[0] [send] via NET/IB/0{}\n", i % 3,
                            i % 2, i % 10, i % 4 == 0 ? "" : "/GDRDMA");
        text += i % 7 == 0 ? std::string(20000, 'x') + "\n" : "\n";
        text += i % 9 == 0 ? std::string(9000, 'y') + "\r" + std::string(9000, 'z') + "\r" : "";
    }
    const auto whole = read_log(text);
    ASSERT_EQ(whole.processes.size(), 6U);
    for (const std::size_t size : {1U, 2U, 7U, 64U, 4096U, 16384U, 16385U}) {
        NcclLogReader reader;
        for (std::size_t at = 0; at < text.size(); at += size) {
            reader.read(std::string_view(text).substr(at, size));
        }
        const auto log = reader.finish();
        EXPECT_EQ(log.lines, whole.lines);
        EXPECT_EQ(log.cut_lines, whole.cut_lines);
        ASSERT_EQ(log.processes.size(), whole.processes.size()) << size;
        for (std::size_t i = 0; i < whole.processes.size(); ++i) {
            EXPECT_EQ(facts_of(log.processes[i]), facts_of(whole.processes[i])) << size;
        }
    }
}

TEST(NcclLog, ALastLineWithoutNewlineCountsForWhatIsCertain) {
    const auto facts = [](const char* end) { return facts_of(read_log(std::string(info) + end).processes.at(0)); };
    EXPECT_EQ(facts("Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0"), ""); // GPUDirect may follow
    EXPECT_EQ(facts("Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA"), "IB; gdr 1");
    EXPECT_EQ(facts("Channel 00/0 : 0[0] -> 8[0] [send] via NET/Socket/0"), "Socket; socket 1");
    EXPECT_EQ(facts("Using network IB"), ""); // IBext
    EXPECT_EQ(facts("NCCL version 2.28.1"), "");
}

TEST(NcclLog, FilesDoNotContinueEachOther) {
    NcclLogReader reader;
    reader.read(std::string(info) + "Using network I");
    reader.end_of_file();
    reader.read("B\n");
    reader.end_of_file();
    const auto log = reader.finish();
    EXPECT_EQ(log.lines, 2U);
    EXPECT_TRUE(log.processes.at(0).networks.empty());
}

TEST(NcclLog, ALineThatIsCutIsCounted) {
    const std::string message = "n01:1:1 [0] NCCL INFO Using network IB\n";
    const auto cut = read_log(std::string(NcclLog::longest_line, 'x') + message + message);
    EXPECT_EQ(cut.cut_lines, 1U);
    EXPECT_EQ(cut.nccl_lines, 1U);
    EXPECT_EQ(read_log(std::string(NcclLog::longest_line - message.size() + 1, 'x') + message).cut_lines, 0U);
    EXPECT_EQ(read_log(std::string(NcclLog::longest_line, 'x') + message.substr(0, 20)).cut_lines,
              1U); // without an end
    // A progress bar writes over itself.
    std::string bar;
    for (int i = 0; i < 1000; ++i) {
        bar += format_text("\rEpoch 1: {:3d} of 1000 ##########        ", i);
    }
    const auto behind = read_log(bar + "\r" + message);
    EXPECT_EQ(behind.cut_lines, 0U);
    EXPECT_EQ(facts_of(behind.processes.at(0)), "IB");
}

TEST(NcclLogDirectory, IsNotReadAfterItsDeadline) {
    test::Tree tree;
    const auto path = make_log_directory(12, 0, tree.path().string());
    ASSERT_FALSE(path.empty());
    tree.file(path.substr(tree.path().string().size()) + "/nccl.n01.100.log",
              "n01:100:101 [0] NCCL INFO Channel 01 : 8[5e000] -> 0[5e000] [receive] via NET/Socket/0/Shared\n");
    EXPECT_TRUE(read_log_directory(path));
    EXPECT_FALSE(read_log_directory(path, std::chrono::steady_clock::now()));
}

TEST(NcclLog, LimitsHold) {
    NcclLogReader reader;
    for (unsigned i = 0; i < NcclLog::most_processes + 10; ++i) {
        reader.read(format_text("n{}:{}:1 [0] NCCL INFO Using network IB\n", i / 8, i));
    }
    for (unsigned i = 0; i < NcclLog::most_names_of_a_process + 10; ++i) {
        reader.read(format_text("n0:1:1 [0] NCCL INFO NET/IB : Using [0]mlx5_{}:1/IB [RO]; OOB x\n", i));
    }
    const auto log = reader.finish();
    EXPECT_TRUE(log.truncated);
    EXPECT_EQ(log.processes.size(), NcclLog::most_processes);
    EXPECT_EQ(log.processes[1].hcas.size(), NcclLog::most_names_of_a_process);
}

TEST(NcclLog, RingsOfManyProcessesAreLimited) {
    NameBudget budget{.names = NcclLog::most_names - 10};
    std::size_t kept = 0;
    for (std::uint32_t pid = 1; pid <= 100; ++pid) {
        LogProcess process("n01", pid);
        for (unsigned rank = 0; rank < 3; ++rank) {
            NcclMessage message;
            const auto text = format_text("Channel 00/0 : {}[0] -> {}[1] via P2P/CUMEM", rank, rank + 1);
            message.text = text;
            EXPECT_TRUE(process.take(message, false, budget));
        }
        NcclNames notes;
        const auto facts = process.finish("", {}, notes);
        kept += facts.senders.size() + facts.receivers.size();
        EXPECT_EQ(facts_of(facts), "p2p 3") << pid;
    }
    EXPECT_EQ(kept, 10U);
    EXPECT_TRUE(budget.exhausted);
}

TEST(NcclLog, SummaryAddsUp) {
    const auto evidence =
        summary(read_log("n01:100:1 [0] NCCL INFO NCCL version 2.28.9+cuda13.0\n"
                         "n01:100:1 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 1.\n"
                         "n02:100:1 [0] NCCL INFO NET/IB : No device found.\n"
                         "n02:101:1 [1] NCCL INFO NET/IB : No device found.\n"
                         "n01:100:1 [0] NCCL INFO comm 0x1 rank 0 nRanks 4 nNodes 2 localRanks 2 localRank 1 MNNVL 0\n"
                         "n01:100:1 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eth0:10.0.0.1<0>\n"
                         "n01:100:1 [0] NCCL INFO Using network IB\n"
                         "n02:100:1 [0] NCCL INFO Using network Socket\n"
                         "n01:100:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 2[0] [send] via NET/IB/0/GDRDMA\n"
                         "n01:100:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 2[0] [send] via NET/IB/0\n"
                         "n02:101:1 [1] NCCL INFO Channel 00/0 : 0[0] -> 2[0] [send] via NET/Unheard/0\n"
                         "n01:100:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 2[0] via P2P/MNNVL\n"
                         "n01:100:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\n"
                         "n01:100:1 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct/direct\n"
                         "n02:101:1 [1] NCCL INFO Channel 00/0 : 0[0] -> 2[0] [receive] via NET/Socket/0\n"));
    EXPECT_EQ(evidence.ranks, 3U);
    EXPECT_EQ(evidence.version, "2.28.9");
    EXPECT_EQ(evidence.networks, (std::vector<std::string>{"IB", "Socket", "Unheard"}));
    EXPECT_EQ(evidence.hcas, (std::vector<std::string>{"mlx5_0:1"}));
    EXPECT_EQ(evidence.rdma, 1U);
    EXPECT_EQ(evidence.rdma_gdr, 1U);
    EXPECT_EQ(evidence.sockets, 1U);
    EXPECT_EQ(evidence.nvlink, 1U);
    EXPECT_EQ(evidence.other, 1U);
    EXPECT_EQ(evidence.local, 2U);
    EXPECT_EQ(evidence.nodes, 2U);
    EXPECT_TRUE(evidence.info);
    ASSERT_EQ(evidence.causes.size(), 2U);
    EXPECT_EQ(evidence.causes[0].find("NCCL found no RDMA device"), 0U); // twice
    EXPECT_EQ(evidence.causes[1].find("NCCL_IB_DISABLE is set"), 0U);
}

} // namespace
} // namespace rdma_nccl
