// SPDX-License-Identifier: Apache-2.0
#include "lib/nccl_log/messages.h"

#include "lib/base/text.h"
#include "tests/unit/nccl_log_facts.h"

#include <gtest/gtest.h>
#include <string>

namespace rdma_nccl {
namespace {

struct Case {
    const char* text;
    const char* begin; ///< of the cause
};

/// Empty also if no rule knows the message.
std::string_view cause_of(std::string_view text, bool warning) {
    return nccl_cause(text, warning).value_or("");
}

TEST(NcclLogCauses, Information) {
    const Case cases[] = {
        {"Failed to open libibverbs.so[.1]", "libibverbs.so.1 is not installed"},
        {"NET/IB : No device found.", "NCCL found no RDMA device"},
        {"NCCL_IB_DISABLE set by environment to 1.", "NCCL_IB_DISABLE is set"},
        {"NCCL_NET set by environment to Socket", "NCCL_NET=Socket is set"},
        {"NCCL_NET set by environment to socket.", "NCCL_NET=Socket is set"},
        {"Failed to initialize NET plugin IB", "NCCL's RDMA transport could not start"},
        {"NET/OFI No eligible providers were found", "libfabric has no provider"},
        {"NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0' (no module)", "GPUDirect RDMA is off"},
        {"NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'", "GPUDirect RDMA is off: load"},
        {"NET/RCCL-ANP : GPU Direct RDMA Disabled for HCA 0 'ionic_0'", "GPUDirect RDMA is off: load"},
        {"GPU Direct RDMA Disabled for GPU 17000 / HCA 1 (distance 7 > 4)", "GPUDirect RDMA is off between"},
        {"GPU Direct RDMA Disabled for GPU 3 / HCA 4a000 (distance 9 > 5)", "GPUDirect RDMA is off between"},
        {"Count not open libibverbs.so.1", "libibverbs.so.1 is not installed"},
        {"Could not open libibverbs.so.1", "libibverbs.so.1 is not installed"}, // RCCL of 2026
        {"NET/Plugin: libnccl-net.so: /opt/ofi/lib/libfabric.so.1: undefined symbol: efadv_query_device, version "
         "EFA_1.3",
         "the network plugin could not be loaded"},
        {"NET/Plugin : Plugin load returned 2 : /usr/lib/libibverbs.so.1: version `IBVERBS_1.14' not found (required "
         "by "
         "/opt/lib/libnccl-net.so)",
         "the network plugin could not be loaded"},
        {"TOPO/NET : Tried merging multiple devices together and failed. vProps={ndevs=2, devs=[0 1 0 0]}. Set "
         "NCCL_NET_MERGE_LEVEL=LOC to disable NIC fusion.",
         "NCCL could not fuse HCA ports"},
        {"Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_0:1, curr state INIT, next state "
         "RTR, "
         "local GID index 2, local GID ::ffff:10.0.0.1, remote GID ::ffff:10.0.0.2, retrying 1/35 after 100 msec",
         "a queue pair could not reach its peer's GID"},
        {"NET/IB : mlx5_0:1 Got async event : port error", "a port of an HCA went down"},
        {"NET/Plugin : Plugin load returned 11 : /lib/libc.so.6: version `GLIBC_2.32' not found (required by "
         "/opt/lib/libnccl-net.so) : when loading libnccl-net.so",
         "the network plugin could not be loaded, because it needs a newer C"},
        {"NET/OFI Could not turn CUDA off, disabling GDR", "GPUDirect RDMA is off: libfabric"},
        {"NET/OFI Simple protocol alone: GDR not supported", "GPUDirect RDMA is off: libfabric"},
    };
    for (const auto& one : cases) {
        EXPECT_EQ(cause_of(one.text, false).find(one.begin), 0U) << one.text << ": " << cause_of(one.text, false);
    }
}

TEST(NcclLogCauses, Warnings) {
    const Case cases[] = {
        {"NET/IB : Unable to open device mlx5_0", "an RDMA device could not be opened"},
        {"NET/IB : Unable to query device mlx5_0", "an RDMA device could not be queried"},
        {"Bootstrap : no socket interface found", "no network interface fits NCCL_SOCKET_IFNAME"},
        {"NET/IB : No IP interface found.", "no network interface fits NCCL_SOCKET_IFNAME"},
        {"Error: network IB not found.", "the network that NCCL_NET"},
        {"Failed to initialize any NET plugin", "the network that NCCL_NET"},
        {"socketFinalizeAccept from 10.0.0.2<45678>: wrong type 3 != 4", "some nodes chose RDMA and others sockets"},
        {"Call to ibv_reg_mr failed with error Cannot allocate memory", "memory could not be registered"},
        {"Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory errno 12",
         "memory could not be registered"},
        {"Call to ibv_create_qp failed with error Cannot allocate memory", "memory could not be registered"},
        {"Call to ibv_create_cq failed with error Cannot allocate memory", "memory could not be registered"},
        {"Call to ibv_reg_mr failed with error Bad address errno 14", "the GPU's memory could not be registered"},
        {"Call to ibv_query_gid failed with error Invalid argument errno 22", "NCCL_IB_GID_INDEX is beyond"},
        {"open failed in ncclIbRoceGetVersionNum: No such file or directory", "the RoCE version of a GID"},
        {"NET/IB : Attempted to connect incompatible devices: [0]mlx5_0:1/RoCE and ...", "InfiniBand and RoCE ports"},
        {"NET/IB : Remote mlx5_0:1/IB device is incompatible with the local [0]mlx5_1:1/RoCE", "InfiniBand and RoCE"},
        {"Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 17000", "two ranks use the same GPU"},
        {"Mismatched NCCL version detected : rank 0 version 22105 rank 1 version 22203",
         "ranks have different versions"},
        {"Error while creating shared memory segment /dev/shm/nccl-x (size 9637888)", "/dev/shm is full"},
        {"Call to posix_fallocate failed: No space left on device for shared memory", ""},
        {"Net : Call to connect to 10.0.0.2<4711> failed : Connection refused",
         "ranks could not connect over TCP (Conn"},
        {"socketPollConnect: Connect to 10.0.0.2<4711> failed, No route to host",
         "ranks could not connect over TCP (No r"},
        {"socketStartConnect: Connect to 10.0.0.2<4711> failed : Connection timed out",
         "ranks could not connect over TCP (t"},
        {"Call to ibv_modify_qp failed with error Connection timed out", "a queue pair could not reach its peer's GID"},
        {"Call to ibv_modify_qp failed with error Connection timed out errno 110", "a queue pair could not reach"},
        {"Call to ibv_modify_qp failed with error No such device errno 19", "a queue pair got a GID without a network"},
        {"Call to ibv_modify_qp failed with error No such device", "a queue pair got a GID without a network"},
        {"Call to ibv_modify_qp failed with 22 Invalid argument, on dev mlx5_0:1, curr state INIT, next state RTR, "
         "local "
         "GID index 3, local GID ::ffff:10.0.0.1, remote GID fe80::1",
         "a queue pair's GID does not fit"},
        {"Call to ibv_modify_qp failed with 101 Network is unreachable, on dev x:1",
         "a queue pair has no route to its peer's "
         "GID (Network"},
        {"Call to ibv_modify_qp failed with 113 No route to host, on dev x:1",
         "a queue pair has no route to its peer's GID (No"},
        {"Call to ibv_modify_qp failed with 12 Cannot allocate memory, on dev x:1", "memory could not be registered"},
        {"Call to ibv_modify_qp failed with 5 Input/output error, on dev x:1", "a queue pair could not be connected"},
        {"Call to ibv_modify_qp failed with error Input/output error", "a queue pair could not be connected"},
        {"NET/IB : Got completion from peer 10.0.0.2<4711> with error 12, opcode 0, len 0, vendor err 129",
         "a peer did not "
         "answer"},
        {"NET/IB : Got completion from peer 10.0.0.2<4711> with status=12 opcode=0 len=0 vendor err 129 (Send) "
         "localGid "
         "::ffff:10.0.0.1 remoteGids::ffff:10.0.0.2 hca mlx5_0",
         "a peer did not answer"},
        {"NET/IB: Got completion from peer 10.0.0.2<4711> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_SEND(0) "
         "vendor_err=129",
         "a peer did not answer"},
        {"NET/IB : Got completion from peer 10.0.0.2<4711> with status=13 opcode=0", "a peer was not ready"},
        {"NET/IB : Got completion from peer 10.0.0.2<4711> with status=4 opcode=0", "memory was not registered as"},
        {"NET/IB : Got completion from peer 10.0.0.2<4711> with status=10 opcode=0", "a peer's memory could not be"},
        {"NET/IB : Got completion from peer 10.0.0.2<4711> with status=9 opcode=0", "a peer refused a transfer"},
        {"NET/IB : Got completion from peer 10.0.0.2<4711> with status=11 opcode=0", "a transfer over RDMA failed"},
        {"NET/IB : Got async event : local access violation work queue error", "a queue pair of an HCA failed"},
        {"NET/IB : Got async event : local catastrophic error", "an HCA reported a fatal error"},
        {"NET/IB : Got async event : CQ error", "an HCA reported a fatal error"},
        {"NET/IB : Got completion from peer 10.0.0.2<4711> with status=", "a transfer over RDMA failed"},
        {"NET/IB : Got completion from peer 10.0.0.2<4711> with status=5 opcode=0 len=0", "a transfer was given up"},
        {"NET/IB : Got completion from peer 10.0.0.2<4711> with status=IBV_WC_WR_FLUSH_ERR(5) opcode=0",
         "a transfer was given up"},
        {"NET/IB/GIN: Got completion from peer 10.0.0.2<4711> with status=12 opcode=0 len=0", "a peer did not answer"},
        {"NET/IB : mlx5_0:1 async fatal event: device fatal error", "an HCA reported a fatal error"},
        {"NET/IB : mlx5_0:1 async fatal event on QP (0x7f): local work queue catastrophic error",
         "an HCA reported a fatal error"},
        {"NET/IB : mlx5_0:1 Got async fatal event: device fatal error", "an HCA reported a fatal error"},
        {"NET/IB : mlx5_0:1 Got async error event: port error", "a port of an HCA went down"},
        {"NET/IB : mlx5_0:1 GID table changed", "a GID table changed"},
        {"dlvsym failed on ibv_get_device_list - /usr/lib/libibverbs.so.1: undefined symbol: ibv_get_device_list, "
         "version "
         "IBVERBS_1.1 version IBVERBS_1.1",
         "libibverbs lacks a symbol"},
        {"dlvsym failed on mlx5dv_is_supported - /usr/lib/libmlx5.so.1: undefined symbol: mlx5dv_is_supported, version "
         "MLX5_1.8 version MLX5_1.8",
         "libmlx5 lacks a symbol"},
        {"Fusing NET devices from different NUMA domains is not supported.", "NCCL cannot fuse HCA ports of different"},
        {"TOPO/NET : Could not force merge NICs mlx5_0,mlx5_9. Please specify a valid NCCL_NET_FORCE_MERGE string.",
         "NCCL_NET_FORCE_MERGE names ports"},
        {"TOPO/NET : Only matched 1 devices, 2 requested from mlx5_0,mlx5_9", "NCCL_NET_FORCE_MERGE names ports"},
        {"NET/IB : Attempted to merge incompatible devices: [0]mlx5_0:1/RoCE and [1]mlx5_1:1/IB. Try selecting",
         "NCCL cannot fuse an InfiniBand and a RoCE port"},
        {"DOCA failure 21", "GPU-initiated networking over DOCA failed"},
        {"DOCA Error 21", "GPU-initiated networking over DOCA failed"},
        {"GIN Error on gin context 0", "GPU-initiated networking over DOCA failed"},
        {"No GIN-capable devices found.", "GPU-initiated networking is asked for"},
        {"Unable to use GIN: Peermem is not supported, and device 0 does not support DMA-BUF.",
         "GPU-initiated networking is asked for"},
        {"User requested GIN but not all ranks in the communicator support GIN", "GPU-initiated networking is asked"},
        {"NET/OFI Couldn't find any optimal provider", "libfabric has no provider"},
        {"NET/OFI OFI fi_getinfo() call failed: No data available", "libfabric has no provider"},
        {"NET/OFI Only EFA provider is supported", "the OFI plugin is built for EFA alone"},
        {"NET/OFI Couldn't open a fabric access domain. RC: -38, ERROR: Function not implemented",
         "the OFI plugin could not open an adapter"},
        {"NET/OFI Request 0x7f completed with error. RC: 5. Error: 4107 (unreachable). Completed length: 0",
         "a transfer over libfabric failed"},
        {"NET/OFI Unable to find a protocol that worked.  Failing initialization.", "the OFI plugin could not start"},
        {"NET/OFI aws-ofi-nccl initialization failed", "the OFI plugin could not start"},
        {"NET/OFI Failed to initialize rdma protocol", "the OFI plugin could not start"},
        {"communicator encountered a fatal error (detected in ncclIbTest)", "a communicator ended"},
        {"socketProgress: Connection closed by remote peer n02<4711>", "a peer closed its connection"},
        {"NET/IB : mlx5_0:1 Got non-fatal async event: port error(10)", "a port of an HCA went down"},
        {"NET/IB : mlx5_0:1 Got non-fatal async event: GID table change(18)", "a GID table changed"},
        {"Call to ibv_create_cq failed", "an HCA's queues could not be created"},
        {"Call to ibv_create_qp failed", "an HCA's queues could not be created"},
        {"Call to ibv_create_qp failed with error Invalid argument errno 22", "a call of libibverbs failed"},
        {"Call to ibv_post_send failed with error Invalid argument errno 22", "a call of libibverbs failed"},
        {"Call to ibv_alloc_pd failed", "a call of libibverbs failed"},
        {"Call to ibv_query_port failed with error Invalid argument errno 22", "an RDMA device could not be queried"},
        {"Call to ibv_dealloc_pd failed with error Device or resource busy errno 16", ""},
        {"NET/OFI Unable to register memory (type = 1) for device 3. RC: -12", "the OFI plugin could not register"},
        {"Failed: UCX error plugin.c:1 '-3' Timed out", "the UCX plugin failed"},
    };
    for (const auto& one : cases) {
        const auto cause = cause_of(one.text, true);
        EXPECT_EQ(cause.find(one.begin), 0U) << one.text << ": " << cause;
        EXPECT_EQ(cause.empty(), std::string(one.begin).empty()) << one.text << ": " << cause;
    }
}

TEST(NcclLogCauses, MostIsNoFault) {
    for (const char* text :
         {"", "NCCL_IB_DISABLE set by environment to 0.", "NCCL_IB_DISABLE set by environment to ",
          "NCCL_IB_DISABLE set by environment", "NCCL_NET set by environment to IB.",
          "NCCL_NET set by environment to S", "NCCL_SOCKET_IFNAME set by environment to Socket",
          "dlvsym failed on mlx5dv_get_data_direct_sysfs_path",
          "NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin.",
          "NET/Plugin : No plugin found (libnccl-net.so), using internal implementation", "Using network Socket",
          "NET/IB : Using [RO]; OOB eth0:10.0.0.1<0>", "NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'",
          "NET/Socket : GPU Direct RDMA Disabled for HCA 0 'eth0'",
          "GPU Direct RDMA Enabled for GPU 17000 / HCA 0 (distance 4 <= 5), read 1",
          "NET/IB : mlx5_0:1 Got non-fatal async event: port active(9)",
          "NET/IB : mlx5_0:1 Got async event : client "
          "reregistration",
          "Cuda failure 'out of memory'", "Missing \"iommu=pt\" from kernel command line"}) {
        EXPECT_EQ(cause_of(text, false), "") << text;
        EXPECT_EQ(cause_of(text, true), "") << text;
    }
    // A user's text in a message of information is no warning.
    EXPECT_EQ(cause_of("Duplicate GPU detected", false), "");
}

TEST(NcclLogCauses, WhatIsRefutedOrExplainedIsNotSaid) {
    const auto causes = [](const std::string& lines) {
        std::string text;
        for (const auto line : split(lines, '|')) {
            text += "n01:1:1 [0] NCCL INFO " + std::string(line) + "\n";
        }
        return test::read_log(text).processes.at(0).causes.size();
    };
    const std::string no_peer_memory = "NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'|";
    EXPECT_EQ(causes(no_peer_memory + "Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0"), 1U);
    EXPECT_EQ(causes(no_peer_memory + "Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA"), 0U); // by DMA-BUF
    const std::string no_libfabric = "NET/OFI Could not do it, disabling GDR|";
    EXPECT_EQ(causes(no_libfabric + "Channel 00/0 : 0[0] -> 8[0] [send] via NET/Libfabric/0"), 1U);
    EXPECT_EQ(causes(no_libfabric + "Channel 00/0 : 0[0] -> 8[0] [send] via NET/Libfabric/0/GDRDMA"), 0U);
    EXPECT_EQ(causes("Failed to initialize NET plugin IB"), 1U);
    EXPECT_EQ(causes("NET/IB : No device found.|Failed to initialize NET plugin IB"), 1U);
}

TEST(NcclLogCauses, KnownIsMoreThanAFault) {
    for (const char* text :
         {"dlvsym failed on mlx5dv_get_data_direct_sysfs_path - /usr/lib/libmlx5.so.1: undefined symbol",
          "ANP plugin loaded successfully with telemetry disabled : /opt/librccl-anp.so",
          "Missing \"iommu=pt\" from kernel command line",
          "NET/IB : mlx5_0:1 Got non-fatal async event: port active(9)"}) {
        EXPECT_EQ(nccl_cause(text, true), "") << text;
    }
    for (const char* text : {"Cuda failure 'out of memory'", "NCCL_GIN_SIGNAL_POOL_SIZE has invalid value.", ""}) {
        EXPECT_FALSE(nccl_cause(text, true)) << text;
    }
}

TEST(NcclLogCauses, TooFarIsSaidWhereItCost) {
    const auto causes = [](const std::string& connection) {
        return test::read_log("n01:1:1 [0] NCCL INFO GPU Direct RDMA Disabled for GPU 0 / HCA 1 (distance 9 > 5)\n"
                              "n01:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/" +
                              connection + "\n")
            .processes.at(0)
            .causes.size();
    };
    EXPECT_EQ(causes("0/GDRDMA"), 0U);
    EXPECT_EQ(causes("1"), 1U);
}

TEST(NcclLogCauses, ConsequencesGiveWayToWhatExplainsThem) {
    const std::string left(*nccl_cause("Connection closed by remote peer", true));
    const std::string lost(*nccl_cause("Got completion from peer x with status=12", true));
    NcclCauses causes = {{left, 7}, {lost, 1}};
    drop_consequences(causes);
    EXPECT_EQ(causes, (NcclCauses{{lost, 1}}));
    const std::string plugin(*nccl_cause("NET/OFI aws-ofi-nccl initialization failed", true));
    causes = {{plugin, 1}, {std::string(*nccl_cause("NET/IB : No device found.", false)), 1}};
    drop_consequences(causes);
    EXPECT_EQ(causes, (NcclCauses{{plugin, 1}})); // EFA has no such device
    causes = {{left, 7}, {std::string(no_peer_memory_cause), 1}};
    drop_consequences(causes);
    EXPECT_EQ(causes.size(), 2U); // a slow path closes no connection
}

TEST(NcclLogCauses, AnUnknownWarningExplainsConsequences) {
    const auto causes = [](const std::string& lines) {
        std::string text;
        for (const auto line : split(lines, '|')) {
            text += "\nn01:1:1 [0] x.cc:1 NCCL WARN " + std::string(line) + "\n";
        }
        return summary(test::read_log(text)).causes;
    };
    using Texts = std::vector<std::string>;
    const Texts quote = {"NCCL's last warning: Odd state"};
    EXPECT_EQ(causes("Odd state|Connection closed by remote peer n02<4711>"), quote);
    EXPECT_EQ(causes("Odd state|Socket recv failed while polling for opId=0x7f01"), quote);
    EXPECT_EQ(causes("Odd state|Proxy Call to rank 3 failed (Connect)"), quote);
    EXPECT_EQ(causes("Odd state|NET/OFI Failed to initialize it").size(), 2U);
    EXPECT_EQ(causes("Duplicate GPU detected|[Proxy Service 1] Failed to execute operation Connect").size(), 1U);
    EXPECT_EQ(causes("Proxy Call to rank 3 failed (Connect)"),
              Texts{"NCCL's last warning: Proxy Call to rank 3 failed (Connect)"});
}

TEST(NcclLogCauses, APluginThatFailedComesBeforeASetting) {
    const auto causes =
        summary(test::read_log("n01:1:1 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 1.\n"
                               "n01:2:2 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 1.\n"
                               "n01:1:1 [0] open_it:7 NCCL WARN NET/OFI Couldn't open a domain. RC: -38\n"))
            .causes;
    ASSERT_EQ(causes.size(), 2U);
    EXPECT_EQ(causes[0].find("the OFI plugin could not open"), 0U);
}

TEST(NcclLogCauses, ASlowPathOutOfTheNodeIsNoMatterInsideOne) {
    const auto causes = [](const std::string& nodes) {
        return summary(test::read_log("n01:1:1 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'\n"
                                      "n01:1:1 [0] NCCL INFO comm 0x1 rank 0 nRanks 4 nNodes " +
                                      nodes + " localRanks 2 localRank 0\n"))
            .causes.size();
    };
    EXPECT_EQ(causes("1"), 0U);
    EXPECT_EQ(causes("2"), 1U);
}

TEST(NcclLogCauses, WhatEndsRdma) {
    for (const char* text :
         {"Got completion from peer x with status=12", "Got completion from peer x with status=5",
          "Got completion from peer x with status=99", "NET/OFI Request 0x7f completed with error. RC: 5. Error: 4107",
          "Call to ibv_modify_qp failed with 110 Connection timed out",
          "NET/IB : mlx5_0:1 async fatal event: device fatal error",
          "Call to ibv_reg_mr failed with error Cannot allocate memory", "Call to ibv_create_cq failed",
          "Call to ibv_post_recv failed with error Bad address errno 14", "Failed: UCX error plugin.c:1 '-3' Timed out",
          "NET/OFI Unable to register memory (type = 1) for device 3. RC: -12"}) {
        EXPECT_TRUE(ends_rdma(*nccl_cause(text, true))) << text;
    }
    for (const char* text : {"NET/IB : mlx5_0:1 Got non-fatal async event: port error(10)", "Duplicate GPU detected",
                             "Connection closed by remote peer", "Call to ibv_query_gid failed",
                             "Call to ibv_destroy_qp failed with error Device or resource busy errno 16"}) {
        EXPECT_FALSE(ends_rdma(*nccl_cause(text, true))) << text;
    }
}

} // namespace
} // namespace rdma_nccl
