// SPDX-License-Identifier: Apache-2.0
// What surrounds the judgements: expectations, kept state, drains, parsers of what the kernel says, output.
#include "lib/base/format.h"
#include "lib/base/json.h"
#include "lib/sys/sysroot.h"
#include "tests/unit/check_values.h"
#include "tests/unit/fabric_machine.h"
#include "tests/unit/hang.h"
#include "tests/unit/tree.h"
#include "tools/check/check.h"
#include "tools/check/facts.h"
#include "tools/check/result.h"
#include "tools/common/scontrol.h"

#include <cerrno>
#include <filesystem>
#include <gtest/gtest.h>
#include <limits>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace rdma_nccl::test {
namespace {

using namespace check;

TEST(CheckExpect, KeysAndSections) {
    const auto text = "hcas = 9 # all\nrate=400\nmemlock = unlimited\nshm = 64G\nlink = roce\n"
                      "[gpu[01-04],other]\ngpus = 8\nignore = pci.acs, iommu\n[*]\ngdr = on\n";
    const auto here = parse_expectations(text, "f", "gpu03.example.org");
    EXPECT_TRUE(here.faults.empty()) << here.faults.front();
    EXPECT_EQ(here.expectations.hcas, 9U);
    EXPECT_EQ(here.expectations.rate_gbps, 400);
    EXPECT_EQ(here.expectations.memlock, std::numeric_limits<std::uint64_t>::max());
    EXPECT_EQ(here.expectations.shm_mib, 65536U);
    EXPECT_EQ(here.expectations.link, LinkLayer::Ethernet);
    EXPECT_EQ(here.expectations.gpus, 8U);
    EXPECT_TRUE(here.expectations.ignore.contains("pci.acs"));
    EXPECT_EQ(here.expectations.gdr, true);
    const auto elsewhere = parse_expectations(text, "f", "login");
    EXPECT_FALSE(elsewhere.expectations.gpus);
    EXPECT_EQ(elsewhere.expectations.gdr, true);
}

TEST(CheckExpect, FaultsAreSaidAndTheRestCounts) {
    const auto outcome = parse_expectations("hcaz = 3\nhcas = many\nports = 2\n[gpu[]\nrate\nignore = gid.usabel\n"
                                            "shm = 99999999999999T\nscontrol = scontrol\n",
                                            "f.conf", "n01");
    ASSERT_EQ(outcome.faults.size(), 7U);
    EXPECT_EQ(outcome.faults[0], "f.conf:1: unknown key \"hcaz\"; did you mean hcas?; line ignored");
    EXPECT_NE(outcome.faults[4].find("did you mean gid.usable?"), std::string::npos) << outcome.faults[4];
}

TEST(CheckExpect, WhatIsLearnedIsMet) {
    const auto facts = good_node();
    const auto text = learned_expectations(facts, "now");
    EXPECT_TRUE(text.starts_with(learned_mark));
    const auto outcome = parse_expectations(text, "f", "n01");
    EXPECT_TRUE(outcome.faults.empty());
    EXPECT_EQ(outcome.expectations.ports, 2U);
    EXPECT_EQ(outcome.expectations.pcie_width, 16U);
    EXPECT_EQ(outcome.expectations.mtu, 9000U);
    EXPECT_EQ(overall(judge_node(facts, outcome.expectations)), NodeStatus::Ok);
    auto worse = facts;
    worse.fabric.hcas.pop_back();
    choose_again(worse);
    EXPECT_EQ(overall(judge_node(worse, outcome.expectations)), NodeStatus::Critical);
}

TEST(CheckResult, Overall) {
    using enum Status;
    const auto of = [](std::initializer_list<Status> list) {
        Findings results;
        for (const auto status : list) {
            results.push_back({.status = status});
        }
        return overall(results);
    };
    EXPECT_EQ(of({}), NodeStatus::Ok);
    EXPECT_EQ(of({Pass, Skip}), NodeStatus::Ok);
    EXPECT_EQ(of({Pass, Warn}), NodeStatus::Warning);
    EXPECT_EQ(of({Warn, Error}), NodeStatus::Unknown);
    EXPECT_EQ(of({Error, Fail}), NodeStatus::Critical);
}

TEST(CheckState, IsKept) {
    Tree tree;
    const auto path = tree.at("state").string();
    EXPECT_FALSE(read_state(path).value());
    State state;
    state.boot_id = "boot";
    state.time_us = 5;
    state.counts["mlx5_1:1 symbol_error"] = std::numeric_limits<std::uint64_t>::max();
    state.gid_indices["mlx5_1:1"] = 3;
    state.critical_in_a_row = 2;
    state.drain = "a \\ reason [root@2026-11-22T05:55:00]";
    ASSERT_TRUE(replace_file(path, state_text(state), 0644));
    const auto again = read_state(path).value();
    ASSERT_TRUE(again);
    EXPECT_EQ(again->boot_id, "boot");
    EXPECT_EQ(again->counts, state.counts);
    EXPECT_EQ(again->gid_indices, state.gid_indices);
    EXPECT_EQ(again->critical_in_a_row, 2U);
    EXPECT_EQ(again->drain, state.drain);
}

TEST(CheckState, BrokenTextIsNone) {
    const auto with = [](const std::string& more) {
        return parse_state(R"({"boot_id":"b","time_us":1,"counts":{},"gid_indices":{},"critical_in_a_row":0)" + more +
                           "}");
    };
    EXPECT_EQ(with("").value().drain, "") << "written before drains were kept";
    EXPECT_FALSE(with(R"(,"drain":7)"));
    EXPECT_FALSE(with(R"(,"drain":null)"));
    EXPECT_FALSE(with(R"(,"counts":{"a":-1})"));
    State state;
    state.drain = "\xff \"";
    const auto whole = state_text(state);
    EXPECT_TRUE(parse_state(whole));
    for (std::size_t size = 0; size + 2 < whole.size(); ++size) {
        EXPECT_FALSE(parse_state(whole.substr(0, size))) << size;
    }
    Tree tree;
    const auto path = tree.at("state").string();
    for (const std::string_view text : {std::string_view(), std::string_view("junk"), std::string_view("\0\0\0", 3)}) {
        ASSERT_TRUE(replace_file(path, text, 0644));
        const auto none = read_state(path);
        ASSERT_FALSE(none);
        EXPECT_EQ(none.error().os_error, 0) << "it may be moved away";
    }
    EXPECT_NE(read_state("/dev/null").error().os_error, 0) << "it may not";
    EXPECT_NE(read_state(tree.path().string()).error().os_error, 0);
}

/// What fsync was asked for, in this test program: names, in order; and what it answers.
std::vector<std::string> synced;
int sync_answer = 0;

TEST(CheckState, SurvivesALossOfPower) {
    Tree tree;
    const auto path = tree.at("state").string();
    const auto directory = std::filesystem::canonical(tree.path()).string();
    synced.clear();
    ASSERT_TRUE(replace_file(path, "old", 0644));
    ASSERT_EQ(synced.size(), 2U);
    EXPECT_TRUE(synced[0].starts_with(directory + "/state.")) << synced[0] << ": before it is renamed";
    EXPECT_EQ(synced[1], directory);
    sync_answer = EIO;
    EXPECT_FALSE(replace_file(path, "new", 0644));
    sync_answer = 0;
    EXPECT_EQ(tree.root().read("/state").value(), "old");
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(tree.path()), {}), 1) << "nothing is left beside it";
}

