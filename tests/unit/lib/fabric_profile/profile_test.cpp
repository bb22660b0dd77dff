// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric_profile/profile.h"

#include "lib/base/lists.h"
#include "tests/unit/fabric_values.h"
#include "tests/unit/tree.h"

#include <filesystem>
#include <gtest/gtest.h>
#include <set>
#include <sys/stat.h>

namespace rdma_nccl {
namespace {

using test::Tree;

const std::string site_folder(fabric_profiles_directory);

std::string fault_of(const std::string& text) {
    const auto profile = parse_fabric_profile(text, "x.conf");
    return profile ? "(none)" : profile.error().message;
}

TEST(FabricProfile, AllThatAFileSays) {
    const auto profile = parse_fabric_profile("# ours\n"
                                              "product = PowerBox *\nproduct=Box#2\r\n\n"
                                              "link = ethernet # RoCE\n"
                                              "note = ask ops\n"
                                              "NCCL_A = 1\n"
                                              "source = https://a.example/x=1\n"
                                              "NCCL_IB_TC = 106   # lossless class\n"
                                              "  RCCL_B2 = a b=c # \x1b[0m\n",
                                              "ours.conf");
    ASSERT_TRUE(profile) << profile.error().message;
    EXPECT_EQ(profile->file, "ours.conf");
    EXPECT_EQ(profile->note, "ask ops");
    EXPECT_EQ(profile->machine.at("product"), (std::vector<std::string>{"PowerBox *", "Box"}));
    EXPECT_EQ(profile->machine.at("link"), std::vector<std::string>{"ethernet"});
    EXPECT_EQ(profile->machine.size(), 2U);
    ASSERT_EQ(profile->values.size(), 3U);
    EXPECT_EQ(profile->values[0].source, "");
    EXPECT_EQ(profile->values[1].name, "NCCL_IB_TC");
    EXPECT_EQ(profile->values[1].value, "106");
    EXPECT_EQ(profile->values[1].why, "lossless class");
    EXPECT_EQ(profile->values[1].source, "https://a.example/x=1");
    EXPECT_EQ(profile->values[2].name, "RCCL_B2");
    EXPECT_EQ(profile->values[2].value, "a b=c");
    EXPECT_EQ(profile->values[2].why, "?[0m");
}

TEST(FabricProfile, AFaultHasItsLineItsCureAndCarets) {
    EXPECT_EQ(fault_of("gpus = 8\nprodct = A\n"),
              "x.conf:2: unknown key \"prodct\"; did you mean product?; file ignored\n"
              "    prodct = A\n"
              "    ^^^^^^");
    EXPECT_EQ(fault_of("gpus = 8\n\n NCCL_IB_HCA = mlx5 # ours\n"),
              "x.conf:3: rdma-nccl chooses this one for each node: leave it out, or set it in nccl.conf; file ignored\n"
              "    NCCL_IB_HCA = mlx5\n"
              "    ^^^^^^^^^^^");
}

TEST(FabricProfile, WhatNobodyCanMean) {
    const std::string good = "gpus = 8\nNCCL_A = 1\n";
    EXPECT_EQ(fault_of(good), "(none)");
    const auto expect = [&](const std::string& line, const std::string& fault) {
        EXPECT_NE(fault_of(good + line).find("x.conf:3: " + fault), std::string::npos)
            << line.substr(0, 80) << " gives " << fault_of(good + line);
    };
    for (const auto* const name :
         {"NCCL_IB_GID_INDEX", "NCCL_SOCKET_IFNAME", "NCCL_OOB_NET_IFNAME", "NCCL_NET", "NCCL_DEBUG",
          "NCCL_IB_RESILIENCY_PORT_FAILOVER", "NCCL_IB_RESILIENCY_PORT_RECOVERY"}) {
        expect(std::string(name) + "=1", "rdma-nccl chooses this one");
    }
    for (const auto* const name : {"NCCL_NET_PLUGIN",
                                   "NCCL_TUNER_PLUGIN",
                                   "NCCL_PROFILER_PLUGIN",
                                   "NCCL_ENV_PLUGIN",
                                   "NCCL_IBVERBS_LIB",
                                   "NCCL_LIBIBVERBS_SO",
                                   "NCCL_CONF_FILE",
                                   "NCCL_DEBUG_FILE",
                                   "NCCL_TOPO_DUMP_FILE",
                                   "NCCL_GRAPH_DUMP_FILE",
                                   "NCCL_GRAPH_DUMP_FILE_RANK",
                                   "NCCL_PROFILE_DUMP_FILE",
                                   "NCCL_INSPECTOR_ENABLE",
                                   "NCCL_TUNER_CONFIG_PATH",
                                   "NCCL_INSPECTOR_DUMP_DIR",
                                   "RCCL_ANP_CONFIG_FILE",
                                   "RCCL_REPLAY_FILE",
                                   "NCCL_CONF_FILES",
                                   "NCCL_A_CONFIG",
                                   "NCCL_A_PLUGINS",
                                   "NCCL_A_LIBS"}) {
        expect(std::string(name) + " = 1", "may load code, or name files that are not only read");
    }
    for (const auto* const name : {"NCCL_TOPO_FILE", "NCCL_GRAPH_FILE"}) {
        EXPECT_EQ(fault_of(good + name + " = /opt/x.xml\n"), "(none)") << name;
        expect(std::string(name) + " = x.xml", "expected the full path of a file, which begins with /");
    }
    for (const auto* const name : {"NCCL_IB_DATA_DIRECT", "NCCL_SOCKET_NTHREADS"}) {
        EXPECT_EQ(fault_of(good + name + " = 1\n"), "(none)") << name;
    }
    for (const auto* const name : {"PATH", "LD_PRELOAD", "NCCL_", "NCCL_a", "NCCL_A B", "nccl_x", "", "UCX_TLS"}) {
        expect(std::string(name) + " = 1", "unknown key");
    }
    expect("NCCL_A = 2", "is there twice");
    for (const auto& value : {std::string(), std::string(513, 'x'), std::string("a\x01"), std::string("a\0b", 3),
                              std::string("\xc3\xa4")}) {
        expect("NCCL_B = " + value, "expected KEY = VALUE of printable ASCII");
        expect("vendor = " + value, "expected KEY = VALUE of printable ASCII");
    }
    expect("NCCL_B", "expected KEY = VALUE");
    expect(std::string(3, '\0'), "unknown key");
    EXPECT_NE(fault_of("NCCL_A = 1\n").find("x.conf: says of no machine that it is for it"), std::string::npos);
    EXPECT_NE(fault_of("").find("says of no machine"), std::string::npos);
    EXPECT_NE(fault_of(std::string(1 << 20, 'x')).find("x.conf: has more than 65536 bytes"), std::string::npos);
    EXPECT_LT(fault_of(good + std::string(60000, '\t') + "\x02").size(), 300U);
}

TEST(FabricProfile, TheSitesFilesComeFirstAndInTheirOrder) {
    Tree tree;
    const auto ours = shipped_fabric_profiles();
    EXPECT_EQ(read_fabric_profiles(tree.root()).list.size(), ours.size());
    EXPECT_TRUE(read_fabric_profiles(tree.root()).faults.empty()) << "there need not be a folder";
    tree.file(site_folder + "/b.conf", "gpus = 1\n").file(site_folder + "/a.conf", "gpus = 2\n");
    tree.file(site_folder + "/.a.conf", "?").file(site_folder + "/a.conf~", "?").file(site_folder + "/README", "?");
    tree.link(site_folder + "/c.conf", "/srv/c");
    tree.file("/srv/c", "gpus = 3\n");
    const auto profiles = read_fabric_profiles(tree.root());
    EXPECT_TRUE(profiles.faults.empty()) << profiles.faults.front();
    ASSERT_EQ(profiles.list.size(), ours.size() + 3);
    EXPECT_EQ(profiles.list[0].file, site_folder + "/a.conf");
    EXPECT_EQ(profiles.list[1].file, site_folder + "/b.conf");
    EXPECT_EQ(profiles.list[2].file, site_folder + "/c.conf");
    EXPECT_EQ(profiles.list[3].file, ours[0].file);
}

TEST(FabricProfile, WhatCannotBeReadIsAFaultAndNoMore) {
    Tree tree;
    tree.directory(site_folder + "/a.conf").link(site_folder + "/b.conf", "b.conf");
    tree.link(site_folder + "/c.conf", "../../../../../../../../../../etc/hostname")
        .link(site_folder + "/d.conf", "/no");
    tree.file(site_folder + "/e.conf", std::string(1 << 20, '\n') + "x").file(site_folder + "/\n.conf", "x");
    ASSERT_EQ(::mkfifo(tree.at(site_folder + "/f.conf").c_str(), 0600), 0);
    tree.file(site_folder + "/good.conf", "gpus = 1\n");
    const auto profiles = read_fabric_profiles(tree.root());
    EXPECT_EQ(profiles.faults.size(), 7U);
    EXPECT_EQ(profiles.list.size(), shipped_fabric_profiles().size() + 1);
    for (const auto& fault : profiles.faults) {
        EXPECT_NE(fault.find("file ignored"), std::string::npos) << fault;
        const auto line = fault.substr(0, fault.find("\n    "));
        EXPECT_TRUE(std::ranges::all_of(line, [](char c) { return c >= ' ' && c <= '~'; })) << line;
    }
}

/// With white space where it would be cut, or other bytes.
TEST(FabricProfile, ATooLongFileIsNotCut) {
    for (const char filler : {'\n', '#'}) {
        Tree tree;
        const std::string start = "gpus = 1\nNCCL_A = 1\n";
        tree.file(site_folder + "/a.conf", start + std::string(longest_fabric_profile - start.size(), filler));
        EXPECT_TRUE(read_fabric_profiles(tree.root()).faults.empty()) << read_fabric_profiles(tree.root()).faults[0];
        tree.file(site_folder + "/a.conf", start + std::string(longest_fabric_profile, filler) + "\nNCCL_A = 2\n");
        const auto profiles = read_fabric_profiles(tree.root());
        ASSERT_EQ(profiles.faults.size(), 1U);
        EXPECT_NE(profiles.faults[0].find("a.conf: has more than 65536 bytes; file ignored"), std::string::npos)
            << profiles.faults[0];
        EXPECT_EQ(profiles.list.size(), shipped_fabric_profiles().size());
    }
}

TEST(FabricProfile, AThousandFilesAreNotRead) {
    Tree tree;
    for (int i = 0; i < 100; ++i) {
        tree.file(site_folder + "/" + std::to_string(i) + ".conf", "gpus = 1\n");
    }
    const auto profiles = read_fabric_profiles(tree.root());
    EXPECT_EQ(profiles.list.size(), shipped_fabric_profiles().size() + 64);
    ASSERT_EQ(profiles.faults.size(), 1U);
    EXPECT_NE(profiles.faults[0].find("only the first 64 profiles count"), std::string::npos) << profiles.faults[0];
}

TEST(FabricProfile, FirmwareNamesOfTheNode) {
    Tree tree;
    tree.file("/sys/class/dmi/id/sys_vendor", "Example Inc.\n").file("/sys/class/dmi/id/product_name", "\n");
    EXPECT_EQ(read_fabric_profiles(tree.root()).firmware,
              (std::map<std::string, std::string, std::less<>>{{"vendor", "Example Inc."}}));
}

/// A machine with these GPUs and, if it has a rate, one port.
struct Shape {
    std::map<std::string, std::string, std::less<>> firmware = {};
    std::string gpu = "nvidia";
    int gpus = 8;
    LinkLayer link = LinkLayer::Ethernet;
    double rate = 200;
    std::string driver = "mlx5_core";
};

std::optional<FoundFabricProfile> found(const std::vector<FabricProfile>& list, const Shape& shape) {
    Fabric fabric;
    for (int i = 0; i < shape.gpus; ++i) {
        Gpu gpu;
        gpu.pci = "0000:0" + std::to_string(i) + ":00.0";
        gpu.vendor = shape.gpu;
        fabric.gpus.push_back(gpu);
    }
    if (shape.rate > 0 && shape.link == LinkLayer::Ethernet) {
        test::add_roce(fabric, "mlx5_0", "eth1", "10.1.0.5", "", shape.rate).driver = shape.driver;
    } else if (shape.rate > 0) {
        test::add_infiniband(fabric, "mlx5_0", "", shape.rate).driver = shape.driver;
    }
    return find_fabric_profile({shape.firmware, list, {}}, fabric, choose_fabric(fabric, Settings()));
}

bool fits(const std::string& text, const Shape& shape) {
    return found({parse_fabric_profile(text, "x.conf").value()}, shape).has_value();
}

TEST(FabricProfile, EachKeyIsCompared) {
    const Shape shape{.firmware = {{"vendor", "Example Inc."}, {"product", "Box 8"}, {"asset", "77"}}};
    for (const auto& [key, value] : std::map<std::string, std::string>{{"vendor", "Example Inc."},
                                                                       {"product", "Box 8"},
                                                                       {"asset", "77"},
                                                                       {"gpu", "nvidia"},
                                                                       {"gpus", "8"},
                                                                       {"driver", "mlx5_core"},
                                                                       {"link", "ethernet"},
                                                                       {"rate", "200"}}) {
        EXPECT_TRUE(fits(key + "=" + value, shape)) << key;
        EXPECT_FALSE(fits(key + "=" + value + "0", shape)) << key;
        const std::string other = key == "gpus" ? "gpu" : "gpus";
        EXPECT_FALSE(fits(other + "=*\n" + key + "=x" + value, shape)) << key << ": all keys must fit";
        EXPECT_TRUE(fits(key + "=x\n" + key + "=" + value, shape)) << key << ": one of its lines must";
    }
    EXPECT_FALSE(fits("vendor = *", {})) << "the firmware does not say";
    EXPECT_FALSE(fits("rate = *", {.rate = 0})) << "no port is in use";
    EXPECT_TRUE(fits("link = infiniband", {.link = LinkLayer::InfiniBand}));
    EXPECT_TRUE(fits("gpus = 0", {.gpus = 0}));
}

/// The setting `hca` may name ports of several kinds.
TEST(FabricProfile, AKeyInWhichThePortsInUseDifferFitsNothing) {
    Fabric fabric;
    test::add_roce(fabric, "mlx5_0", "eth1", "10.1.0.5", "", 200);
    Settings settings;
    settings.hca.items = {{"mlx5_0", {}}, {"mlx5_1", {}}};
    const auto fits = [&](const std::string& line) {
        const FabricProfiles profiles{{}, {parse_fabric_profile(line, "x.conf").value()}, {}};
        return find_fabric_profile(profiles, fabric, choose_fabric(fabric, settings)).has_value();
    };
    EXPECT_TRUE(fits("rate = 200\n"));
    test::add_roce(fabric, "mlx5_1", "eth3", "10.3.0.5", "", 0);
    EXPECT_TRUE(fits("rate = 200\n")) << "one is not known";
    fabric.hcas.pop_back();
    test::add_roce(fabric, "mlx5_1", "eth2", "10.2.0.5", "", 100).driver = "bnxt_en";
    EXPECT_FALSE(fits("rate = *\n"));
    EXPECT_FALSE(fits("driver = *\n"));
    EXPECT_TRUE(fits("link = ethernet\n"));
}

TEST(FabricProfile, StarsStandForAnyText) {
    const Shape shape{.firmware = {{"product", "p5en.48xlarge"}}};
    for (const auto* const pattern :
         {"*", "**", "p5*", "*large", "p5*xl*", "p*.*e", "p5en.48xlarge*", "*p5en.48xlarge"}) {
        EXPECT_TRUE(fits(std::string("product=") + pattern, shape)) << pattern;
    }
    for (const auto* const pattern :
         {"p5", "5*", "*xlarg", "p5.*", "p5en.48xlarge*e", "*p5en*p5en*", "p5en.48xlarge *x"}) {
        EXPECT_FALSE(fits(std::string("product=") + pattern, shape)) << pattern;
    }
    std::string stars;
    for (int i = 0; i < 200; ++i) {
        stars += "*a";
    }
    EXPECT_FALSE(fits("product=" + stars + "b", {.firmware = {{"product", std::string(256, 'a')}}})); // and at once
}

TEST(FabricProfile, TheFirstThatFitsCountsAndSaysWhy) {
    const auto first = parse_fabric_profile("gpus = 4\n", "a").value();
    const auto second = parse_fabric_profile("gpus = 8\nlink = ether*\n", "b").value();
    const auto third = parse_fabric_profile("gpus = 8\n", "c").value();
    const auto fitted = found({first, second, third}, {});
    ASSERT_TRUE(fitted);
    EXPECT_EQ(fitted->profile.file, "b");
    EXPECT_EQ(fitted->machine, "gpus 8, link ethernet");
}

// Ours.

const std::vector<FabricProfile>& shipped() {
    static const auto list = read_fabric_profiles(Tree().root()).list;
    return list;
}

TEST(ShippedFabricProfiles, AreTheFilesOfTheFolder) {
    std::set<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator("etc/profiles.d")) {
        files.insert(entry.path().filename());
    }
    std::set<std::string> names;
    for (const auto& profile : shipped()) {
        names.insert(profile.file);
    }
    EXPECT_EQ(names, files);
}

TEST(ShippedFabricProfiles, EveryValueHasAReasonAndAPublicSource) {
    for (const auto& profile : shipped()) {
        EXPECT_FALSE(profile.values.empty() && profile.note.empty()) << profile.file;
        EXPECT_TRUE(profile.machine.contains("asset") || profile.machine.contains("product") ||
                    profile.machine.contains("driver"))
            << profile.file;
        for (const auto& value : profile.values) {
            EXPECT_FALSE(value.why.empty()) << profile.file << " " << value.name;
            EXPECT_TRUE(value.source.starts_with("https://")) << profile.file << " " << value.name;
        }
    }
}

TEST(ShippedFabricProfiles, EachFitsItsMachineAndNoOther) {
    const std::string azure = "7783-7084-3265-9085-8269-3286-77";
    const auto expect = [](const std::string& file, const Shape& shape, const std::string& what) {
        const auto fitted = found(shipped(), shape);
        EXPECT_EQ(fitted ? fitted->profile.file : "", file) << what;
    };
    const Shape oci{.firmware = {{"asset", "OracleCloud.com"}}};
    const auto at = [](Shape shape, LinkLayer link, double rate) {
        shape.link = link;
        shape.rate = rate;
        return shape;
    };
    expect("oci-h100.conf", oci, "H100: 200 Gb/s");
    expect("oci-h100.conf", at(oci, LinkLayer::Ethernet, 400), "H200: 400 Gb/s");
    expect("oci-a100.conf", at(oci, LinkLayer::Ethernet, 100), "A100: 100 Gb/s");
    Shape other = oci;
    other.gpus = 4;
    expect("", other, "GB200: 4 GPUs");
    other = oci;
    other.gpu = "amd";
    expect("", other, "MI300X");
    const Shape vm{.firmware = {{"asset", azure}}, .link = LinkLayer::InfiniBand};
    expect("azure-nd-a100-v4.conf", vm, "ND A100 v4: HDR");
    expect("azure-nd-h100-v5.conf", at(vm, LinkLayer::InfiniBand, 400), "ND H100 v5: NDR");
    other = vm;
    other.gpus = 0;
    expect("", other, "HBv4");
    expect("", at(vm, LinkLayer::Ethernet, 400), "no RoCE there");
    for (const auto* const instance : {"p4d.24xlarge", "p4de.24xlarge", "p5.48xlarge", "p5e.48xlarge", "p5en.48xlarge",
                                       "p6-b200.48xlarge", "p6-b300.48xlarge", "p6e-gb200.36xlarge"}) {
        expect("aws-efa.conf", {.firmware = {{"product", instance}}, .rate = 0}, instance);
    }
    expect("", {.firmware = {{"product", "p3dn.24xlarge"}}, .rate = 0}, "P3dn");
    expect("amd-ainic.conf", {.gpu = "amd", .rate = 400, .driver = "ionic"}, "Pollara");
    expect("", {.gpu = "amd", .rate = 400, .driver = "bnxt_en"}, "Thor 2");
    expect("", {.rate = 400, .driver = "ionic"}, "no AMD GPUs");
    expect("gcp-gib.conf", {.firmware = {{"product", "Google Compute Engine"}}, .rate = 400}, "A3 Ultra");
    expect("", {.firmware = {{"product", "Google Compute Engine"}}, .rate = 0}, "A3 Mega: no RDMA");
    expect("", {.firmware = {{"product", "DGXH100"}, {"vendor", "NVIDIA"}}}, "no cloud");
    expect("", {}, "the firmware does not say");
}

Shape at_rate(Shape shape, double rate) {
    shape.rate = rate;
    return shape;
}

/// Returns the keys in which a machine may not differ, lest this profile is not found for it.
std::set<std::string> keys_that_count(const std::string& file, const Shape& shape) {
    std::map<std::string, Shape> others;
    for (const auto& [key, value] : shape.firmware) {
        (others[key] = shape).firmware[key] = "another one";
    }
    (others["gpu"] = shape).gpu = shape.gpu == "amd" ? "nvidia" : "amd";
    (others["gpus"] = shape).gpus = shape.gpus + 1;
    (others["driver"] = shape).driver = "bnxt_en";
    (others["link"] = shape).link = shape.link == LinkLayer::Ethernet ? LinkLayer::InfiniBand : LinkLayer::Ethernet;
    (others["rate"] = shape).rate = 50;
    std::set<std::string> keys;
    const auto is_found = [&file](const Shape& machine) {
        const auto fitted = found(shipped(), machine);
        return fitted && fitted->profile.file == file;
    };
    EXPECT_TRUE(is_found(shape)) << file;
    for (const auto& [key, other] : others) {
        if (!is_found(other)) {
            keys.insert(key);
        }
    }
    return keys;
}

TEST(ShippedFabricProfiles, DependOnEachOfTheirKeys) {
    using Keys = std::set<std::string>;
    const Shape oci{.firmware = {{"asset", "OracleCloud.com"}, {"product", "X"}, {"vendor", "X"}}, .rate = 100};
    const Shape azure{.firmware = {{"asset", "7783-7084-3265-9085-8269-3286-77"}}, .link = LinkLayer::InfiniBand};
    const Shape gcp{.firmware = {{"product", "Google Compute Engine"}, {"vendor", "Google"}}, .rate = 400};
    const std::map<std::string, std::pair<Shape, Keys>> machines{
        {"amd-ainic.conf", {{.gpu = "amd", .rate = 400, .driver = "ionic"}, {"gpu", "driver"}}},
        {"aws-efa.conf", {{.firmware = {{"product", "p5.48xlarge"}}, .rate = 0}, {"product"}}},
        {"azure-nd-a100-v4.conf", {azure, {"asset", "gpu", "gpus", "link", "rate"}}},
        {"azure-nd-h100-v5.conf", {at_rate(azure, 400), {"asset", "gpu", "gpus", "link", "rate"}}},
        {"gcp-gib.conf", {gcp, {"product", "gpu", "driver", "link"}}},
        {"oci-a100.conf", {oci, {"asset", "gpu", "gpus", "driver", "link", "rate"}}},
        {"oci-h100.conf", {at_rate(oci, 200), {"asset", "gpu", "gpus", "driver", "link", "rate"}}},
    };
    for (const auto& profile : shipped()) {
        const auto& [machine, keys] = machines.at(profile.file);
        EXPECT_EQ(keys_that_count(profile.file, machine), keys) << profile.file;
    }
}

} // namespace
} // namespace rdma_nccl
