// SPDX-License-Identifier: Apache-2.0
// What `rdma-nccl topo` prints of the machines in tests/data/topology.
#include "config.h"
#include "lib/base/format.h"
#include "lib/base/text.h"
#include "tests/unit/tree.h"
#include "tools/topo/topo.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <stdexcept>
#include <string>
#include <vector>

namespace rdma_nccl {
namespace {

NodePlan plan_of(const std::string& path, std::size_t ranks = 0) {
    auto planned = plan_by_xml(path, Settings(), {ranks > 0 ? std::optional(ranks) : std::nullopt, ""});
    if (!planned) {
        throw std::runtime_error(planned.error().message);
    }
    return std::move(*planned);
}

/// "nccl/h100-two-ports" or "dgx-h100"
NodePlan machine(const std::string& name) {
    return plan_of("tests/data/topology/" + name + ".xml");
}

std::string text_of(const NodePlan& node) {
    return topo_text(node, node.name);
}

/// The lines of the section with this title, each with a line end.
std::string section(const std::string& text, const std::string& title) {
    const auto begin = text.find("\n" + title + "\n");
    if (begin == std::string::npos) {
        return "";
    }
    const auto first = begin + title.size() + 2;
    return text.substr(first, text.find("\n\n", first) + 1 - first);
}

TEST(TopoText, HasAtMostAHundredColumns) {
    std::size_t machines = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator("tests/data/topology")) {
        const auto name = std::filesystem::relative(entry.path(), "tests/data/topology").replace_extension("").string();
#ifndef HAVE_HWLOC
        if (!name.starts_with("nccl/")) {
            continue;
        }
#endif
        if (entry.path().extension() != ".xml") {
            continue;
        }
        ++machines;
        const auto text = text_of(machine(name));
        for (const auto line : split(text, '\n')) {
            EXPECT_LE(line.size(), 100U) << name << ": " << line;
        }
    }
    EXPECT_GE(machines, 4U);
}

TEST(TopoText, HasTheMatrixOfNvidiaSmiTurned) {
    EXPECT_EQ(section(text_of(machine("nccl/mi300x-rccl")), "distances of GPUs and HCAs"),
              "              GPU0  GPU1  GPU2  GPU3\n"
              "  GPU0        X     XGMI  XGMI  XGMI\n"
              "  GPU1        XGMI  X     XGMI  XGMI\n"
              "  GPU2        XGMI  XGMI  X     XGMI\n"
              "  GPU3        XGMI  XGMI  XGMI  X\n"
              "  bnxt_re0:1  NODE  PXB   SYS   SYS\n"
              "  bnxt_re1:1  PXB   NODE  SYS   SYS\n"
              "  bnxt_re2:1  SYS   SYS   NODE  PXB\n"
              "  bnxt_re3:1  SYS   SYS   PXB   NODE\n"
              "  PIX: one PCIe switch or card, PXB: several switches, PHB: host bridge, NODE: NUMA node,\n"
              "  SYS: another NUMA node, NV4: 4 NVLinks, XGMI: AMD's links\n");
    EXPECT_EQ(section(text_of(machine("nccl/vm-two-switches")), "distances of GPUs and HCAs"),
              "                  GPU0  GPU1  GPU2  GPU3\n"
              "  GPU0            X     PIX   SYS   SYS\n"
              "  GPU1            PIX   X     SYS   SYS\n"
              "  GPU2            SYS   SYS   X     PIX\n"
              "  GPU3            SYS   SYS   PIX   X\n"
              "  0101:00:00.0:1  PIX   PIX   SYS   SYS\n"
              "  0102:00:00.0:1  PIX   PIX   SYS   SYS\n"
              "  0103:00:00.0:1  SYS   SYS   PIX   PIX\n"
              "  0104:00:00.0:1  SYS   SYS   PIX   PIX\n"
              "  PIX: one PCIe switch or card, PXB: several switches, PHB: host bridge, NODE: NUMA node,\n"
              "  SYS: another NUMA node, NV4: 4 NVLinks, XGMI: AMD's links\n"
              "  No NVLink or XGMI is known between these GPUs: the words tell the way over PCIe.\n");
}

TEST(TopoText, NamesTheRailsAlsoWithoutGpus) {
    auto node = machine("nccl/mi300x-rccl");
    const std::string rails = "\n\nrails by PCI address: bnxt_re0:1=0, bnxt_re1:1=1, bnxt_re2:1=2, bnxt_re3:1=3\n\n";
    EXPECT_NE(text_of(node).find(rails), std::string::npos) << text_of(node);
    node.places.placed.gpus.clear();
    EXPECT_NE(text_of(node).find("\nGPUs\n  none" + rails), std::string::npos) << text_of(node);
    EXPECT_TRUE(
        rails_text(rails_of_node(node), "rails of n01").starts_with("\nrails of n01 by PCI address: bnxt_re0:1=0, "));
    EXPECT_EQ(rails_text(rails_of_node({}), "rails"), "") << "without two ports in use";
}

TEST(TopoText, TellsOfANcclFileOnlyWhatIsInIt) {
    const auto text = text_of(machine("nccl/two-gpus-sockets"));
    EXPECT_EQ(text.substr(0, text.find('\n')),
              "host two-gpus-sockets.xml: 1 NUMA node, 16 CPUs (tests/data/topology/nccl/two-gpus-sockets.xml)");
    EXPECT_EQ(section(text, "NUMA nodes"), "  NUMA NODE  PACKAGE  CPUS  MEMORY\n"
                                           "  0          -        0-15  -\n");
    EXPECT_EQ(section(text, "NICs without verbs"), "  ens3f0 (0000:18:00.0), eth9 (no PCI address)\n");
}

/// What is printed of a file of NCCL's with these cpus.
std::string text_of_cpus(const std::string& cpus) {
    test::Tree tree;
    tree.file("/cpus.xml", "<system version=\"1\">" + cpus + "</system>");
    return text_of(plan_of(tree.at("/cpus.xml").string()));
}

std::string xml_gpu(const std::string& address, unsigned number, const std::string& links = "",
                    const std::string& vendor = "0x10de") {
    return format_text("<pci busid=\"{}\" class=\"0x030200\" vendor=\"{}\"><gpu dev=\"{}\">{}</gpu></pci>", address,
                       vendor, number, links);
}

TEST(TopoText, GpusKeepTheNumbersOfANcclFile) {
    const auto text = text_of_cpus("<cpu numaid=\"0\" affinity=\"f\">" + xml_gpu("0000:2a:00.0", 5) +
                                   xml_gpu("0000:1a:00.0", 2) + "</cpu>");
    EXPECT_NE(text.find("\n  2    0000:1a:00.0  0"), std::string::npos) << text;
    EXPECT_NE(text.find("\n  5    0000:2a:00.0  0"), std::string::npos) << text;
    EXPECT_NE(text.find("\n  GPU5  NODE  X\n"), std::string::npos) << text;
    EXPECT_NE(text.find("\n  1           5    2-3"), std::string::npos) << text;
}

TEST(TopoText, TellsOfPackagesOnlyWhereTheyAreKnown) {
    const auto text = text_of_cpus("<cpu numaid=\"0\" affinity=\"f\">" + xml_gpu("0000:1a:00.0", 0) +
                                   "</cpu><cpu numaid=\"1\" affinity=\"f0\"><pci busid=\"0000:9a:00.0\" "
                                   "class=\"0x020700\"><nic><net name=\"mlx5_0\"/></nic></pci></cpu>");
    EXPECT_NE(text.find("  mlx5_0:1      another NUMA node\n"), std::string::npos) << text;
    EXPECT_EQ(text.find("another package"), std::string::npos) << text;
    EXPECT_EQ(text.find("PKG"), std::string::npos) << text;
}

TEST(TopoText, ListsAnInterfaceThatIsBelowEachCpuOnce) {
    const std::string nets = "<nic><net name=\"tun7\" guid=\"0x1\"/><net name=\"br3\" guid=\"0x2\"/></nic>";
    EXPECT_EQ(section(text_of_cpus("<cpu numaid=\"0\" affinity=\"f\">" + nets +
                                   "</cpu><cpu numaid=\"1\" affinity=\"f0\">" + nets + "</cpu>"),
                      "NICs without verbs"),
              "  br3 (no PCI address), tun7 (no PCI address)\n");
}

TEST(TopoText, SaysWhichCpusAreNotTold) {
    const auto text = text_of_cpus("<cpu numaid=\"-1\">" + xml_gpu("0000:1a:00.0", 0) + "</cpu>");
    EXPECT_TRUE(text.starts_with("host cpus.xml: CPUs not told (")) << text;
    EXPECT_EQ(text.find("NUMA nodes"), std::string::npos) << text;
    EXPECT_NE(text.find("\n  0           0    -     -      -"), std::string::npos) << text;
}

TEST(TopoText, ListsCpusOfNoNumaNode) {
    EXPECT_EQ(
        section(text_of_cpus("<cpu numaid=\"1\" affinity=\"f\"/><cpu numaid=\"-1\" affinity=\"f0\"/>"), "NUMA nodes"),
        "  NUMA NODE  PACKAGE  CPUS  MEMORY\n"
        "  1          -        0-3   -\n"
        "  -          -        4-7   -\n");
}

TEST(TopoText, ALinkOfAGpuToItselfIsNone) {
    const auto text =
        text_of_cpus("<cpu numaid=\"0\" affinity=\"f\">" +
                     xml_gpu("0000:1a:00.0", 0, "<nvlink target=\"0000:1a:00.0\" count=\"6\" tclass=\"0x0302\"/>") +
                     xml_gpu("0000:2a:00.0", 1) + "</cpu>");
    EXPECT_NE(text.find("No NVLink or XGMI is known"), std::string::npos) << text;
}

TEST(TopoText, NamesTheGpusOfTheOtherVendor) {
    const auto text = text_of_cpus("<cpu numaid=\"0\" affinity=\"f\">" + xml_gpu("0000:1a:00.0", 0) +
                                   xml_gpu("0000:2a:00.0", 1, "", "0x1002") + "</cpu>");
    EXPECT_NE(text.find("\nnote: 0000:2a:00.0 (AMD) is left out: ranks use NVIDIA's\n"), std::string::npos) << text;
}

/// A tree of `count` GPUs below one cpu, with an HCA.
std::string many_gpus(std::size_t count) {
    std::string text = "<system version=\"1\"><cpu numaid=\"0\" affinity=\"ff\"><pci busid=\"0000:01:00.0\" "
                       "class=\"0x0207\"><nic><net name=\"mlx5_0\"/></nic></pci>";
    for (std::size_t i = 0; i < count; ++i) {
        text += format_text("<pci busid=\"{:04x}:01:00.0\" class=\"0x0302\"/>", i + 1);
    }
    return text + "</cpu></system>";
}

TEST(TopoText, SplitsAMatrixThatIsTooWide) {
    test::Tree tree;
    tree.file("/many.xml", many_gpus(20));
    const auto matrix = section(text_of(plan_of(tree.at("/many.xml").string())), "distances of GPUs and HCAs");
    EXPECT_NE(matrix.find("  mlx5_0:1  NODE  NODE  NODE"), std::string::npos) << matrix;
    EXPECT_NE(matrix.find("\n            GPU12  GPU13"), std::string::npos) << matrix;
}

TEST(TopoText, OfMoreGpusThanANodeHasIsNoSquare) {
    test::Tree tree;
    tree.file("/many.xml", many_gpus(20000));
    const auto node = plan_of(tree.at("/many.xml").string(), 8);
    EXPECT_LT(text_of(node).size(), 1'000'000U);
    EXPECT_TRUE(topo_json(node, "n01").at("gpu_distances").empty());
    EXPECT_FALSE(topo_svg(node, "n01").empty());
}

TEST(TopoSvg, ShowsNoHostBridgesOfANcclFile) {
    for (const auto* const name : {"h100-two-ports", "mi300x-rccl", "two-gpus-sockets", "vm-two-switches"}) {
        const auto svg = topo_svg(machine(std::string("nccl/") + name), "n01");
        EXPECT_EQ(svg.find("pcif"), std::string::npos) << name; // are made up
        EXPECT_EQ(svg.find("host bridge pci"), std::string::npos) << name;
    }
}

TEST(TopoJson, HasLinksAndNics) {
    const auto json = topo_json(machine("nccl/two-gpus-sockets"), "n01");
    ASSERT_EQ(json.at("gpu_links").size(), 1U);
    EXPECT_EQ(json.at("gpu_links")[0].dump(), R"({"gpu":"0","peer":"1","kind":"nvlink","count":4})");
    EXPECT_EQ(json.at("gpu_distances").dump(), R"([["same-device","same-numa"],["same-numa","same-device"]])");
    EXPECT_EQ(json.at("nics_without_verbs")[1].dump(), R"({"name":"eth9","pci":null})");
    EXPECT_EQ(topo_json(machine("nccl/vm-two-switches"), "n01").at("hcas")[2].at("rail"), 2);
}

#ifdef HAVE_HWLOC

/// dgx-h100 with a change.
NodePlan changed(const std::string& from, const std::string& to) {
    std::ifstream file("tests/data/topology/dgx-h100.xml");
    std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    const auto at = text.find(from);
    if (at == std::string::npos) {
        throw std::runtime_error("not in the file: " + from);
    }
    test::Tree tree;
    tree.file("/changed.xml", text.replace(at, from.size(), to));
    return plan_of(tree.at("/changed.xml").string());
}

TEST(TopoText, ListsThePortsThatAreLeftOutAndWhy) {
    const auto node = changed("<info name=\"Port1State\" value=\"4\"/>", "<info name=\"Port1State\" value=\"2\"/>");
    EXPECT_EQ(section(text_of(node), "HCA ports left out"),
              "  mlx5_0:1  is INIT: left out; NCCL takes active ports only\n"
              "  mlx5_7:1  is DOWN: left out; NCCL takes active ports only\n"
              "  mlx5_8:1  is DOWN: left out; NCCL takes active ports only\n");
    const auto json = topo_json(node, "n01");
    ASSERT_EQ(json.at("left_out").size(), 3U);
    EXPECT_EQ(json.at("left_out")[0].dump(), R"({"port":"mlx5_0:1","rule":"not-active",)"
                                             R"("reason":"is INIT: left out; NCCL takes active ports only"})");
}

TEST(TopoText, SaysWhichPortsTheFileDoesNotTell) {
    const auto node = changed("<info name=\"Port1State\" value=\"4\"/>", "");
    EXPECT_EQ(section(text_of(node), "HCA ports left out").find("mlx5_0"), std::string::npos);
    EXPECT_NE(text_of(node).find("does not tell the ports of mlx5_0: one active port each is assumed"),
              std::string::npos);
}

TEST(TopoText, HasTheNameOfTheMachineAsItsTitle) {
    const auto node =
        changed("<info name=\"OSName\"", "<info name=\"HostName\" value=\"gpu17\"/>\n  <info name=\"OSName\"");
    EXPECT_EQ(text_of(node).substr(0, 12), "host gpu17: ");
}

#endif

} // namespace
} // namespace rdma_nccl