TEST(CheckState, OnlyRegularFilesAreReplaced) {
    Tree tree;
    EXPECT_FALSE(replace_file("/dev/null", "x", 0644));
    EXPECT_FALSE(replace_file(tree.at("no/such/directory").string(), "x", 0644));
    const auto path = tree.at("file").string();
    ASSERT_TRUE(replace_file(path, "x", 0640));
    struct stat status {};
    ASSERT_EQ(::stat(path.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777U, 0640U);
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(tree.path()), {}), 1) << "nothing is left beside it";
}

constexpr const char* idle_node = "NodeName=n01 Arch=x86_64 State=IDLE+DRAIN ThreadsPerCore=2 "
                                  "Reason=port.count: 7 [of 8] ports [root@2026-11-22T05:55:00]\n";

TEST(CheckDrain, ReadsSlurmsNode) {
    const auto node = parse_slurm_node(idle_node);
    ASSERT_TRUE(node);
    EXPECT_EQ(node->name, "n01");
    EXPECT_TRUE(node->drained);
    EXPECT_FALSE(node->down);
    EXPECT_EQ(node->reason, "port.count: 7 [of 8] ports");
    EXPECT_EQ(node->shown, "port.count: 7 [of 8] ports [root@2026-11-22T05:55:00]");
    EXPECT_FALSE(parse_slurm_node("NodeName=n01 State=MIXED*\n")->drained);
    EXPECT_TRUE(parse_slurm_node("NodeName=n01 State=DOWN*+DRAIN\n")->down);
    EXPECT_FALSE(parse_slurm_node("Node n01 not found\n"));
    EXPECT_FALSE(parse_slurm_node(""));
    for (const char* const reason : {"", "x", "x [", "x [root@", " [", "]"}) {
        const auto half = parse_slurm_node(format_text("NodeName=n01 State=DRAIN Reason={}", reason));
        EXPECT_EQ(half.value().shown, "") << reason << ": nobody is known to have given it";
    }
    for (const char* const more : {" ReservationName=y", " Comment=see [bob@2] Reason=z [bob@3] and"}) {
        const auto whole = parse_slurm_node(format_text("NodeName=n01 State=DRAIN Reason=a [b] x [root@1]{}", more));
        EXPECT_EQ(whole.value().shown, "a [b] x [root@1]") << more;
    }
}

