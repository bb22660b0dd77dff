// SPDX-License-Identifier: Apache-2.0
#include "lib/topology/gpu_links.h"

#include "lib/base/format.h"
#include "lib/fabric/readers.h"
#include "tests/unit/fake_nvml.h"
#include "tests/unit/tree.h"

#include <chrono>
#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace rdma_nccl {
namespace {

using namespace std::chrono_literals;

Gpu amd_gpu(unsigned node, const std::string& pci) {
    Gpu gpu;
    gpu.vendor = "amd";
    gpu.pci = pci;
    gpu.kfd_node = node;
    return gpu;
}

Gpu nvidia_gpu(const std::string& pci) {
    Gpu gpu;
    gpu.vendor = "nvidia";
    gpu.pci = pci;
    return gpu;
}

void add_link(test::Tree& tree, unsigned from, unsigned to, unsigned type) {
    tree.file(format_text("{}/{}/io_links/{}/properties", kfd_nodes, from, to),
              format_text("type {}\nversion_major 0\nnode_from {}\nnode_to {}\nweight 15\n", type, from, to));
}

constexpr unsigned pcie = 2;
constexpr unsigned xgmi = 11;

TEST(GpuLinks, AreTheXgmiThatKfdTells) {
    test::Tree tree;
    add_link(tree, 1, 0, pcie); // to the CPU
    add_link(tree, 1, 2, xgmi);
    add_link(tree, 2, 1, xgmi);
    add_link(tree, 1, 3, pcie);
    add_link(tree, 2, 9, xgmi); // to a GPU that is not visible
    Topology topology;
    const std::vector<Gpu> gpus = {amd_gpu(1, "0000:33:00.0"), amd_gpu(2, "0000:13:00.0"), amd_gpu(3, "0000:23:00.0")};
    topology.gpu_links = read_gpu_links(tree.root(), gpus, 1s);
    ASSERT_EQ(topology.gpu_links.size(), 1U);
    EXPECT_EQ(GpuLinks(topology).between(gpus[0].pci, gpus[1].pci)->word(), "XGMI");
    EXPECT_EQ(GpuLinks(topology).between(gpus[1].pci, gpus[0].pci)->word(), "XGMI");
    EXPECT_FALSE(GpuLinks(topology).between(gpus[0].pci, gpus[2].pci));
}

TEST(GpuLinks, OfPartitionsAreThoseOfTheirCards) {
    test::Tree tree;
    const std::vector<Gpu> gpus = {amd_gpu(1, "0000:13:00.0"), amd_gpu(2, "0000:13:00.0"), amd_gpu(3, "0000:23:00.0"),
                                   amd_gpu(4, "0000:23:00.0")};
    for (unsigned from = 1; from <= 4; ++from) {
        for (unsigned to = 1; to <= 4; ++to) {
            add_link(tree, from, to, xgmi);
        }
    }
    const auto links = read_gpu_links(tree.root(), gpus, 1s);
    ASSERT_EQ(links.size(), 1U);
    EXPECT_EQ(links[0].gpu, "0000:13:00.0");
    EXPECT_EQ(links[0].peer, "0000:23:00.0");
}

TEST(GpuLinks, AreFoundInEitherDirectionTheMostThatAnEndTells) {
    Topology topology;
    topology.gpu_links = {{"a", "b", GpuLink::Kind::NvLink, 2}, {"b", "a", GpuLink::Kind::NvLink, 4},
                          {"c", "b", GpuLink::Kind::NvLink, 1}, {"a", "", GpuLink::Kind::NvLink, 3},
                          {"a", "", GpuLink::Kind::NvLink, 3},  {"b", "", GpuLink::Kind::NvLink, 9},
                          {"c", "", GpuLink::Kind::NvLink, 5},  {"d", "", GpuLink::Kind::NvLink, 0}};
    const GpuLinks links(topology);
    const auto word = [&](const char* gpu, const char* peer) {
        const auto link = links.between(gpu, peer);
        return link ? link->word() : "";
    };
    EXPECT_EQ(word("a", "b"), "NV4");
    EXPECT_EQ(word("b", "a"), "NV4");
    EXPECT_EQ(word("b", "c"), "NV1"); // direct ones come before those to switches
    EXPECT_EQ(word("c", "a"), "NV5"); // the fewer; a has six to two switches
    EXPECT_EQ(word("a", "d"), "");
    EXPECT_EQ(word("a", "a"), ""); // parts of one GPU
    EXPECT_EQ(word("a", "e"), "");
}

TEST(GpuLinks, OfNvidiaAreNotReadOfAnotherMachine) {
    test::Tree tree;
    EXPECT_TRUE(read_gpu_links(tree.root(), std::vector{nvidia_gpu("0000:13:00.0")}, 1s).empty());
    EXPECT_TRUE(read_gpu_links(tree.root(), {}, 1s).empty());
}

class NvLinks : public testing::Test {
protected:
    static void SetUpTestSuite() { ASSERT_EQ(test::load_fake_nvml(), ""); }

