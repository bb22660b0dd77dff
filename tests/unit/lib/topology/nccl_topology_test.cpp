// SPDX-License-Identifier: Apache-2.0
// Machines as NCCL describes them (tests/data/topology/README.md), and files of which nothing can be read.
#include "lib/topology/xml.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "tests/unit/tree.h"

#include <gtest/gtest.h>
#include <stdexcept>
#include <string>
#include <sys/stat.h>
#include <vector>

namespace rdma_nccl {
namespace {

XmlMachine machine(const std::string& name) {
    auto read = read_topology_xml("tests/data/topology/nccl/" + name + ".xml");
    if (!read) {
        throw std::runtime_error(read.error().message);
    }
    return std::move(*read);
}

XmlMachine parsed(const std::string& text) {
    auto read = read_nccl_xml(text);
    if (!read) {
        throw std::runtime_error(read.error().message);
    }
    return std::move(*read);
}

std::string problem_of(const std::string& text) {
    const auto read = read_xml(text);
    return read ? "" : read.error().message;
}

/// A machine with these devices below the cpu of NUMA node 0.
std::string system_of(const std::string& devices) {
    return "<system version=\"1\"><cpu numaid=\"0\" affinity=\"000000ff\">" + devices + "</cpu></system>";
}

/// The words of the distances from GPU `gpu` to the GPUs and then to the HCAs.
std::string words_of(const XmlMachine& machine, std::size_t gpu) {
    const auto place = place_of(machine.fabric.gpus.at(gpu), machine.topology);
    std::vector<Place> others;
    for (const auto& other : machine.fabric.gpus) {
        others.push_back(place_of(other, machine.topology));
    }
    for (const auto& hca : machine.fabric.hcas) {
        others.push_back(place_of(hca, machine.topology));
    }
    const Distances distances(machine.topology);
    return joined(mapped(others, [&](const Place& other) { return distance_word(distances.between(place, other)); }),
                  " ");
}

TEST(NcclTopology, HasTheDevicesOfTheFile) {
    const auto h100 = machine("h100-two-ports");
    EXPECT_EQ(h100.topology.packages, 0U);
    ASSERT_EQ(h100.topology.numa_nodes.size(), 2U);
    EXPECT_EQ(h100.topology.numa_nodes[0].cpus.list(), "0-47,96-143");
    EXPECT_EQ(h100.topology.numa_nodes[1].cpus.list(), "48-95,144-191");
    EXPECT_EQ(h100.topology.cores.size(), 192U);
    ASSERT_EQ(h100.fabric.gpus.size(), 8U);
    EXPECT_EQ(h100.fabric.gpus[4].pci, "0000:98:00.0");
    EXPECT_EQ(h100.fabric.gpus[4].vendor, "nvidia");
    EXPECT_EQ(h100.fabric.gpus[4].numa_node, 1);
    EXPECT_EQ(h100.fabric.gpus[4].local_cpus.list(), "48-95,144-191");
    ASSERT_EQ(h100.fabric.hcas.size(), 16U);
    EXPECT_EQ(h100.fabric.hcas[9].name, "mlx5_9");
    EXPECT_EQ(h100.fabric.hcas[9].pci, "0000:97:00.1");
    EXPECT_EQ(h100.name, "h100-two-ports.xml");
    EXPECT_TRUE(h100.notes.empty());
}

TEST(NcclTopology, APortHasItsOwnNumberNotNcclsOnTheCard) {
    const auto h100 = machine("h100-two-ports");
    for (const auto& hca : h100.fabric.hcas) { // port="2" in the file of every other one
        ASSERT_EQ(hca.ports.size(), 1U) << hca.name;
        EXPECT_EQ(hca.ports[0].number, 1U) << hca.name;
        EXPECT_EQ(hca.ports[0].state, "ACTIVE");
        EXPECT_EQ(hca.ports[0].rate_gbps, 200);
    }
}

TEST(NcclTopology, DistancesAreThoseOfTheTree) {
    EXPECT_EQ(words_of(machine("h100-two-ports"), 1),
              "NODE PIX NODE NODE SYS SYS SYS SYS "
              "NODE NODE PIX PIX NODE NODE NODE NODE SYS SYS SYS SYS SYS SYS SYS SYS");
    EXPECT_EQ(words_of(machine("mi300x-rccl"), 0), "PIX NODE SYS SYS NODE PXB SYS SYS"); // a switch of the card's own
    EXPECT_EQ(words_of(machine("vm-two-switches"), 3), "SYS SYS PIX PIX SYS SYS PIX PIX");
}

TEST(NcclTopology, GpusAreInTheOrderOfTheRuntime) {
    const auto mi300x = machine("mi300x-rccl");
    ASSERT_EQ(mi300x.fabric.gpus.size(), 4U);
    EXPECT_EQ(mi300x.fabric.gpus[0].pci, "0000:2c:00.0");
    EXPECT_EQ(mi300x.fabric.gpus[1].pci, "0000:0c:00.0");
    EXPECT_EQ(mi300x.fabric.gpus[0].vendor, "amd");
}

TEST(NcclTopology, LinksAreSummedOverSwitches) {
    const auto h100 = machine("h100-two-ports");
    const auto link = GpuLinks(h100.topology).between("0000:18:00.0", "0000:ec:00.0");
    ASSERT_TRUE(link);
    EXPECT_EQ(link->word(), "NV18");
    EXPECT_FALSE(GpuLinks(h100.topology).between("0000:18:00.0", "0000:19:00.0"));

    const auto direct = machine("two-gpus-sockets").topology;
    EXPECT_EQ(GpuLinks(direct).between("0000:5e:00.0", "0000:3b:00.0").value_or(GpuLink()).word(), "NV4");

    const auto xgmi = GpuLinks(machine("mi300x-rccl").topology).between("0000:0c:00.0", "0000:6c:00.0");
    EXPECT_EQ(xgmi.value_or(GpuLink()).word(), "XGMI");
}

TEST(NcclTopology, WhatNcclFindsItselfMayBeMissing) {
    const auto vm = machine("vm-two-switches");
    EXPECT_EQ(vm.fabric.gpus.size(), 4U);
    ASSERT_EQ(vm.fabric.hcas.size(), 4U);
    EXPECT_EQ(vm.fabric.hcas[0].name, "0101:00:00.0");
    ASSERT_EQ(vm.notes.size(), 1U);
    EXPECT_EQ(vm.notes[0], "the file does not name 4 NICs: shown by PCI address");

    const auto bare = parsed(system_of("<pci busid=\"0000:45:00.0\"><pci busid=\"0000:4F:00.0\"/></pci>"));
    ASSERT_EQ(bare.notes.size(), 1U);
    EXPECT_EQ(bare.notes[0], "the file does not tell what 1 PCI device are: left out");
}

TEST(NcclTopology, GpusOfOthersAreNotAmds) {
    const auto vendor = [](const std::string& attributes, const std::string& gpu) {
        const auto read = parsed(
            system_of("<pci busid=\"0000:45:00.0\" class=\"0x120000\" " + attributes + "><gpu " + gpu + "/></pci>"));
        EXPECT_EQ(read.gpu_ids.size(), 1U) << attributes;
        return read.fabric.gpus.at(0).vendor;
    };
    EXPECT_EQ(vendor("vendor=\"0x1d94\"", "dev=\"0\" gcn=\"gfx936\""), "") << "Hygon's";
    EXPECT_EQ(vendor("vendor=\"0x1002\"", "dev=\"0\" gcn=\"gfx942\""), "amd");
    EXPECT_EQ(vendor("", "dev=\"0\" gcn=\"gfx942\""), "amd");
    EXPECT_EQ(vendor("vendor=\"0x10de\"", "dev=\"0\""), "nvidia");
}

TEST(NcclTopology, InterfacesForSocketsAreNoHcas) {
    const auto sockets = machine("two-gpus-sockets");
    EXPECT_TRUE(sockets.fabric.hcas.empty());
    ASSERT_EQ(sockets.fabric.netdevs.size(), 2U);
    EXPECT_EQ(sockets.fabric.netdevs[0].name, "ens3f0");
    EXPECT_TRUE(sockets.fabric.netdevs[0].pci_path.ends_with("/0000:18:00.0"));
    EXPECT_EQ(sockets.fabric.netdevs[1].pci_path, ""); // directly below the cpu: no PCI device
}

/// The OFI plugin numbers Slingshot's adapters too.
TEST(NcclTopology, ANumberForAGuidDoesNotMakeAnAdapterWithGpuDirectAnInterface) {
    const auto slingshot =
        parsed(system_of("<pci busid=\"0000:81:00.0\" class=\"0x020000\"><nic><net name=\"cxi0\" "
                         "dev=\"0\" speed=\"200000\" port=\"1\" guid=\"0x0\" gdr=\"1\"/></nic></pci>"));
    EXPECT_TRUE(slingshot.fabric.netdevs.empty());
    ASSERT_EQ(slingshot.fabric.hcas.size(), 1U);
    EXPECT_EQ(slingshot.fabric.hcas[0].name, "cxi0");
}

TEST(NcclTopology, OtherHostsAreSaidNotMixedIn) {
    const auto fused = parsed("<system version=\"1\" name=\"rack\">"
                              "<cpu host_hash=\"0x1\" numaid=\"0\" affinity=\"f\"><pci busid=\"0008:01:00.0\" "
                              "class=\"0x030200\"><gpu dev=\"0\" rank=\"0\"/></pci></cpu>"
                              "<cpu host_hash=\"0x2\" numaid=\"0\" affinity=\"f\"><pci busid=\"0008:01:00.0\" "
                              "class=\"0x030200\"><gpu dev=\"0\" rank=\"1\"/></pci></cpu></system>");
    EXPECT_EQ(fused.fabric.gpus.size(), 1U);
    EXPECT_EQ(fused.name, "rack");
    ASSERT_EQ(fused.notes.size(), 1U);
    EXPECT_EQ(fused.notes[0], "the file has 2 hosts: this is the first");
}

TEST(NcclTopology, NumaNodesWithTheSameCpusDoNotCountThemTwice) {
    const auto vm = parsed("<system version=\"1\"><cpu numaid=\"0\" affinity=\"0000ffff\"/>"
                           "<cpu numaid=\"1\" affinity=\"0000ffff\"/></system>");
    EXPECT_EQ(vm.topology.cores.size(), 16U);
    EXPECT_EQ(vm.notes.size(), 1U);
}

TEST(NcclTopology, IsKnownByItsRootElementBehindCommentsAndDeclarations) {
    EXPECT_EQ(
        problem_of("<?xml version='1.0'?>\n<!-- <topology> -->\n<system version=\"1\"><cpu numaid=\"0\"/></system>"),
        "");
    EXPECT_EQ(problem_of("<graphs version=\"1\"/>"),
              "its root element is <graphs>: neither hwloc's topology (lstopo FILE.xml) nor NCCL's "
              "(NCCL_TOPO_DUMP_FILE)");
    EXPECT_EQ(problem_of("host: n01\n").substr(0, 12), "it is no XML");
    EXPECT_EQ(problem_of("").substr(0, 12), "it is no XML");
}

TEST(NcclTopology, DamagedFilesAreErrorsThatSayWhere) {
    EXPECT_EQ(problem_of("<system version=\"1\"/>"), "there is no <cpu> in <system>");
    EXPECT_EQ(problem_of("<system><cpu numaid=\"0\"><pci busid=\"0000:07:00.0\"/>"),
              "it ends within <cpu>: it is cut off");
    EXPECT_EQ(problem_of("<system><cpu numaid=\"0\"></system>"), "</system> closes nothing: it is damaged");
    EXPECT_EQ(problem_of(system_of("<pci busid=\"../etc\" class=\"0x0302\"/>")), "busid=\"../etc\" is no PCI address");
    std::string deep = "<system>";
    for (int i = 0; i < 100; ++i) {
        deep += "<cpu numaid=\"0\">";
    }
    EXPECT_EQ(problem_of(deep), "it has more than 200000 elements, or deeper than 64");
}

TEST(NcclTopology, AsManyElementsAsAFileMayHaveAreRead) {
    constexpr std::size_t cpus = 100'000; // with <system>, the NICs below the first of them make it 199,999 elements
    constexpr std::size_t nics = 49'999;
    std::string text = "<system>";
    for (std::size_t i = 0; i < cpus; ++i) {
        text += format_text("<cpu numaid=\"{}\">", i);
        for (std::size_t nic = 0; i == 0 && nic < nics; ++nic) {
            text += format_text("<nic><net name=\"mlx5_{}\" guid=\"0x10000\"/></nic>", nic);
        }
        text += "</cpu>";
    }
    const auto large = parsed(text + "</system>");
    ASSERT_EQ(large.topology.numa_nodes.size(), cpus);
    EXPECT_EQ(large.topology.numa_nodes.back().number, cpus - 1);
    ASSERT_EQ(large.fabric.hcas.size(), nics);
    EXPECT_EQ(large.fabric.hcas.back().name, format_text("mlx5_{}", nics - 1));
}

TEST(TopologyFile, OfMoreHcasThanANodeHasIsCutAndSaysSo) {
    std::string nets;
    for (int i = 0; i < 300; ++i) {
        nets += format_text("<nic><net name=\"mlx5_{}\" guid=\"0x10000\"/></nic>", i);
    }
    test::Tree tree;
    tree.file("/many.xml", system_of(nets));
    const auto read = read_topology_xml(tree.at("/many.xml").string());
    ASSERT_TRUE(read);
    ASSERT_EQ(read->fabric.hcas.size(), 256U);
    EXPECT_EQ(read->fabric.hcas.back().name, "mlx5_255");
    EXPECT_EQ(read->notes,
              std::vector<std::string>{"the file has 300 HCAs: only the first 256 are shown, more than any node has"});
}

TEST(NcclTopology, AnyBytesAreAnErrorOrAMachine) {
    std::string text =
        system_of("<pci busid=\"0000:07:00.0\" class=\"0x030200\"><gpu dev=\"0\"><nvlink "
                  "target=\"0000:08:00.0\" count=\"99999999999\" tclass='0x0302'/></gpu></pci><pci "
                  "busid=\"0000:09:00.0\" class=\"0x02\"><nic><net name=\"a\" port=\"-1\"/></nic></pci>");
    for (std::size_t i = 0; i < text.size(); ++i) {
        for (const char c : {'<', '>', '"', '\'', '/', '=', '\0', ' '}) {
            std::string damaged = text;
            damaged[i] = c;
            (void)read_xml(damaged);
            (void)read_xml(damaged.substr(0, i));
        }
    }
    EXPECT_EQ(parsed(text).fabric.hcas.at(0).ports.at(0).number, 1U);
}

TEST(TopologyFile, MayNotBeEndless) {
    test::Tree tree;
    tree.directory("/");
    const auto fifo = tree.at("/fifo").string();
    ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
    for (const auto& path : {fifo, std::string("/dev/zero"), tree.path().string()}) {
        const auto read = read_topology_xml(path);
        ASSERT_FALSE(read) << path;
        EXPECT_EQ(read.error().message, path + ": it is no regular file, and may never end; name one");
    }
}

} // namespace
} // namespace rdma_nccl