TEST(CheckDrain, UndoesOnlyItsOwn) {
    using enum DrainAction;
    const auto drained = [](const std::string& reason, const std::string& by) {
        return parse_slurm_node(format_text("NodeName=n01 State=IDLE+DRAIN Reason={}{}", reason, by)).value();
    };
    const auto words = drain_reason("port.count: 7 ports");
    const std::string by = " [root@2026-11-22T05:55:00]";
    const auto own = words + by;
    const SlurmNode good;
    const auto ours = drained(words, by);
    const auto human = drained("replace DIMM", by);
    EXPECT_EQ(decide_drain(NodeStatus::Critical, good, "", 1, 1).action, Drain);
    EXPECT_EQ(decide_drain(NodeStatus::Critical, good, "", 1, 2).action, None);
    EXPECT_EQ(decide_drain(NodeStatus::Critical, good, own, 2, 2).action, Drain);
    EXPECT_EQ(decide_drain(NodeStatus::Critical, ours, own, 9, 1).action, None);
    EXPECT_EQ(decide_drain(NodeStatus::Critical, human, own, 9, 1).action, None);
    for (const auto status : {NodeStatus::Ok, NodeStatus::Warning}) {
        EXPECT_EQ(decide_drain(status, good, own, 0, 1).action, None);
        EXPECT_EQ(decide_drain(status, ours, own, 0, 1).action, Undrain);
        EXPECT_EQ(decide_drain(status, human, own, 0, 1).action, None);
        EXPECT_EQ(decide_drain(status, drained("", ""), "", 0, 1).action, None);
        EXPECT_EQ(decide_drain(status, drained("rdma-nccl: port.count: ask Bob", by), own, 0, 1).action, None);
    }
    EXPECT_EQ(decide_drain(NodeStatus::Unknown, ours, own, 0, 1).action, None);
    EXPECT_EQ(decide_drain(NodeStatus::Unknown, good, "", 0, 1).action, None);
}

TEST(CheckDrain, AnotherTimeUserOrWordMakesItAnothers) {
    const auto words = drain_reason("port.count: 7 ports");
    const auto own = words + " [root@2026-11-22T05:55:00]";
    for (const auto& reason :
         {words + " [root@2026-11-22T05:55:01]", words + " [bob@2026-11-22T05:55:00]",
          words + " of 8 [root@2026-11-22T05:55:00]", own + " wait for Bob [bob@2026-11-22T06:00:00]", words}) {
        const auto node = parse_slurm_node("NodeName=n01 State=IDLE+DRAIN Reason=" + reason).value();
        for (const auto& kept : {own, std::string()}) {
            const auto decision = decide_drain(NodeStatus::Ok, node, kept, 0, 1);
            EXPECT_EQ(decision.action, DrainAction::None) << reason;
            EXPECT_NE(decision.why.find("run scontrol update NodeName=n01 State=UNDRAIN"), std::string::npos)
                << decision.why;
        }
    }
}

TEST(CheckDrain, AReasonIsOneLineWithoutQuotes) {
    EXPECT_EQ(drain_reason("port \"x\" [1]\nState=RESUME"), "rdma-nccl-7c1e: port  x   1 ?State=RESUME");
    EXPECT_LE(drain_reason(std::string(10000, 'a')).size(), 220U);
}

TEST(CheckDrain, ScontrolThatFailsOrHangsIsNoAnswer) {
    using std::chrono::milliseconds;
    EXPECT_EQ(run_scontrol({"echo", "State"}, milliseconds(10000)).value(), "State\n");
    EXPECT_FALSE(run_scontrol({"/bin/false"}, milliseconds(10000)));
    EXPECT_FALSE(run_scontrol({"/there/is/no/scontrol"}, milliseconds(10000)));
    EXPECT_FALSE(run_scontrol({"there-is-no-scontrol"}, milliseconds(10000)));
    EXPECT_FALSE(run_scontrol({"sleep", "1000"}, milliseconds(100)));
    const auto late = run_scontrol({"echo", "State"}, milliseconds(0));
    ASSERT_FALSE(late);
    EXPECT_NE(late.error().message.find("no time is left"), std::string::npos) << "it was started";
}

