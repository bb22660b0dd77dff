// SPDX-License-Identifier: Apache-2.0
// The picture of a machine as text: well-formed, nothing of the machine's names unescaped, everything there once.
#include "lib/base/format.h"
#include "tools/html/page.h"
#include "tools/topo/topo.h"

#include <gtest/gtest.h>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {
namespace {

/// Two packages of 8 cores with two threads; in each a switch with two GPUs and two HCAs.
NodePlan machine(std::size_t ranks = 4, std::size_t gpus = 4) {
    NodePlan node;
    node.places.topology.packages = 2;
    for (unsigned i = 0; i < 16; ++i) {
        Core core;
        core.cpus.add(i);
        core.cpus.add(i + 16);
        core.package = i / 8;
        core.numa_node = i / 8;
        core.l3 = i / 8;
        node.places.topology.cores.push_back(core);
    }
    for (unsigned i = 0; i < 2; ++i) {
        NumaNode numa{i, CpuSet::range(8 * i, 8 * i + 7) | CpuSet::range(8 * i + 16, 8 * i + 23), 65536, i, false};
        node.places.topology.numa_nodes.push_back(numa);
    }
    for (unsigned i = 0; i < 4; ++i) {
        const auto above =
            format_text("/sys/devices/pci0000:{0}0/0000:{0}0:01.0/0000:{0}1:00.0/0000:{0}2:0{1}.0/", i / 2 + 1, i % 2);
        if (i < gpus) {
            Gpu gpu;
            gpu.pci = format_text("0000:{}3:0{}.0", i / 2 + 1, i % 2);
            gpu.pci_path = above + gpu.pci;
            gpu.numa_node = static_cast<int>(i / 2);
            node.facts.fabric.gpus.push_back(gpu);
            node.facts.visible_gpus.ids.push_back(format_text("{}", i));
        }
        Hca hca;
        hca.name = format_text("mlx5_{}", i);
        hca.pci = format_text("0000:{}4:0{}.0", i / 2 + 1, i % 2);
        hca.pci_path = above + hca.pci;
        hca.numa_node = static_cast<int>(i / 2);
        node.facts.fabric.hcas.push_back(hca);
        PortChoice port;
        port.hca = hca.name;
        node.plan.fabric.ports.push_back(port);
    }
    node.plan.visible_gpus = node.facts.visible_gpus.count();
    node.places.placed = place_ranks(node.facts, node.plan, BindChoice::Auto, node.places.topology,
                                     std::vector<CpuSet>(ranks, node.places.topology.cpus()));
    return node;
}

std::size_t count(std::string_view text, std::string_view part) {
    std::size_t number = 0;
    for (auto at = text.find(part); at != std::string_view::npos; at = text.find(part, at + part.size())) {
        ++number;
    }
    return number;
}

/// Enough of XML for what is written here: tags that close in their order, quotes in pairs, known entities.
std::string problem_of(std::string_view text) {
    std::vector<std::string> open;
    for (std::size_t at = 0; at < text.size(); ++at) {
        if (text[at] == '&') {
            const auto entity = text.substr(at, text.find(';', at) - at);
            if (entity != "&amp" && entity != "&lt" && entity != "&gt" && entity != "&quot" && entity != "&#39") {
                return "an entity: " + std::string(text.substr(at, 20));
            }
        }
        if (text[at] != '<') {
            continue;
        }
        const auto tag = text.substr(at + 1, text.find('>', at) - at - 1);
        const std::string name(tag.substr(0, tag.find_first_of(" /", 1)));
        if (tag.find('<') != std::string_view::npos || count(tag, "\"") % 2 != 0) {
            return "a tag: " + std::string(tag);
        }
        if (tag.front() == '/') {
            if (open.empty() || "/" + open.back() != tag) {
                return "closes another: " + std::string(tag);
            }
            open.pop_back();
        } else if (tag.back() != '/') {
            open.push_back(name);
        }
    }
    return open.empty() ? "" : "is open: " + open.back();
}

TEST(TopoSvg, TheCheckOfTheTestsFindsProblems) {
    EXPECT_EQ(problem_of("<a b=\"1\"><c/>&lt;</a>\n"), "");
    EXPECT_NE(problem_of("<a><b></a></b>"), "");
    EXPECT_NE(problem_of("<a>&</a>"), "");
    EXPECT_NE(problem_of("<a b=\"></a>"), "");
    EXPECT_NE(problem_of("<a>"), "");
}

TEST(TopoSvg, EachDeviceOnceEachRankOnItsOwn) {
    const auto svg = topo_svg(machine(), "node17");
    EXPECT_EQ(problem_of(svg), "");
    EXPECT_EQ(count(svg, ">node17</text>"), 1U);
    for (unsigned i = 0; i < 4; ++i) {
        EXPECT_EQ(count(svg, format_text("class=\"name\" text-anchor=\"middle\">GPU {}</text>", i)), 1U);
        EXPECT_EQ(count(svg, format_text("class=\"name\" text-anchor=\"middle\">mlx5_{}:1</text>", i)), 1U);
        // On its GPU, its HCA, at the list of its CPUs, and in the table; and on four cores.
        EXPECT_EQ(count(svg, format_text("class=\"badge i{0}\" text-anchor=\"middle\">{0}</text>", i)), 4U);
        EXPECT_EQ(count(svg, format_text("class=\"number i{0}\" text-anchor=\"middle\">{0}</text>", i)), 4U);
    }
    EXPECT_EQ(count(svg, ">switch 0000:11:00.0</text>"), 1U);
    EXPECT_EQ(count(svg, ">switch 0000:21:00.0</text>"), 1U);
    EXPECT_EQ(count(svg, "Place not known"), 0U);
    EXPECT_EQ(svg, topo_svg(machine(), "node17"));
}

TEST(TopoSvg, HostileNamesStayText) {
    auto node = machine();
    const std::string hostile = "</text><script>\"a'&\x01\xff";
    node.facts.fabric.hcas[0].name = hostile;
    node.places.placed.ports[0] = hostile + ":1";
    node.facts.fabric.gpus[1].pci = hostile;
    node.places.placed.gpu_ids[0] = hostile + std::string(5000, 'z');
    node.places.topology.source = hostile;
    node.places.masks_source = hostile;
    node.places.placed.placement.warnings.push_back(hostile + std::string(5000, 'x'));
    const auto svg = topo_svg(node, hostile + std::string(5000, 'y'));
    EXPECT_EQ(problem_of(svg), "");
    EXPECT_EQ(count(svg, "<script"), 0U);
    EXPECT_EQ(count(svg, std::string(100, 'y')), 0U);
    EXPECT_EQ(count(svg, std::string(2000, 'z')), 0U);
    EXPECT_EQ(count(svg, "\x01") + count(svg, "\xff"), 0U);
    node.places.problem = hostile;
    EXPECT_EQ(problem_of(topo_svg(node, hostile)), "");
}

TEST(TopoSvg, UnusedHcasArePale) {
    auto node = machine();
    node.plan.fabric.ports[3].rule = PortRule::NotActive;
    node.plan.fabric.ports[3].reason = "is DOWN";
    node.places.placed =
        place_ranks(node.facts, node.plan, BindChoice::Auto, node.places.topology, node.places.placed.masks);
    const auto svg = topo_svg(node, "n");
    EXPECT_EQ(problem_of(svg), "");
    EXPECT_EQ(count(svg, "class=\"soft\" text-anchor=\"middle\">mlx5_3</text>"), 1U);
    EXPECT_EQ(count(svg, ">mlx5_3:1</text>"), 0U);
    EXPECT_EQ(count(svg, "class=\"pale\""), 1U);
}

TEST(TopoSvg, DevicesWithoutAPlaceHaveABoxOfTheirOwn) {
    auto node = machine();
    node.facts.fabric.gpus[2] = Gpu();
    node.places.placed.gpus[3] = std::nullopt; // visible, but none of the known ones
    const auto svg = topo_svg(node, "n");
    EXPECT_EQ(problem_of(svg), "");
    const auto elsewhere = svg.find(">Place not known<");
    ASSERT_NE(elsewhere, std::string::npos);
    EXPECT_LT(svg.find(">GPU 0</text>"), elsewhere);
    EXPECT_GT(svg.find(">GPU 2</text>"), elsewhere);
    EXPECT_GT(svg.find(">GPU 3</text>"), elsewhere);
}

TEST(TopoSvg, ManyRanks) {
    const auto svg = topo_svg(machine(64), "n");
    EXPECT_EQ(problem_of(svg), "");
    EXPECT_GE(count(svg, ">63</text>"), 1U);
    EXPECT_GE(count(svg, ">+9</text>"), 1U); // 16 on each GPU
    EXPECT_EQ(problem_of(topo_svg(machine(1200), "n")), "");
}

TEST(TopoSvg, NoGpusNoTopologyNothing) {
    EXPECT_EQ(problem_of(topo_svg(machine(2, 0), "n")), "");
    auto node = machine();
    node.places.topology = Topology();
    node.places.problem = "hwloc is not there";
    const auto svg = topo_svg(node, "n");
    EXPECT_EQ(problem_of(svg), "");
    EXPECT_EQ(count(svg, "hwloc is not there"), 1U);
    EXPECT_EQ(count(svg, ">GPU 0</text>"), 1U);
    EXPECT_EQ(problem_of(topo_svg(NodePlan(), "")), "");
}

bool inside(const Area& inner, const Area& outer) {
    return inner.x >= outer.x && inner.y >= outer.y && inner.x + inner.width <= outer.x + outer.width &&
           inner.y + inner.height <= outer.y + outer.height;
}

bool overlap(const Area& a, const Area& b) {
    return a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
}

void expect_apart(const Part& part) {
    for (std::size_t i = 0; i < part.parts.size(); ++i) {
        EXPECT_TRUE(inside(part.parts[i].area, part.area)) << part.label << ": " << part.parts[i].label;
        for (std::size_t j = 0; j < i; ++j) {
            EXPECT_FALSE(overlap(part.parts[i].area, part.parts[j].area)) << part.parts[i].label;
        }
        expect_apart(part.parts[i]);
    }
}

TEST(TopoSvg, PartsLieInTheirBoxesAndApart) {
    for (const std::size_t ranks : {1U, 4U, 16U, 64U}) {
        auto parts = machine_parts(machine(ranks));
        lay_out(parts, 1280);
        EXPECT_LE(parts.area.width, 1280);
        widen(parts, 1280);
        move_by(parts, 24, 100);
        expect_apart(parts);
    }
}

} // namespace
} // namespace rdma_nccl
