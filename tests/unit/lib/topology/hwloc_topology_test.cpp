// SPDX-License-Identifier: Apache-2.0
// Machines that tests/data/topology/README.md describes, as hwloc reads them.
#include "lib/topology/topology.h"

#include "config.h"
#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/topology/xml.h"
#include "tests/unit/descriptor_limit.h"
#include "tests/unit/tree.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <iterator>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <sys/wait.h>

namespace rdma_nccl {
namespace {

#ifdef HAVE_HWLOC

XmlMachine machine(const std::string& name) {
    auto read = read_topology_xml("tests/data/topology/" + name + ".xml");
    if (!read) {
        throw std::runtime_error(read.error().message);
    }
    return std::move(*read);
}

std::string text_of(const std::string& name) {
    std::ifstream file("tests/data/topology/" + name + ".xml");
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void replace(std::string& text, const std::string& from, const std::string& to) {
    const auto at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
}

/// "2x56x2, 2 NUMA nodes, 8 GPUs, 11 HCAs", as the table in the README has it.
std::string shape_of(const XmlMachine& machine) {
    const auto& topology = machine.topology;
    std::size_t threads = 0;
    for (const auto& core : topology.cores) {
        threads = std::max(threads, core.cpus.size());
    }
    return std::to_string(topology.packages) + "x" + std::to_string(topology.cores.size() / topology.packages) + "x" +
           std::to_string(threads) + ", " + std::to_string(topology.numa_nodes.size()) + " NUMA nodes, " +
           std::to_string(machine.fabric.gpus.size()) + " GPUs, " + std::to_string(machine.fabric.hcas.size()) +
           " HCAs";
}

const Core* core_of(const Topology& topology, unsigned cpu) {
    const auto found = std::find_if(topology.cores.begin(), topology.cores.end(),
                                    [cpu](const Core& core) { return core.cpus.contains(cpu); });
    return found == topology.cores.end() ? nullptr : &*found;
}

TEST(HwlocTopology, IsTheShapeOfTheMachine) {
    EXPECT_EQ(shape_of(machine("dgx-h100")), "2x56x2, 2 NUMA nodes, 8 GPUs, 11 HCAs");
    EXPECT_EQ(shape_of(machine("dgx-a100")), "2x64x2, 8 NUMA nodes, 8 GPUs, 12 HCAs");
    EXPECT_EQ(shape_of(machine("hgx-four-hcas")), "2x64x2, 4 NUMA nodes, 8 GPUs, 4 HCAs");
    EXPECT_EQ(shape_of(machine("frontier")), "1x64x2, 4 NUMA nodes, 8 GPUs, 4 HCAs");
    EXPECT_EQ(shape_of(machine("v100-edr")), "2x20x1, 2 NUMA nodes, 4 GPUs, 2 HCAs");
    EXPECT_EQ(shape_of(machine("vf-vm")), "96x1x1, 1 NUMA nodes, 8 GPUs, 8 HCAs");
    EXPECT_EQ(shape_of(machine("no-numa")), "1x80x1, 1 NUMA nodes, 1 GPUs, 1 HCAs");
    EXPECT_EQ(shape_of(machine("gh200-quad")), "4x72x1, 36 NUMA nodes, 4 GPUs, 4 HCAs");
    EXPECT_EQ(shape_of(machine("ib-no-gpu")), "2x96x1, 8 NUMA nodes, 0 GPUs, 2 HCAs");
    EXPECT_EQ(shape_of(machine("laptop")), "1x14x2, 1 NUMA nodes, 1 GPUs, 0 HCAs");
}

TEST(HwlocTopology, OfEveryMachineFitsTogether) {
    std::size_t machines = 0;
    for (const auto& entry : std::filesystem::directory_iterator("tests/data/topology")) {
        if (entry.path().extension() != ".xml") {
            continue;
        }
        SCOPED_TRACE(entry.path().string());
        ++machines;
        const auto read = machine(entry.path().stem().string());
        const auto& topology = read.topology;
        CpuSet seen;
        for (const auto& core : topology.cores) {
            EXPECT_FALSE(core.cpus.empty());
            EXPECT_FALSE(seen.intersects(core.cpus)) << core.cpus.list();
            EXPECT_LT(core.package, topology.packages);
            ASSERT_TRUE(core.numa_node);
            ASSERT_NE(topology.find_numa_node(*core.numa_node), nullptr);
            EXPECT_TRUE(topology.find_numa_node(*core.numa_node)->cpus.contains(core.cpus)) << core.cpus.list();
            seen |= core.cpus;
        }
        EXPECT_EQ(topology.cpus(), seen);
        for (const auto& gpu : read.fabric.gpus) {
            EXPECT_TRUE(gpu.pci_path.starts_with("/sys/devices/pci") && gpu.pci_path.ends_with("/" + gpu.pci));
            EXPECT_FALSE(gpu.vendor.empty());
            EXPECT_TRUE(seen.contains(gpu.local_cpus)) << gpu.pci;
        }
    }
    EXPECT_EQ(machines, 27U);
}

TEST(HwlocTopology, ThreadsOfACoreAreFound) {
    EXPECT_EQ(core_of(machine("four-gpus").topology, 0)->cpus.list(), "0-1");
    EXPECT_EQ(core_of(machine("dgx-h100").topology, 0)->cpus.list(), "0,112");
    EXPECT_EQ(core_of(machine("v100-edr").topology, 1)->package, 1U); // numbered by turns
    EXPECT_EQ(core_of(machine("dgx-h100").topology, 9999), nullptr);
    EXPECT_EQ(Distances(machine("dgx-h100").topology).packages_of(CpuSet::range(3, 3)).list(), "0-55,112-167");
}

TEST(HwlocTopology, MemoryOfDevicesIsSpecial) {
    const auto gh200 = machine("gh200-quad").topology;
    std::set<unsigned> plain;
    for (const auto& node : gh200.numa_nodes) {
        if (!node.special) {
            plain.insert(node.number);
            EXPECT_EQ(node.cpus.size(), 72U);
        }
    }
    EXPECT_EQ(plain, (std::set<unsigned>{0, 1, 2, 3}));
}

TEST(HwlocTopology, MemoryThatIsNearToTheWholeMachineIsSpecial) {
    // As a CXL expander may be: a third NUMA node, which no package has for itself.
    std::string text = text_of("two-gpus");
    for (int i = 0; i < 3; ++i) {
        replace(text, "nodeset=\"0x00000003\"", "nodeset=\"0x00000007\"");
    }
    replace(text, "  <object type=\"Package\"",
            "  <object type=\"NUMANode\" os_index=\"2\" cpuset=\"0xffffffff,0xffffffff,0xffffffff,0xffffffff\" "
            "complete_cpuset=\"0xffffffff,0xffffffff,0xffffffff,0xffffffff\" nodeset=\"0x00000004\" "
            "complete_nodeset=\"0x00000004\" gp_index=\"999\" local_memory=\"1073741824\"/>\n"
            "  <object type=\"Package\"");
    test::Tree tree;
    tree.file("/cxl.xml", text);
    const auto read = read_topology_xml(tree.at("/cxl.xml").string());
    ASSERT_TRUE(read) << read.error().message;
    ASSERT_EQ(read->topology.numa_nodes.size(), 3U);
    EXPECT_EQ(read->topology.numa_nodes[2].cpus.size(), 128U);
    EXPECT_TRUE(read->topology.numa_nodes[2].special);
    EXPECT_FALSE(read->topology.numa_nodes[0].special);
    EXPECT_EQ(core_of(read->topology, 0)->numa_node, 0U);
}

TEST(HwlocTopology, GpusOfADgxA100AreOnTheNodesThatItsTableTells) {
    std::vector<int> nodes;
    for (const auto& gpu : machine("dgx-a100").fabric.gpus) {
        nodes.push_back(gpu.numa_node.value_or(-1));
    }
    EXPECT_EQ(nodes, (std::vector<int>{3, 3, 1, 1, 7, 7, 5, 5}));
}

/// An object of hwloc's XML with CPUs and NUMA nodes, as masks, and what is in it.
std::string xml_object(const std::string& type, unsigned cpus, unsigned nodes, const std::string& content,
                       const std::string& more = "") {
    static unsigned number = 100;
    const auto set = [](const std::string& name, unsigned mask) {
        return format_text("{0}set=\"{1:#x}\" complete_{0}set=\"{1:#x}\" ", name, mask);
    };
    return format_text("<object type=\"{}\" {}{}gp_index=\"{}\" {}>{}</object>", type, set("cpu", cpus),
                       set("node", nodes), ++number, more, content);
}

std::string xml_cpu(unsigned number, unsigned node) {
    const auto os_index = format_text("os_index=\"{}\"", number);
    return xml_object("Core", 1U << number, 1U << node, xml_object("PU", 1U << number, 1U << node, "", os_index),
                      os_index);
}

/// A host bridge with an AMD GPU at a bus, and the name of its OS device.
std::string xml_gpu(unsigned bus, const std::string& name) {
    return format_text("<object type=\"Bridge\" gp_index=\"{0}\" bridge_type=\"0-1\" depth=\"0\" "
                       "bridge_pci=\"0000:[{0:02x}-{0:02x}]\"><object type=\"PCIDev\" gp_index=\"1{0}\" "
                       "pci_busid=\"0000:{0:02x}:00.0\" pci_type=\"0380 [1002:740f] [1002:0c34] 02\" "
                       "pci_link_speed=\"0.000000\"><object type=\"OSDev\" gp_index=\"2{0}\" name=\"{1}\" "
                       "osdev_type=\"5\"/></object></object>",
                       bus, name);
}

/// Two packages of a NUMA node and two cores each: a GPU at an L3 of the first, one at a group of the second, one at
/// the machine.
XmlMachine machine_with_parts(const std::string& first, const std::string& second, const std::string& third) {
    const std::string cache = "cache_size=\"1048576\" depth=\"3\" cache_linesize=\"64\" cache_associativity=\"16\" "
                              "cache_type=\"0\"";
    const std::string memory = "local_memory=\"1073741824\"";
    const auto l3 = xml_object("L3Cache", 1, 1, xml_cpu(0, 0) + xml_gpu(0x21, first), cache) +
                    xml_object("L3Cache", 2, 1, xml_cpu(1, 0), cache);
    const auto group = xml_object("Group", 4, 2, xml_cpu(2, 1) + xml_gpu(0x11, second), "kind=\"1001\" subkind=\"0\"");
    const auto packages =
        xml_object("Package", 3, 1, xml_object("NUMANode", 3, 1, "", memory + " os_index=\"0\"") + l3,
                   "os_index=\"0\"") +
        xml_object("Package", 12, 2,
                   xml_object("NUMANode", 12, 2, "", memory + " os_index=\"1\"") + group + xml_cpu(3, 1),
                   "os_index=\"1\"");
    const auto all = xml_object("Machine", 15, 3, packages + xml_gpu(0x31, third),
                                "os_index=\"0\" allowed_cpuset=\"0xf\" allowed_nodeset=\"0x3\"");
    test::Tree tree;
    tree.file("/parts.xml", "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n"
                            "<topology version=\"2.0\">" +
                                all + "</topology>\n");
    auto read = read_topology_xml(tree.at("/parts.xml").string());
    if (!read) {
        throw std::runtime_error(read.error().message);
    }
    return std::move(*read);
}

TEST(HwlocTopology, AGpuAtAPartOfANumaNodeIsOnThatNode) {
    const auto fabric = machine_with_parts("card0", "card1", "card2").fabric;
    ASSERT_EQ(fabric.gpus.size(), 3U); // by address
    EXPECT_EQ(fabric.gpus[0].numa_node, 1) << "at a group";
    EXPECT_EQ(fabric.gpus[1].numa_node, 0) << "at an L3";
    EXPECT_EQ(fabric.gpus[2].numa_node, std::nullopt) << "at the machine";
}

TEST(HwlocTopology, AmdsGpusAreInTheOrderOfTheirOpenClDevices) {
    const auto order = [](const XmlMachine& read) { return mapped(read.fabric.gpus, &Gpu::pci); };
    using Addresses = std::vector<std::string>;
    EXPECT_EQ(order(machine_with_parts("opencl0d2", "opencl0d1", "opencl0d0")),
              (Addresses{"0000:31:00.0", "0000:11:00.0", "0000:21:00.0"}));
    EXPECT_EQ(order(machine_with_parts("opencl0d0", "opencl0d1", "card2")), // not of all
              (Addresses{"0000:11:00.0", "0000:21:00.0", "0000:31:00.0"}));
    EXPECT_EQ(order(machine_with_parts("rsmi0", "rsmi1", "rsmi2")),
              (Addresses{"0000:21:00.0", "0000:11:00.0", "0000:31:00.0"}));
}

TEST(HwlocTopology, SaysThatNothingTellsHipsNumbers) {
    const std::vector<std::string> unknown = {
        "AMD's GPUs are in the order of their PCI addresses: the file does not tell HIP's numbers"};
    EXPECT_EQ(machine_with_parts("card0", "card1", "card2").notes, unknown);
    EXPECT_EQ(machine_with_parts("rsmi1", "rsmi0", "rsmi2").notes, unknown); // newer ones sort by address
    EXPECT_EQ(machine_with_parts("opencl0d1", "opencl0d0", "opencl0d2").notes, std::vector<std::string>());
    EXPECT_EQ(machine_with_parts("rsmi0", "rsmi1", "rsmi2").notes, std::vector<std::string>());
}

TEST(HwlocTopology, InterfacesAreRead) {
    const auto fabric = machine("dgx-h100").fabric;
    const auto* const netdev = fabric.find_netdev("eno3");
    ASSERT_NE(netdev, nullptr);
    EXPECT_TRUE(netdev->pci_path.starts_with("/sys/devices/pci")) << netdev->pci_path;
}

TEST(HwlocTopology, LinksOfGpusAreReadWhereNvmlToldThem) {
    // As lstopo with NVML writes it: the bandwidth between the OS devices of two GPUs, four links of 25 GB/s.
    std::string text = text_of("two-gpus");
    const std::string gpu = "[10de:0001] 00\" pci_link_speed=\"31.507692\"";
    for (const auto* const number : {"9001", "9002"}) {
        replace(text, gpu + "/>",
                gpu + "><object type=\"OSDev\" gp_index=\"" + number +
                    "\" name=\"nvml\" subtype=\"NVML\" osdev_type=\"1\"/></object>");
    }
    replace(text, "</topology>",
            "<distances2 type=\"OSDev\" nbobjs=\"2\" kind=\"9\" name=\"NVLinkBandwidth\" indexing=\"gp\">"
            "<indexes length=\"10\">9001 9002 </indexes>"
            "<u64values length=\"30\">1000000 100000 100000 1000000 </u64values></distances2></topology>");
    test::Tree tree;
    tree.file("/nvlink.xml", text);
    const auto read = read_topology_xml(tree.at("/nvlink.xml").string());
    ASSERT_TRUE(read) << read.error().message;
    ASSERT_EQ(read->fabric.gpus.size(), 2U);
    const auto link = GpuLinks(read->topology).between(read->fabric.gpus[0].pci, read->fabric.gpus[1].pci);
    ASSERT_TRUE(link);
    EXPECT_EQ(link->word(), "NV4");
}

TEST(HwlocTopology, PortsAreActiveWhereTheFileSaysSo) {
    const auto fabric = machine("dgx-h100").fabric;
    const auto* hca = fabric.find_hca("mlx5_0");
    ASSERT_NE(hca, nullptr);
    ASSERT_EQ(hca->ports.size(), 1U);
    EXPECT_EQ(hca->ports[0].state, "ACTIVE");
}

/// What hwloc itself, and nobody else, might write to stderr.
std::string complaints(const std::function<void()>& run) {
    ::testing::internal::CaptureStderr();
    run();
    return ::testing::internal::GetCapturedStderr();
}

TEST(HwlocTopology, FilesThatAreNoneAreAnErrorThatNamesThem) {
    test::Tree tree;
    const std::string whole = text_of("one-gpu");
    tree.file("/empty.xml", "").file("/text.xml", "no topology\n").file("/other.xml", "<?xml version=\"1.0\"?><a/>\n");
    tree.file("/half.xml", whole.substr(0, whole.size() / 2)).directory("/directory.xml");
    for (const auto* const name :
         {"/missing.xml", "/empty.xml", "/text.xml", "/other.xml", "/half.xml", "/directory.xml"}) {
        std::optional<Result<XmlMachine>> read;
        const std::string path = tree.at(name).string();
        EXPECT_EQ(complaints([&] { read = read_topology_xml(path); }), "");
        ASSERT_FALSE(*read) << name;
        EXPECT_EQ(read->error().message.find(path + ": "), 0U) << read->error().message;
    }
}

TEST(HwlocTopology, ADamagedFileIsAnErrorOrATopologyNeverACrash) {
    test::Tree tree;
    const std::string whole = text_of("one-gpu");
    std::size_t errors = 0;
    for (std::size_t i = 1; i <= 40; ++i) {
        std::string damaged = whole;
        damaged.erase(damaged.size() * i / 41, 7);
        tree.file("/damaged.xml", damaged);
        EXPECT_EQ(complaints([&] { errors += read_topology_xml(tree.at("/damaged.xml").string()) ? 0U : 1U; }), "");
    }
    EXPECT_GT(errors, 10U);
}

/// The reason against one-gpu with the first `from` changed to `to`; "" if there is none.
std::string problem_of(const std::string& from, const std::string& to) {
    std::string text = text_of("one-gpu");
    replace(text, from, to);
    test::Tree tree;
    tree.file("/changed.xml", text);
    const auto path = tree.at("/changed.xml").string();
    const auto read = read_topology_xml(path);
    return read ? "" : read.error().message.substr(path.size() + 2);
}

TEST(HwlocTopology, AFileThatCrashesHwlocIsAnError) {
    // Of a cache: hwloc 2.9 ends with SIGSEGV, 2.15 says what is invalid.
    const auto problem = problem_of(" complete_cpuset=\"0x00000001\"", "");
    EXPECT_TRUE(problem.empty() || problem.ends_with(" crashed when it read it: the file is damaged or too large") ||
                problem.find(" cannot read it: invalid ") != std::string::npos)
        << problem;
}

TEST(HwlocTopology, AFileForWhichNoProcessStartsIsNotCalledDamaged) {
    const std::string text = text_of("one-gpu");
    const test::DescriptorLimit one(test::DescriptorLimit::so_many_more(1)); // enough to load the library
    const auto read = read_xml(text);
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().message, "no process to read it in can be started: Too many open files");
}

std::size_t count_descriptors() {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

TEST(HwlocTopology, ReadingAFileLeavesNothingBehind) {
    (void)machine("one-gpu");                     // loads the library
    while (::waitpid(-1, nullptr, WNOHANG) > 0) { // another test's
    }
    const auto before = count_descriptors();
    (void)machine("one-gpu");
    EXPECT_FALSE(problem_of(" cpuset=", " cpus=").empty());
    EXPECT_EQ(count_descriptors(), before);
    EXPECT_LE(::waitpid(-1, nullptr, WNOHANG), 0) << "a child that has ended";
    EXPECT_EQ(::getenv("HWLOC_XML_VERBOSE"), nullptr);
}

TEST(HwlocTopology, HwlocsOwnReasonsArePassedOn) {
    const auto without = problem_of(" cpuset=", " cpus=");
    EXPECT_NE(without.find(" cannot read it: invalid normal "), std::string::npos) << without;
    EXPECT_NE(without.find("object Machine P#0 without cpuset"), std::string::npos) << without; // 2.15 names more
    const auto newer = problem_of("<topology version=\"2.0\">", "<topology version=\"9.1\">");
    EXPECT_EQ(newer.find("XML version 9.1, this libhwloc (hwloc "), 0U) << newer;
}

TEST(HwlocTopology, ATreeWithoutCpusIsAnErrorAndNothingIsPrinted) {
    test::Tree tree;
    tree.directory("/sys/class/net");
    const SysRoot root = tree.root();
    const std::string printed = complaints([&] {
        const auto read = read_topology(root);
        ASSERT_FALSE(read);
        EXPECT_EQ(read.error().message, root.path() + " has no /sys/devices/system/cpu/cpu0/topology");
        EXPECT_FALSE(export_topology(root));
    });
    EXPECT_EQ(printed, "");
}

TEST(HwlocTopology, ATreeWithAnXmlFileIsReadByThat) {
    test::Tree tree;
    std::filesystem::copy_file("tests/data/topology/two-gpus.xml", tree.path() / "topology.xml");
    const auto read = read_topology(tree.root());
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(read->packages, 2U);
    EXPECT_EQ(read->cores.size(), 64U);
    EXPECT_EQ(read->source.find("hwloc 2"), 0U);
}

TEST(HwlocTopology, AnHcaOfWhosePortsTheFileDoesNotTellHasOne) {
    std::string text = text_of("two-gpus");
    replace(text, "<info name=\"Port1State\" value=\"4\"/>", "");
    test::Tree tree;
    tree.file("/older.xml", text);
    const auto read = read_topology_xml(tree.at("/older.xml").string());
    ASSERT_TRUE(read) << read.error().message;
    const auto& hca = read->fabric.hcas.at(0);
    ASSERT_EQ(hca.ports.size(), 1U) << hca.name;
    EXPECT_EQ(hca.ports[0].state, "ACTIVE");
    EXPECT_EQ(read->notes,
              std::vector<std::string>{"the file does not tell the ports of mlx5_0: one active port each is assumed"});
}

TEST(HwlocTopology, AFileWithoutPciDevicesSaysSo) {
    test::Tree tree;
    const std::string sets = "cpuset=\"0x1\" complete_cpuset=\"0x1\" nodeset=\"0x1\" complete_nodeset=\"0x1\"";
    tree.file("/cpus.xml", format_text(R"(<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
<object type="Machine" os_index="0" {0} gp_index="1">
<object type="NUMANode" os_index="0" {0} gp_index="2"/>
<object type="PU" os_index="0" {0} gp_index="3"/>
</object>
</topology>
)",
                                       sets));
    const auto read = read_topology_xml(tree.at("/cpus.xml").string());
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(read->notes,
              std::vector<std::string>{"the file has no PCI devices, and so no GPUs and HCAs: write it with "
                                       "lstopo FILE.xml on the machine"});
    EXPECT_TRUE(machine("two-gpus").notes.empty());
}

/// One package whose CPUs have a core each.
void add_cpus(test::Tree& tree, unsigned count) {
    const auto all = CpuSet::range(0, count - 1).list();
    const std::string cpus = "/sys/devices/system/cpu";
    tree.file(cpus + "/online", all).file(cpus + "/possible", all);
    for (unsigned cpu = 0; cpu < count; ++cpu) {
        const auto topology = format_text("{}/cpu{}/topology/", cpus, cpu);
        tree.file(topology + "core_cpus", format_text("{:x}", 1U << cpu))
            .file(topology + "core_id", std::to_string(cpu));
        tree.file(topology + "package_cpus", format_text("{:x}", (1U << count) - 1));
        tree.file(topology + "physical_package_id", "0");
    }
}

TEST(HwlocTopology, CoresThatShareACacheAreNeighbours) {
    test::Tree tree;
    add_cpus(tree, 8);
    const auto add = [&tree](unsigned cpu, unsigned index, const char* level, const char* shared) {
        const auto cache = format_text("/sys/devices/system/cpu/cpu{}/cache/index{}/", cpu, index);
        tree.file(cache + "level", level).file(cache + "shared_cpu_list", shared);
    };
    for (const unsigned cpu : {1U, 2U, 4U, 5U}) { // the others have no such cache
        add(cpu, 0, "2", "0-7");
        add(cpu, 1, "3", cpu == 1 || cpu == 4 ? "1,4" : "2,5");
    }
    const auto read = read_topology(tree.root());
    ASSERT_TRUE(read) << read.error().message;
    std::string order; // CPU:cache
    for (const auto& core : read->cores) {
        order += format_text("{}:{} ", core.cpus.list(), core.l3 ? std::to_string(*core.l3) : "-");
    }
    EXPECT_EQ(order, "0:- 1:0 4:0 2:1 5:1 3:- 6:- 7:- ");
}

TEST(HwlocTopology, OfThisMachineHasTheCpusThatThisProcessRunsOn) {
    const auto read = read_topology(SysRoot::open("/").value());
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_FALSE(read->cores.empty());
    EXPECT_EQ(::getenv("HWLOC_FSROOT"), nullptr);
}

TEST(HwlocTopology, IsWrittenAsItIsRead) {
    test::Tree tree;
    std::filesystem::copy_file("tests/data/topology/two-gpus.xml", tree.path() / "topology.xml");
    const auto text = export_topology(tree.root());
    ASSERT_TRUE(text) << text.error().message;
    tree.file("/again.xml", *text);
    const auto again = read_topology_xml(tree.at("/again.xml").string());
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(shape_of(*again), shape_of(machine("two-gpus")));
}

#endif

} // namespace
} // namespace rdma_nccl