TEST(CheckInspect, WhatTheKernelSays) {
    EXPECT_EQ(parse_link_speed("16.0 GT/s PCIe"), 16);
    EXPECT_EQ(parse_link_speed("8 GT/s"), 8);
    EXPECT_EQ(parse_link_speed("2.5 GT/s PCIe"), 2.5);
    for (const char* const text : {"Unknown", "Unknown speed", "", "16.0", "nan GT/s", "-8 GT/s"}) {
        EXPECT_FALSE(parse_link_speed(text)) << text;
    }
    EXPECT_EQ(parse_link_width("16"), 16U);
    EXPECT_FALSE(parse_link_width("0"));
    EXPECT_FALSE(parse_link_width("255"));
    KernelFacts kernel;
    parse_nvidia_version("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build\nGCC 12.2",
                         kernel);
    EXPECT_EQ(kernel.nvidia_version, "570.86.15");
    EXPECT_TRUE(kernel.nvidia_open);
    parse_nvidia_version("NVRM version: NVIDIA UNIX x86_64 Kernel Module  525.85.12  Sat Jan 28", kernel);
    EXPECT_EQ(kernel.nvidia_version, "525.85.12");
    EXPECT_FALSE(kernel.nvidia_open);
}

TEST(CheckInspect, RootOfAUserNamespaceIsNotTheNodes) {
    EXPECT_TRUE(is_root(0, "         0          0 4294967295\n"));
    EXPECT_FALSE(is_root(1000, "         0          0 4294967295\n"));
    EXPECT_FALSE(is_root(0, "         0       1000          1\n"));
    EXPECT_FALSE(is_root(0, "         0       1000          1\n         1     100000      65536\n"));
    EXPECT_FALSE(is_root(0, ""));
}

TEST(CheckInspect, LimitsOfAProcess) {
    constexpr const char* text = "Limit                     Soft Limit           Hard Limit           Units     \n"
                                 "Max open files            1024                 524288               files     \n"
                                 "Max locked memory         8388608              unlimited            bytes     \n";
    EXPECT_EQ(parse_limit(text, "Max open files")->hard, 524288U);
    EXPECT_EQ(parse_limit(text, "Max locked memory")->soft, 8388608U);
    EXPECT_FALSE(parse_limit(text, "Max locked memory")->hard);
    EXPECT_FALSE(parse_limit(text, "Max stack size"));
    EXPECT_FALSE(parse_limit("Max open files", "Max open files"));
}

TEST(CheckInspect, SlurmdIsRootsOwn) {
    Tree tree;
    tree.file("/proc/9/comm", "bash\n").file("/proc/9/status", "Name:\tbash\nUid:\t0\t0\t0\t0\n");
    tree.file("/proc/80/comm", "slurmd\n").file("/proc/80/status", "Name:\tslurmd\nUid:\t1000\t0\t0\t0\n");
    tree.file("/proc/81/comm", "slurmd\n"); // has just ended
    EXPECT_FALSE(find_slurmd(tree.root())) << "a user's process may have any name";
    tree.file("/proc/82/comm", "slurmd\n").file("/proc/82/status", "Name:\tslurmd\nUid:\t0\t0\t0\t0\n");
    EXPECT_EQ(find_slurmd(tree.root()), "82");
}

/// One HCA, asked while its driver does not answer for so long.
Facts inspect_while_it_hangs(std::chrono::milliseconds time) {
    Machine machine;
    machine.connectx("mlx5_0", "eth0", "10.0.0.1", below_root_port("50", "53"));
    auto hang =
        std::make_optional<Hang>(std::vector{machine.tree().at("/sys/class/infiniband/mlx5_0/ports/1/state").string()});
    std::thread clock([&hang, time] {
        std::this_thread::sleep_for(time);
        hang.reset();
    });
    auto facts = inspect(machine.tree().root(), {}, Environment::from(environ), [](std::string_view) {});
    clock.join();
    return facts;
}