    static Topology with_links(const std::vector<Gpu>& gpus, std::chrono::milliseconds limit = 10s) {
        Topology topology;
        topology.gpu_links = read_gpu_links(SysRoot::open("/").value(), gpus, limit);
        return topology;
    }
};

TEST_F(NvLinks, AreCountedBetweenGpus) {
    const auto topology = with_links({nvidia_gpu("0000:1b:00.0"), nvidia_gpu("0000:43:00.0")});
    const auto link = GpuLinks(topology).between("0000:43:00.0", "0000:1b:00.0");
    ASSERT_TRUE(link);
    EXPECT_EQ(link->word(), "NV2"); // a third is down, and a fourth leads to the CPU
}

TEST_F(NvLinks, ThroughSwitchesConnectAllThatHaveThem) {
    const auto topology = with_links({nvidia_gpu("0000:1b:00.0"), nvidia_gpu("0000:52:00.0"),
                                      nvidia_gpu("0000:9d:00.0"), nvidia_gpu("0000:a0:00.0")});
    ASSERT_TRUE(GpuLinks(topology).between("0000:52:00.0", "0000:9d:00.0"));
    EXPECT_EQ(GpuLinks(topology).between("0000:52:00.0", "0000:9d:00.0")->word(), "NV3"); // the fewer
    EXPECT_FALSE(GpuLinks(topology).between("0000:52:00.0", "0000:1b:00.0"));
    EXPECT_FALSE(GpuLinks(topology).between("0000:52:00.0", "0000:a0:00.0")); // NVML does not know it
}

TEST_F(NvLinks, OfAFabricHaveItsStateDomainAndClique) {
    const std::vector gpus = {nvidia_gpu("0000:1b:00.0"), nvidia_gpu("0000:52:00.0"), nvidia_gpu("0000:9d:00.0"),
                              nvidia_gpu("0000:a0:00.0")};
    const auto fabrics = read_gpu_fabrics(gpus, 10s).value();
    ASSERT_EQ(fabrics.size(), 2U); // the first one has none, and NVML does not know the last one
    EXPECT_EQ(fabrics[0].gpu, "0000:52:00.0");
    EXPECT_EQ(fabrics[0].state, GpuFabric::State::Joining);
    EXPECT_EQ(fabrics[0].domain, "");
    EXPECT_EQ(fabrics[1].state, GpuFabric::State::Joined);
    EXPECT_EQ(fabrics[1].error, 0U);
    EXPECT_EQ(fabrics[1].domain, "5a0102030405060708090a0b0c0d0e0f");
    EXPECT_EQ(fabrics[1].clique, 7U);
    EXPECT_EQ(fabrics[1].health, 0xaaU);
    EXPECT_FALSE(read_gpu_fabrics(std::vector{nvidia_gpu("0000:9d:00.0"), nvidia_gpu("0000:ff:00.0")}, 50ms));
}

TEST(GpuFabric, HasACliqueOnceItHasJoinedNodes) {
    GpuFabric gpu{"0000:9d:00.0", "5a01", 7, GpuFabric::State::Joined, 0, 0};
    EXPECT_EQ(clique_of(gpu), "clique 7 of NVLink domain 5a01");
    gpu.error = 15;
    EXPECT_EQ(clique_of(gpu), "");
    gpu = {"0000:9d:00.0", "5a01", 7, GpuFabric::State::Joining, 0, 0};
    EXPECT_EQ(clique_of(gpu), "");
    gpu = {"0000:9d:00.0", "", 0, GpuFabric::State::Joined, 0, 0};
    EXPECT_EQ(clique_of(gpu), "") << "its fabric ends at the node";
}

TEST(GpuFabric, CliquesOfANodeAreNamedOnce) {
    const GpuFabric joining{"0000:52:00.0", "", 0, GpuFabric::State::Joining, 0, 0};
    const GpuFabric one{"0000:9d:00.0", "5a01", 7, GpuFabric::State::Joined, 0, 0};
    const GpuFabric other{"0000:c1:00.0", "5a01", 2, GpuFabric::State::Joined, 0, 0};
    EXPECT_EQ(cliques_of({}), "");
    EXPECT_EQ(cliques_of(std::vector{joining, joining}), "");
    EXPECT_EQ(cliques_of(std::vector{one, joining, one}), "clique 7 of NVLink domain 5a01");
    EXPECT_EQ(cliques_of(std::vector{one, other, one}),
              "clique 2 of NVLink domain 5a01, clique 7 of NVLink domain 5a01");
}

TEST_F(NvLinks, MayCrossNodesUnlessNvmlSaysThatThereIsNoClique) {
    const auto may_cross = [](const std::vector<Gpu>& gpus, std::chrono::milliseconds limit = 10s) {
        return may_cross_nodes(ask_gpu_fabrics(gpus).finish(std::chrono::steady_clock::now() + limit));
    };
    EXPECT_TRUE(may_cross({nvidia_gpu("0000:1b:00.0"), nvidia_gpu("0000:9d:00.0")}));
    EXPECT_FALSE(may_cross({nvidia_gpu("0000:52:00.0")})) << "it is in none";
    EXPECT_TRUE(may_cross({nvidia_gpu("0000:01:00.0")})) << "NVML does not know it";
    EXPECT_TRUE(may_cross({nvidia_gpu("0000:c1:00.0")})) << "NVML does not know of its fabric";
    EXPECT_FALSE(may_cross({nvidia_gpu("0000:c1:00.0"), nvidia_gpu("0000:52:00.0")})) << "it knows of one";
    EXPECT_FALSE(may_cross({nvidia_gpu("0000:c2:00.0")})) << "it has no fabric";
    EXPECT_TRUE(may_cross({nvidia_gpu("0000:ff:00.0")}, 50ms)) << "it does not answer";
}

TEST_F(NvLinks, AreUnknownWhereTheDriverHangs) {
    EXPECT_TRUE(with_links({nvidia_gpu("0000:52:00.0"), nvidia_gpu("0000:ff:00.0")}, 50ms).gpu_links.empty());
}

} // namespace
} // namespace rdma_nccl