TEST(CheckInspect, ABusyHcaIsLookedAtAgain) {
    using std::chrono::milliseconds;
    Tree tree;
    if (!Hang({tree.file("/any", "").at("/any").string()}).works()) {
        GTEST_SKIP() << "no fanotify permission events here";
    }
    EXPECT_TRUE(inspect_while_it_hangs(milliseconds(3000)).fabric.hcas.at(0).answers);
    const auto hung = inspect_while_it_hangs(milliseconds(6000));
    EXPECT_FALSE(hung.fabric.hcas.at(0).answers);
    EXPECT_TRUE(hung.not_asked.empty());
}

std::string config_with(std::size_t size, unsigned acs_control, unsigned device_control) {
    std::string space(4096, '\0');
    space[0x34] = 0x60;
    space[0x60] = 0x10;
    space[0x68] = static_cast<char>(device_control);
    space[0x100] = 0x01; // AER, then ACS at 0x140
    space[0x102] = 0x01;
    space[0x103] = 0x14;
    space[0x140] = 0x0d;
    space[0x146] = static_cast<char>(acs_control);
    space.resize(size);
    return space;
}

TEST(CheckInspect, ConfigurationSpace) {
    const auto read = [](const std::string& bytes) {
        PciFunction function;
        read_pci_config(bytes, function);
        return function;
    };
    const auto all = read(config_with(4096, 0x1d, 0x10));
    EXPECT_TRUE(all.config_known && all.config_extended);
    EXPECT_EQ(all.acs_redirects, true);
    EXPECT_EQ(all.relaxed_orders, true);
    EXPECT_EQ(read(config_with(4096, 0x11, 0)).acs_redirects, false) << "source validation redirects nothing";
    EXPECT_EQ(read(config_with(4096, 0, 0)).relaxed_orders, false);
    const auto legacy = read(config_with(256, 0x1d, 0x10));
    EXPECT_TRUE(legacy.config_known && !legacy.config_extended && !legacy.acs_redirects);
    const auto users = read(config_with(64, 0x1d, 0x10));
    EXPECT_TRUE(!users.config_known && !users.relaxed_orders);
    EXPECT_FALSE(read("").config_known);
    EXPECT_FALSE(read(std::string(4096, '\xff')).acs_redirects.has_value());
    std::string circle(4096, '\0');
    circle[0x34] = 0x40;
    circle[0x41] = 0x40;
    circle[0x102] = 0;
    circle[0x103] = 0x10;
    EXPECT_FALSE(read(circle).relaxed_orders.has_value());
}

TEST(CheckOutput, OfOneReport) {
    auto facts = good_node();
    facts.fabric.hcas[0].answers = facts.fabric.hcas[1].answers = false;
    Report report{.host = "n01", .results = judge_node(facts, {}), .facts = &facts};
    const auto text = as_text(report, false, false);
    EXPECT_TRUE(text.starts_with("n01: CRITICAL: 2 failed, ")) << text;
    EXPECT_NE(text.find("FAIL   hca.answers            mlx5_1, mlx5_2: does not answer"), std::string::npos) << text;
    EXPECT_EQ(text.find("PASS"), std::string::npos);
    EXPECT_NE(as_text(report, true, false).find("PASS"), std::string::npos);
    const auto line = as_nagios(report);
    EXPECT_TRUE(line.starts_with("RDMA CRITICAL - hca.answers: mlx5_1, mlx5_2: does not")) << line;
    EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
    const auto json = as_json(report);
    EXPECT_EQ(json["status"], "CRITICAL");
    EXPECT_EQ(json["checks"].size(), report.results.size());
    const auto metrics = as_prometheus(report);
    EXPECT_TRUE(metrics.starts_with("# HELP rdma_nccl_check_")); // the mark of replace_metrics()
    EXPECT_NE(metrics.find("rdma_nccl_check_result{check=\"hca.answers\",item=\"mlx5_1\"} 2\n"), std::string::npos);
    EXPECT_NE(metrics.find("rdma_nccl_check_success 1\n"), std::string::npos);
    EXPECT_EQ(metrics.find("# TYPE rdma_nccl_check_result"), metrics.rfind("# TYPE rdma_nccl_check_result"));
    report.facts = nullptr;
    report.results.clear();
    EXPECT_NE(as_prometheus(report).find("rdma_nccl_check_success 0\n"), std::string::npos);
    EXPECT_TRUE(as_prometheus(report).starts_with("# HELP rdma_nccl_check_"));
}

} // namespace
} // namespace rdma_nccl::test

/// In place of the C library's, for CheckState.SurvivesALossOfPower.
extern "C" int fsync(int fd) {
    using namespace rdma_nccl::test;
    std::error_code code;
    synced.push_back(std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd), code).string());
    errno = sync_answer;
    return sync_answer == 0 ? 0 : -1;
}
