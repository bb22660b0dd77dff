// SPDX-License-Identifier: Apache-2.0
// The real plugin under a fake Slurm: contexts, options, environments, failures.

#include "lib/base/forked_worker.h"
#include "lib/base/text.h"
#include "lib/exchange/client.h"
#include "lib/exchange/server.h"
#include "lib/fabric_profile/profile.h"
#include "lib/net/tcp.h"
#include "lib/slurm/step.h"
#include "lib/sys/environment.h"
#include "lib/sys/resources.h"
#include "tests/spank/fake_slurm.h"
#include "tests/unit/channel.h"
#include "tests/unit/hang.h"
#include "tests/unit/tree.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <grp.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <mutex>
#include <poll.h>
#include <sched.h>
#include <sstream>
#include <string>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace rdma_nccl::test {
namespace {

constexpr const char* bare = nullptr;

/// One RoCE HCA with the usual four GIDs, its netdev with an address, and nothing else.
void write_machine(Tree& tree, const std::string& ipv4 = "10.1.0.5", const std::string& gid = "0a01:0005") {
    const std::string port = "/sys/class/infiniband/mlx5_0/ports/1/";
    tree.file("/sys/class/infiniband/mlx5_0/node_type", "1: CA\n");
    tree.file(port + "state", "4: ACTIVE\n")
        .file(port + "link_layer", "Ethernet\n")
        .file(port + "rate", "100 Gb/sec (4X EDR)\n");
    const std::string link_local = "fe80:0000:0000:0000:0202:03ff:fe04:0506";
    const std::string mapped = "0000:0000:0000:0000:0000:ffff:" + gid;
    for (int index = 0; index < 4; ++index) {
        const std::string name = std::to_string(index);
        tree.file(port + "gids/" + name, (index < 2 ? link_local : mapped) + "\n");
        tree.file(port + "gid_attrs/types/" + name, index % 2 == 0 ? "IB/RoCE v1\n" : "RoCE v2\n");
        tree.file(port + "gid_attrs/ndevs/" + name, "eth0\n");
    }
    tree.file("/sys/class/net/eth0/flags", "0x1003\n").file("/sys/class/net/eth0/operstate", "up\n");
    tree.file("/sys/class/net/eth0/carrier", "1\n").file("/sys/class/net/eth0/mtu", "1500\n");
    tree.file("/proc/net/route", "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
                                 "eth0\t0000010A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n");
    tree.file("/proc/net/fib_trie", "Local:\n  +-- 0.0.0.0/0 1 0 0\n     |-- " + ipv4 + "\n        /32 host LOCAL\n");
    tree.file("/proc/sys/net/ipv4/ip_local_port_range", "32768\t60999\n");
}

class PluginTest : public ::testing::Test {
protected:
    PluginTest() {
        write_machine(tree);
        slurm.plugin_arguments = {"conf=/nonexistent/rdma-nccl.conf", "root=" + tree.path().string(), "hold=off",
                                  "memlock=ignore", "exchange=off"};
        slurm.step.nodes = {"n01", "n02"};
        slurm.step.node_count = 2;
        slurm.step.task_count = 4;
        slurm.step.global_ids = {0, 1};
        slurm.step.layout = {0, 0, 1, 1};
        slurm.step.addresses = {{"n01", "10.1.0.5"}, {"n02", "10.1.0.6"}};
        slurm.step.environment = {
            {"SLURM_JOB_ID", "12"},        {"SLURM_STEP_ID", "0"},        {"SLURM_STEP_NODELIST", "n[01-02]"},
            {"SLURM_STEP_NUM_NODES", "2"}, {"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_STEP_TASKS_PER_NODE", "2(x2)"},
            {"HOME", "/nonexistent"},      {"PATH", "/usr/bin"}};
    }

    /// srun, then slurmstepd with what srun left.
    void run(const std::optional<const char*>& option) {
        EXPECT_EQ(slurm.srun(option), 0);
        for (const auto& [name, value] : slurm.left_by_srun()) {
            slurm.step.environment[name] = value;
        }
        slurm.slurmstepd(option);
    }

    void make_one_task_per_node() {
        slurm.step.task_count = 2;
        slurm.step.global_ids = {0};
        slurm.step.layout = {0, 1};
        slurm.step.environment["SLURM_STEP_NUM_TASKS"] = "2";
        slurm.step.environment["SLURM_STEP_TASKS_PER_NODE"] = "1(x2)";
    }

    void make_one_node() {
        slurm.step.nodes = {"n01"};
        slurm.step.node_count = 1;
        slurm.step.task_count = 2;
        slurm.step.layout = {0, 0};
        slurm.step.environment["SLURM_STEP_NODELIST"] = "n01";
        slurm.step.environment["SLURM_STEP_NUM_NODES"] = "1";
        slurm.step.environment["SLURM_STEP_NUM_TASKS"] = "2";
        slurm.step.environment["SLURM_STEP_TASKS_PER_NODE"] = "2";
    }

    [[nodiscard]] std::string value(std::size_t task, const std::string& name) const {
        const auto& environment = slurm.tasks().at(task).environment;
        const auto found = environment.find(name);
        return found == environment.end() ? "(unset)" : found->second;
    }

    [[nodiscard]] bool said(const std::string& text) const { return slurm.messages().find(text) != std::string::npos; }

    /// Does `work` in a process of its own. Returns what the user was told there, and then what `work` returns.
    std::string messages_of_child(const std::function<std::string()>& work) {
        const auto file = tree.at("/messages");
        EXPECT_TRUE(run_in_child(std::chrono::seconds(20), [&] {
            const auto result = work();
            std::ofstream(file) << slurm.messages() << result;
        }));
        std::ostringstream text;
        text << std::ifstream(file).rdbuf();
        return text.str();
    }

    Tree tree;
    FakeSlurm slurm;
};

TEST_F(PluginTest, WithoutTheOptionNothingChanges) {
    const Variables before = slurm.step.environment;
    run(std::nullopt);
    EXPECT_EQ(slurm.step_environment(), before);
    for (const auto& task : slurm.tasks()) {
        Variables expected = before;
        expected["SLURM_PROCID"] = std::to_string(task.global_id);
        expected["SLURM_LOCALID"] = std::to_string(task.local_id);
        expected["SLURM_NODEID"] = "0";
        EXPECT_EQ(task.environment, expected);
    }
    EXPECT_EQ(slurm.messages(), "");
    EXPECT_TRUE(slurm.left_by_srun().empty());
}

TEST_F(PluginTest, RankLayoutSetsTheContract) {
    run(bare);
    ASSERT_EQ(slurm.tasks().size(), 2U);
    EXPECT_EQ(value(0, "MASTER_ADDR"), "10.1.0.5");
    EXPECT_EQ(value(0, "RANK"), "0");
    EXPECT_EQ(value(1, "RANK"), "1");
    EXPECT_EQ(value(1, "LOCAL_RANK"), "1");
    EXPECT_EQ(value(1, "WORLD_SIZE"), "4");
    EXPECT_EQ(value(1, "LOCAL_WORLD_SIZE"), "2");
    EXPECT_EQ(value(1, "NODE_RANK"), "0");
    EXPECT_EQ(value(1, "NNODES"), "2");
    EXPECT_EQ(value(1, "GROUP_WORLD_SIZE"), "2");
    EXPECT_EQ(value(1, "PET_NNODES"), "(unset)");
    EXPECT_EQ(value(1, "NCCL_IB_HCA"), "=mlx5_0:1");
    EXPECT_EQ(value(1, "NCCL_IB_GID_INDEX"), "3");
    EXPECT_EQ(value(1, "NCCL_SOCKET_IFNAME"), "(unset)"); // NCCL takes eth0 by itself
    EXPECT_EQ(value(1, "GLOO_SOCKET_IFNAME"), "eth0");
    EXPECT_EQ(value(1, "UCX_NET_DEVICES"), "mlx5_0:1");
    EXPECT_EQ(value(1, "NCCL_IB_TIMEOUT"), "22");
    EXPECT_EQ(value(1, "CUDA_DEVICE_ORDER"), "PCI_BUS_ID");
    EXPECT_NE(value(1, "OMP_NUM_THREADS"), "(unset)");
    EXPECT_EQ(value(0, "MASTER_PORT"), value(1, "MASTER_PORT"));
    EXPECT_EQ(value(0, "JAX_COORDINATOR_ADDRESS"),
              "10.1.0.5:" + std::to_string(std::stoi(value(0, "MASTER_PORT")) + 1));
    EXPECT_EQ(value(0, std::string(note_variable)), "(unset)");
}

/// The memory of a task's CPUs is, in the tree, that of a NUMA node that no machine has.
TEST_F(PluginTest, ATaskThatCannotBeBoundIsNamedByItsSlurmNumber) {
    const auto all = read_affinity();
    const auto cpus = all.list();
    slurm.after["slurm_spank_task_init"] = [&] { (void)bind_self({all, std::nullopt}); }; // the next task's process
    tree.file("/sys/devices/system/cpu/online", cpus).file("/sys/devices/system/node/node1022/cpulist", cpus);
    tree.file("/sys/devices/system/node/node1022/meminfo", "Node 1022 MemTotal: 1048576 kB\n");
    slurm.step.node_id = 1;
    slurm.step.global_ids = {2, 3};
    const auto said_with = [&](const char* option) {
        return messages_of_child([&] {
            run(option);
            return std::string();
        });
    };
    const std::string_view of_first = "warning: task 2 cannot prefer the memory of NUMA node 1022: Invalid argument\n";
    const std::string_view of_second = "warning: task 3 cannot prefer the memory of NUMA node 1022: Invalid argument\n";
    for (const auto& [option, first, second] :
         {std::tuple("verbose=0", false, false), {"verbose=1", true, false}, {"verbose=3", true, true}}) {
        const auto text = said_with(option);
        EXPECT_EQ(text.find(of_first) != std::string::npos, first) << option << ": " << text;
        EXPECT_EQ(text.find(of_second) != std::string::npos, second) << option << ": " << text;
    }
}

TEST_F(PluginTest, AContainerThatComesAfterOurVariablesIsNamed) {
    const std::string warning = ": warning: plugstack.conf lists pyxis after rdma-nccl: ";
    run(bare);
    EXPECT_FALSE(said(warning));
    for (const auto* const option : {"container-image", "container-name"}) {
        slurm.clear_messages();
        slurm.options_of_others = {option};
        run(bare);
        EXPECT_TRUE(said(warning)) << slurm.messages(); // the tasks have the node's root
    }
    slurm.options_of_others.clear();
    for (const auto* const variable : {"PYXIS_CONTAINER_IMAGE", "PYXIS_CONTAINER_NAME"}) {
        slurm.clear_messages();
        slurm.step.environment[variable] = "";
        run(bare);
        EXPECT_FALSE(said("PYXIS_CONTAINER")) << slurm.messages();
        slurm.step.environment[variable] = "some";
        run("strict,verify=off"); // does not end the step: perhaps nobody heeds the variable
        EXPECT_TRUE(said(": warning: PYXIS_CONTAINER_IMAGE or _NAME is set, but the tasks are in no container: "))
            << slurm.messages();
        slurm.step.environment.erase(variable);
    }
    slurm.step.environment["PYXIS_CONTAINER_IMAGE"] = "some";
    slurm.clear_messages();
    run("verbose=0");
    EXPECT_EQ(slurm.messages(), "");
}

/// Each has hundreds of variables, which are copied: one for the node, one for each of two tasks.
TEST_F(PluginTest, EachTasksEnvironmentIsReadOnce) {
    run(bare);
    EXPECT_EQ(slurm.environments, 3U);
}

TEST_F(PluginTest, OneLineFromTheHeadNodeAndNoneFromOthers) {
    run(bare);
    const std::string messages = slurm.messages();
    EXPECT_EQ(std::count(messages.begin(), messages.end(), '\n'), 1) << messages;
    EXPECT_TRUE(said("rank layout, 4 tasks on 2 nodes, head n01 (10.1.0.5:")) << messages;
    slurm.clear_messages();
    slurm.step.node_id = 1;
    slurm.step.global_ids = {2, 3};
    run(bare);
    EXPECT_EQ(slurm.messages(), "");
}

TEST_F(PluginTest, ABareOptionArrivesInThreeForms) {
    for (const char* form : {static_cast<const char*>(nullptr), "", "(null)"}) {
        run(form);
        EXPECT_EQ(value(0, "RANK"), "0");
    }
}

TEST_F(PluginTest, ListedTwiceItActsOnceAndNamesTheLines) {
    slurm.step.environment["RDMA_NCCL_TOKEN"] = std::string(64, '5'); // else there is a new one each time
    run(bare);
    const auto once = slurm.tasks();
    const auto step_once = slurm.step_environment();
    slurm.clear_messages();
    tree.file("/etc/plugstack.conf", "# optional rdma_nccl.so\noptional /lib/rdma_nccl.so root=/\ninclude conf.d/*\n");
    tree.file("/etc/conf.d/one.conf", "required other_rdma_nccl.so\n\n optional\trdma_nccl.so # again\n");
    const std::string etc = tree.path().string() + "/etc";
    slurm.plugstack = etc + "/plugstack.conf";
    slurm.lines = 2;
    const unsigned before = slurm.options();
    run(bare);
    EXPECT_EQ(slurm.options(), before + 2) << "one in srun, one in slurmstepd";
    EXPECT_EQ(slurm.step_environment(), step_once);
    ASSERT_EQ(slurm.tasks().size(), once.size());
    for (std::size_t i = 0; i < once.size(); ++i) {
        EXPECT_EQ(slurm.tasks()[i].environment, once[i].environment);
    }
    const std::string line = "rdma-nccl: warning: plugstack.conf lists this plugin twice (" + etc +
                             "/plugstack.conf:2, " + etc +
                             "/conf.d/one.conf:3): the first line is used, remove the other\n";
    EXPECT_EQ(slurm.messages().find(line), 0U) << slurm.messages();
    EXPECT_EQ(slurm.messages().rfind("lists this plugin"), slurm.messages().find("lists this plugin")) << "once";
}

TEST_F(PluginTest, ListedTwiceIsNoNewsToStepsWithoutIt) {
    slurm.lines = 3;
    run(std::nullopt);
    EXPECT_EQ(slurm.messages(), "");
    run("verbose=0");
    EXPECT_EQ(slurm.messages(), "");
    slurm.slurmd();
    slurm.slurmd(); // its log
    EXPECT_EQ(slurm.messages(), "rdma-nccl: warning: plugstack.conf lists this plugin twice: the first line is used, "
                                "remove the other\n");
}

TEST_F(PluginTest, SpecialStepsAreLeftAlone) {
    for (const std::uint32_t step : {0xfffffffaU, 0xfffffffbU, 0xfffffffcU}) {
        slurm.step.step_id = step;
        slurm.slurmstepd(bare);
        EXPECT_EQ(slurm.step_environment(), slurm.step.environment);
        EXPECT_EQ(value(0, "RANK"), "(unset)");
    }
    EXPECT_EQ(slurm.messages(), "");
}

TEST_F(PluginTest, SlurmdIsLeftAlone) {
    slurm.slurmd();
    EXPECT_EQ(slurm.messages(), "");
}

TEST_F(PluginTest, BadOptionsAreRefusedWithACaret) {
    EXPECT_EQ(slurm.srun("layuot=rank"), -1);
    EXPECT_TRUE(said("unknown key \"layuot\"; did you mean layout?")) << slurm.messages();
    EXPECT_TRUE(said("    layuot=rank")) << slurm.messages();
    EXPECT_TRUE(said("    ^^^^^^")) << slurm.messages();
    slurm.clear_messages();
    EXPECT_EQ(slurm.sbatch("gid=3,port=99999"), -1);
    EXPECT_TRUE(said("port: expected auto or a port from 1024 to 65532")) << slurm.messages();
    EXPECT_TRUE(said("               ^^^^^")) << slurm.messages();
    EXPECT_EQ(slurm.srun("root=/tmp"), -1);
    EXPECT_TRUE(said("root can be set by the site only")) << slurm.messages();
    EXPECT_EQ(slurm.srun("hosts=mount"), -1);
    EXPECT_TRUE(said("hosts=mount is not allowed here")) << slurm.messages();
    EXPECT_EQ(slurm.srun("hosts=off,exchange,hold=on,bind=auto"), 0);
}

TEST_F(PluginTest, BadEnvironmentSettingsAreRefusedWithTheOption) {
    ::setenv("RDMA_NCCL_GID", "many", 1);
    EXPECT_EQ(slurm.srun(bare), -1);
    EXPECT_TRUE(said("RDMA_NCCL_GID=many")) << slurm.messages();
    EXPECT_TRUE(said("gid: expected auto or a GID index from 0 to 255")) << slurm.messages();
}

TEST_F(PluginTest, BadEnvironmentSettingsEndSrunWhereTheSiteHasUsOn) {
    slurm.plugin_arguments.emplace_back("enable=on");
    ::setenv("RDMA_NCCL_VERBOSE", "9", 1);
    EXPECT_EXIT(slurm.srun(std::nullopt), ::testing::ExitedWithCode(1), "");
}

TEST_F(PluginTest, HelpEndsTheCommand) {
    EXPECT_EXIT(slurm.srun("help"), ::testing::ExitedWithCode(0), "");
    EXPECT_EXIT(slurm.sbatch("help"), ::testing::ExitedWithCode(0), "");
}

TEST_F(PluginTest, HelpIsNoExitOnTheNode) {
    slurm.slurmstepd("help"); // reaches here, and the step runs
    EXPECT_EQ(slurm.tasks().size(), 2U);
    EXPECT_EQ(slurm.tasks()[0].result, 0);
}

TEST_F(PluginTest, MalformedPlugstackArgumentsAreSaidOnceAndIgnored) {
    slurm.plugin_arguments.emplace_back("gid=banana");
    slurm.plugin_arguments.emplace_back("=");
    run(bare);
    EXPECT_TRUE(said("plugstack.conf: gid: expected auto or a GID index from 0 to 255; argument ignored"))
        << slurm.messages();
    EXPECT_EQ(value(0, "NCCL_IB_GID_INDEX"), "3");
}

TEST_F(PluginTest, TheSiteFileIsTheWeakestPlace) {
    tree.file("/site.conf", "# ours\nport = 23000\ngid = 5 # of all HCAs\nnonsense = 1\nNCCL_IB_TIMEOUT = 20\n");
    slurm.plugin_arguments = {"conf=" + tree.path().string() + "/site.conf", "root=" + tree.path().string(), "gid=3",
                              "hold=off", "exchange=off"};
    run("port=24000");
    EXPECT_EQ(value(0, "MASTER_PORT"), "24000");
    EXPECT_EQ(value(0, "NCCL_IB_GID_INDEX"), "3");
    EXPECT_EQ(value(0, "NCCL_IB_TIMEOUT"), "20");
    EXPECT_TRUE(said("site.conf:4: unknown key \"nonsense\"")) << slurm.messages();
}

TEST_F(PluginTest, WhereTheSiteFileHangsTheStepRuns) {
    tree.file("/site.conf", "gid = 5\n");
    slurm.plugin_arguments[0] = "conf=" + tree.at("/site.conf").string();
    const test::Hang hang({tree.at("/site.conf").string()});
    if (!hang.works()) {
        GTEST_SKIP() << "no fanotify permission events here: " << std::strerror(errno);
    }
    const auto text = messages_of_child([&] {
        slurm.slurmstepd(bare); // srun would wait: it is its user's
        return "gid " + value(0, "NCCL_IB_GID_INDEX");
    });
    EXPECT_NE(text.find("site.conf was not read in time; site settings are not used"), std::string::npos) << text;
    EXPECT_TRUE(text.ends_with("gid 3")) << text;
}

TEST_F(PluginTest, AFabricProfileReachesTheTasksOnlyWhenItIsOn) {
    const std::string folder(fabric_profiles_directory);
    tree.file(folder + "/ours.conf", "link = ethernet\nNCCL_IB_TC = 41 # ours\nNCCL_IB_SL = 3\n");
    slurm.step.environment["NCCL_IB_SL"] = "5";
    make_one_node();
    run(bare);
    EXPECT_EQ(value(0, "NCCL_IB_TC"), "(unset)");
    run("fabric_profile");
    EXPECT_EQ(value(0, "NCCL_IB_TC"), "41");
    EXPECT_EQ(value(1, "NCCL_IB_TC"), "41");
    EXPECT_EQ(value(0, "NCCL_IB_SL"), "5");
    EXPECT_EQ(value(0, "NCCL_IB_TIMEOUT"), "22");
    slurm.options_of_others = {"container-image"}; // whose files cannot be judged yet
    run("fabric_profile");
    EXPECT_EQ(value(0, "NCCL_IB_TC"), "(unset)");
    EXPECT_TRUE(said("list pyxis first; until then no value of the fabric profile is set\n")) << slurm.messages();
    slurm.options_of_others.clear();
    slurm.step.environment["PYXIS_CONTAINER_IMAGE"] = "some";
    run("fabric_profile");
    EXPECT_EQ(value(0, "NCCL_IB_TC"), "(unset)");
    EXPECT_TRUE(said("(list it first, or unset the variable); until then no value of the fabric profile is set\n"))
        << slurm.messages();
    slurm.clear_messages();
    run(bare);
    EXPECT_TRUE(said("(list it first, or unset the variable)\n")) << slurm.messages();
}

TEST_F(PluginTest, OfSeveralNodesThatDoNotAgreeNoneSetsAFabricProfile) {
    const std::string folder(fabric_profiles_directory);
    const std::string none = "fabric_profile=on sets nothing without exchange=on";
    tree.file(folder + "/ours.conf", "link = ethernet\nNCCL_IB_TC = 41\n");
    run(bare);
    EXPECT_FALSE(said(none)) << slurm.messages();
    run("fabric_profile");
    EXPECT_TRUE(said(none)) << slurm.messages();
    EXPECT_EQ(value(0, "NCCL_IB_TC"), "(unset)");
    make_one_node();
    slurm.clear_messages();
    run("fabric_profile");
    EXPECT_FALSE(said(none)) << slurm.messages();
    EXPECT_EQ(value(0, "NCCL_IB_TC"), "41");
    ::setenv("SLURM_HET_SIZE", "2", 1); // another component has nodes
    run("fabric_profile");
    EXPECT_TRUE(said(none)) << slurm.messages();
    EXPECT_EQ(value(0, "NCCL_IB_TC"), "(unset)");
}

TEST_F(PluginTest, ABadFabricProfileIsOneWarningAndEndsNoStep) {
    const std::string folder(fabric_profiles_directory);
    tree.file(folder + "/bad.conf", "gpus = 8\nLD_PRELOAD = x.so\n");
    run("fabric_profile");
    EXPECT_TRUE(said("bad.conf:2: unknown key \"LD_PRELOAD\"")) << slurm.messages();
    EXPECT_EQ(value(0, "RANK"), "0");
    EXPECT_EQ(value(0, "LD_PRELOAD"), "(unset)");
    slurm.clear_messages();
    run("fabric_profile,strict,verify=off");
    EXPECT_EQ(slurm.tasks().at(0).result, 0) << slurm.messages();
    slurm.clear_messages();
    run(bare);
    EXPECT_FALSE(said("bad.conf")) << slurm.messages();
}

TEST_F(PluginTest, TheSiteCanSwitchItOnAndAStepOff) {
    slurm.plugin_arguments.emplace_back("enable=on");
    run(std::nullopt);
    EXPECT_EQ(value(0, "RANK"), "0");
    run("off");
    EXPECT_EQ(value(0, "RANK"), "(unset)");
}

TEST_F(PluginTest, SettingsFromSrunsEnvironmentSurviveExportNone) {
    ::setenv("RDMA_NCCL_PORT", "23456", 1);
    run(bare); // the step's environment above has no RDMA_NCCL_PORT
    EXPECT_EQ(value(0, "MASTER_PORT"), "23456");
}

TEST_F(PluginTest, TheUsersValuesStay) {
    slurm.step.environment["MASTER_PORT"] = "29500";
    slurm.step.environment["NCCL_IB_HCA"] = "mlx5";
    slurm.step.environment["RANK"] = "77"; // the same for all tasks: cannot be right
    run(bare);
    EXPECT_EQ(value(1, "MASTER_PORT"), "29500");
    EXPECT_EQ(value(1, "NCCL_IB_HCA"), "mlx5");
    EXPECT_EQ(value(1, "NCCL_IB_GID_INDEX"), "(unset)") << "our index need not be right for the user's HCAs";
    EXPECT_EQ(value(1, "RANK"), "1");
    EXPECT_EQ(value(1, "JAX_COORDINATOR_ADDRESS"), "10.1.0.5:29501");
}

TEST_F(PluginTest, TheFlightRecorderHasADirectoryUntilTheStepEnds) {
    slurm.step.environment["TORCH_NCCL_TRACE_BUFFER_SIZE"] = "7";
    run("recorder=on");
    const auto prefix = value(1, "TORCH_FR_DUMP_TEMP_FILE");
    EXPECT_TRUE(prefix.starts_with("/tmp/rdma-nccl-12.0-") && prefix.ends_with("/nccl_trace_rank_")) << prefix;
    EXPECT_EQ(value(0, "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"), prefix);
    EXPECT_EQ(value(0, "TORCH_NCCL_DUMP_ON_TIMEOUT"), "1") << "the task sees the directory";
    EXPECT_EQ(value(0, "TORCH_FR_BUFFER_SIZE"), "7") << "the user's, by its newer name";
    EXPECT_FALSE(std::filesystem::exists(std::filesystem::path(prefix).parent_path())) << "nothing was in it";
}

TEST_F(PluginTest, TheInspectorIsLoadedWhereItIsInstalled) {
    const auto folder = tree.path().string(); // below it, and as the tasks see it
    tree.file(folder + "/libnccl-profiler-inspector.so", "");
    tree.file("/libnccl-profiler-inspector.so", "");
    slurm.step.environment["LD_LIBRARY_PATH"] = folder;
    slurm.step.environment["NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS"] = "-1";
    run("profile=inspector,recorder=on");
    EXPECT_EQ(value(1, "NCCL_PROFILER_PLUGIN"), folder + "/libnccl-profiler-inspector.so");
    EXPECT_EQ(value(1, "NCCL_INSPECTOR_ENABLE"), "1");
    EXPECT_EQ(value(1, "NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS"), "-1") << "the user's";
    EXPECT_EQ(value(1, "RDMA_NCCL_PROFILES"), "(unset)") << "not ours as well";
    const auto directory = value(1, "NCCL_INSPECTOR_DUMP_DIR");
    EXPECT_TRUE(directory.starts_with("/tmp/rdma-nccl-12.0-")) << directory;
    EXPECT_EQ(value(1, "TORCH_FR_DUMP_TEMP_FILE"), directory + "/nccl_trace_rank_");
    EXPECT_FALSE(said("profile=inspector")) << slurm.messages();
}

TEST_F(PluginTest, WhereTheInspectorIsNotSeenTheTasksDoWithout) {
    run("profile=inspector");
    EXPECT_EQ(value(0, "NCCL_PROFILER_PLUGIN"), "(unset)");
    EXPECT_TRUE(said("warning: profile=inspector: libnccl-profiler-inspector.so is not found: ")) << slurm.messages();
    tree.file("/opt/no-such/libnccl-profiler-inspector.so", ""); // on the node, and not where the tasks are
    slurm.step.environment["LD_LIBRARY_PATH"] = "/opt/no-such";
    run("profile=inspector");
    EXPECT_TRUE(said("warning: the tasks do not see /opt/no-such/libnccl-profiler-inspector.so: without NVIDIA's "
                     "Inspector (profile=inspector)"))
        << slurm.messages();
    for (const auto* const name : {"NCCL_PROFILER_PLUGIN", "NCCL_INSPECTOR_ENABLE", "NCCL_INSPECTOR_DUMP_DIR"}) {
        EXPECT_EQ(value(1, name), "(unset)") << name;
    }
    EXPECT_EQ(slurm.tasks().at(1).result, 0);
    slurm.clear_messages();
    run("profile=inspector,verbose=0");
    EXPECT_EQ(slurm.messages(), "");
}

/// Every task of the node has the same limit.
TEST_F(PluginTest, ALimitThatCannotBeRaisedIsSaidOnceOnANode) {
    slurm.plugin_arguments[3] = "memlock=raise";
    const auto text = messages_of_child([&] {
        const rlimit low{65536, 65536};
        (void)::setrlimit(RLIMIT_MEMLOCK, &low);
        slurm.after["slurm_spank_user_init"] = [] { (void)!::seteuid(65534); }; // without CAP_SYS_RESOURCE
        run(bare);
        (void)!::seteuid(0);
        return std::string();
    });
    constexpr std::string_view warning = "warning: memlock=raise: RLIMIT_MEMLOCK cannot be raised";
    const auto first = text.find(warning);
    EXPECT_NE(first, std::string::npos) << text;
    EXPECT_EQ(text.find(warning, first + 1), std::string::npos) << text;
}

/// The user reaches it by a group that is not the primary one.
TEST_F(PluginTest, HostsFilesInAProjectsDirectoryAreRemoved) {
    if (::geteuid() != 0) {
        GTEST_SKIP() << "another group needs root";
    }
    static constexpr gid_t project = 54321;
    make_one_node();
    tree.directory("/project");
    const auto directory = tree.at("/project");
    std::filesystem::permissions(tree.path(), std::filesystem::perms(0755));
    if (::chown(directory.c_str(), 0, project) != 0) {
        GTEST_SKIP() << "no other groups here: " << std::strerror(errno);
    }
    std::filesystem::permissions(directory, std::filesystem::perms(0770));
    slurm.step.environment["TMPDIR"] = directory.string();
    const auto entries = [&] {
        return std::distance(std::filesystem::directory_iterator(directory), std::filesystem::directory_iterator());
    };
    slurm.after["slurm_spank_init_post_opt"] = [] { // as slurmstepd changes its ids
        if (::setgroups(1, &project) != 0 || ::setegid(65534) != 0 || ::seteuid(65534) != 0) {
            ::_exit(1);
        }
    };
    slurm.after["slurm_spank_user_init"] = [&] {
        if (::seteuid(0) != 0 || ::setegid(0) != 0 || ::setgroups(0, nullptr) != 0 || entries() != 1) {
            ::_exit(2); // the files are there while the step runs
        }
    };
    ASSERT_TRUE(run_in_child(std::chrono::seconds(20), [&] { slurm.slurmstepd("hosts=file"); }));
    EXPECT_EQ(entries(), 0);
}

TEST_F(PluginTest, WhereTheInspectorsFoldersHangTheTasksDoWithout) {
    tree.file("/etc/ld.so.cache", "");
    const test::Hang hang({tree.at("/etc/ld.so.cache").string()});
    if (!hang.works()) {
        GTEST_SKIP() << "no fanotify permission events here: " << std::strerror(errno);
    }
    const auto text = messages_of_child([&] {
        run("profile=inspector");
        return "plugin " + value(1, "NCCL_PROFILER_PLUGIN");
    });
    EXPECT_NE(text.find("warning: profile=inspector: the folders of LD_LIBRARY_PATH or "), std::string::npos) << text;
    EXPECT_TRUE(text.ends_with("plugin (unset)")) << text;
}

TEST_F(PluginTest, AnNcclConfFileCountsAsSet) {
    tree.file("/etc/nccl.conf", "NCCL_IB_GID_INDEX=7\n#NCCL_IB_HCA=x\n");
    run(bare);
    EXPECT_EQ(value(0, "NCCL_IB_GID_INDEX"), "(unset)");
    EXPECT_EQ(value(0, "NCCL_IB_HCA"), "=mlx5_0:1");
}

TEST_F(PluginTest, AStepInsideAStepReplacesOursAndNotTheUsers) {
    run(bare);
    const Variables outer = slurm.tasks()[1].environment;
    slurm.step.environment = outer;
    slurm.step.environment["SLURM_STEP_ID"] = "1";
    slurm.step.environment["NCCL_IB_TIMEOUT"] = "19"; // changed by the user since
    slurm.step.environment["PET_NNODES"] = "7";       // never ours
    slurm.step.step_id = 1;
    run(bare);
    EXPECT_NE(value(0, "MASTER_PORT"), outer.at("MASTER_PORT")) << "two steps must not share a port";
    EXPECT_EQ(value(0, "NCCL_IB_TIMEOUT"), "19");
    EXPECT_EQ(value(0, "PET_NNODES"), "7");
    EXPECT_TRUE(said("PET_NNODES set in the environment, kept")) << slurm.messages();
    EXPECT_EQ(value(0, "RANK"), "0");
}

TEST_F(PluginTest, WhatAnOuterStepLeftIsRemovedInAnotherLayout) {
    run(bare);
    Variables inner = slurm.tasks()[1].environment;
    slurm.step.environment = inner;
    slurm.step.environment["SLURM_STEP_ID"] = "1";
    slurm.step.step_id = 1;
    make_one_task_per_node();
    run("layout=node");
    EXPECT_EQ(value(0, "RANK"), "(unset)");
    EXPECT_EQ(value(0, "WORLD_SIZE"), "(unset)");
    EXPECT_EQ(value(0, "PET_NNODES"), "2");
}

TEST_F(PluginTest, NodeLayoutServesTorchrun) {
    make_one_task_per_node();
    slurm.step.program = {"torchrun", "train.py"};
    slurm.step.environment["SLURM_STEP_GPUS"] = "0,1,2,3";
    run(bare);
    EXPECT_EQ(value(0, "PET_NNODES"), "2");
    EXPECT_EQ(value(0, "PET_NPROC_PER_NODE"), "4");
    EXPECT_EQ(value(0, "PET_NODE_RANK"), "0");
    EXPECT_EQ(value(0, "PET_MASTER_ADDR"), "10.1.0.5");
    EXPECT_EQ(value(0, "PET_MASTER_PORT"), value(0, "MASTER_PORT"));
    EXPECT_EQ(value(0, "PET_RDZV_BACKEND"), "static");
    EXPECT_EQ(value(0, "PET_RDZV_ID"), "12.0");
    EXPECT_EQ(value(0, "JAX_LOCAL_DEVICE_IDS"), "0,1,2,3");
    EXPECT_EQ(value(0, "RANK"), "(unset)");
    EXPECT_EQ(value(0, "WORLD_SIZE"), "(unset)");
    EXPECT_EQ(value(0, "LOCAL_RANK"), "(unset)");
}

/// "bash -c TEXT" has the rest of the line as one word.
std::vector<std::string> words_of(const std::string& line) {
    constexpr std::string_view text_follows = "bash -c ";
    if (line.starts_with(text_follows)) {
        return {"bash", "-c", line.substr(text_follows.size())};
    }
    const auto words = split_words(line);
    return {words.begin(), words.end()};
}

/// A site has the plugin on for every step. These are written as in each launcher's documentation; doc/guide-site.md
/// says the same.
TEST_F(PluginTest, SiteWideEachNodesOwnWorldStaysOne) {
    make_one_task_per_node();
    slurm.plugin_arguments.emplace_back("enable=on");
    slurm.step.environment["SLURM_STEP_GPUS"] = "0,1";
    tree.file("/run.sh", "#!/bin/bash\nexec torchrun --nnodes=1 --nproc_per_node=2 train.py\n");
    for (const auto* const line :
         {"torchrun --standalone --nproc_per_node=2 train.py", "torchrun --nnodes=1 --nproc-per-node=2 train.py",
          "torchrun --nnodes 1 --rdzv-backend=c10d --rdzv-endpoint=localhost:0 train.py",
          "torchrun --nproc_per_node=2 --master_addr=127.0.0.1 train.py",
          "env A=b python3 -u -m torch.distributed.run --nnodes 1 train.py",
          "accelerate launch --num_machines 1 --num_processes 2 train.py",
          "deepspeed train.py --deepspeed_config ds.json", "deepspeed --include localhost:0,1 train.py",
          "composer -n 2 train.py", "mpirun -np 2 python train.py", "mpiexec -n 2 ./a.out",
          "horovodrun -np 2 python train.py", "ray start --head --port=6379",
          "ray symmetric-run --address n01:6379 -- python train.py", "bash -c cd /x && torchrun --nnodes=1 train.py",
          "SCRIPT", "bash SCRIPT"}) {
        slurm.step.program = words_of(line);
        std::ranges::replace(slurm.step.program, "SCRIPT", (tree.path() / "run.sh").string());
        slurm.clear_messages();
        run(std::nullopt);
        for (const auto& [name, text] : slurm.tasks()[0].environment) {
            const bool of_ranks = name.starts_with("PET_") || name.starts_with("MASTER_") || name.starts_with("JAX_") ||
                                  name.ends_with("RANK") || name.ends_with("WORLD_SIZE") || name == "NNODES";
            EXPECT_FALSE(of_ranks) << name << "=" << text << " for " << line;
        }
        EXPECT_EQ(value(0, "NCCL_IB_HCA"), "=mlx5_0:1") << line;
        EXPECT_TRUE(said("each task a world of its own (")) << line << ": " << slurm.messages();
        EXPECT_FALSE(said("warning")) << line << ": " << slurm.messages();
    }
}

TEST_F(PluginTest, SiteWideLaunchersThatMayMeetDo) {
    make_one_task_per_node();
    slurm.plugin_arguments.emplace_back("enable=on");
    slurm.step.environment["SLURM_STEP_GPUS"] = "0,1";
    for (const auto* const line :
         {"torchrun train.py", "torchrun --nnodes=2 --rdzv-id=1 --rdzv-backend=c10d --rdzv-endpoint=n01:29400 train.py",
          "torchrun --nnodes=1:4 --max-restarts=3 --rdzv-backend=c10d --rdzv-endpoint=n01 train.py",
          "torchrun --nnodes=2 --node-rank=0 --master-addr=n01 --master-port=1234 train.py",
          "python -m torch.distributed.launch --nproc-per-node=2 train.py", "accelerate launch train.py",
          "accelerate launch --multi_gpu --mixed_precision fp16 --num_processes 2 train.py",
          "accelerate launch --num_machines 2 --machine_rank 0 --main_process_ip n01 train.py",
          "deepspeed --hostfile=hosts --no_ssh --node_rank=0 --master_addr=n01 train.py",
          "composer --world_size 4 train.py", "rdma-nccl run train.py",
          "fabric run --devices=2 --num-nodes=2 train.py", // Lightning; gives torchrun every option
          "bash -c torchrun --nnodes=$SLURM_NNODES --node_rank=$SLURM_NODEID --master_addr=$HEAD train.py"}) {
        slurm.step.program = words_of(line);
        run(std::nullopt);
        EXPECT_EQ(value(0, "PET_NNODES"), "2") << line;
        EXPECT_EQ(value(0, "MASTER_ADDR"), "10.1.0.5") << line;
        EXPECT_EQ(value(0, "RANK"), "(unset)") << line;
    }
}

/// One GPU for each node, so that only the script's text tells.
TEST_F(PluginTest, AScriptThatStartsALauncherHasTheNodeLayout) {
    make_one_task_per_node();
    slurm.step.environment["SLURM_STEP_GPUS"] = "0";
    tree.file("/run.sh", "#!/bin/bash\nsource env.sh\ntorchrun \\\n  --nproc_per_node=1 \\\n  x.py\n");
    slurm.step.program = {tree.path() / "run.sh"};
    run(bare);
    EXPECT_EQ(value(0, "PET_NNODES"), "2");
    EXPECT_EQ(value(0, "RANK"), "(unset)");
    slurm.step.program = {"bash", tree.path() / "run.sh"};
    run(bare);
    EXPECT_EQ(value(0, "PET_NNODES"), "2");
}

TEST_F(PluginTest, AScriptInAScriptThatStaysAloneDoes) {
    make_one_task_per_node();
    tree.file("/inner.sh", "#!/bin/bash\ntorchrun --standalone --nproc_per_node=2 x.py\n");
    tree.file("/outer.sh", "#!/bin/bash\nbash " + (tree.path() / "inner.sh").string() + "\n");
    slurm.step.program = {tree.path() / "outer.sh"};
    run(bare);
    EXPECT_EQ(value(0, "PET_NNODES"), "(unset)");
    EXPECT_EQ(value(0, "MASTER_ADDR"), "(unset)");
}

TEST_F(PluginTest, PodLayoutHasTheOldMeaning) {
    make_one_task_per_node();
    slurm.step.node_id = 1;
    slurm.step.global_ids = {1};
    run("layout=pod");
    EXPECT_EQ(value(0, "WORLD_SIZE"), "2");
    EXPECT_EQ(value(0, "RANK"), "1");
    EXPECT_EQ(value(0, "NODE_RANK"), "1");
    EXPECT_EQ(value(0, "LOCAL_RANK"), "(unset)");
    EXPECT_EQ(value(0, "PET_NODE_RANK"), "1");
}

/// The task's program with a file in the tree as the command, which is found wherever none is installed.
class Spawn : public PluginTest {
protected:
    Spawn() {
        make_one_task_per_node();
        tree.file("/bin/rdma-nccl", "");
        std::filesystem::permissions(tree.at("/bin/rdma-nccl"), std::filesystem::perms::owner_all);
        slurm.step.environment["PATH"] = "relative:" + tree.at("/bin").string();
        slurm.step.program = {"./train", "--x", ""};
    }
    [[nodiscard]] std::vector<std::string> program() const { return slurm.tasks().at(0).program; }
};

TEST_F(Spawn, PutsTheCommandInFrontOfTheProgram) {
    run("spawn");
    const auto words = program();
    ASSERT_EQ(words.size(), 6U);
    EXPECT_TRUE(words[0].starts_with("/proc/self/fd/") || words[0].ends_with("/rdma-nccl")) << words[0];
    EXPECT_EQ(std::vector(words.begin() + 1, words.end()),
              (std::vector<std::string>{"run", "--", "./train", "--x", ""}));
    EXPECT_EQ(value(0, "PET_NNODES"), "2");
    EXPECT_EQ(value(0, "RANK"), "(unset)");
    EXPECT_TRUE(said("node layout")) << slurm.messages();
}

TEST_F(Spawn, IsNotDoneUnasked) {
    run("layout=node");
    EXPECT_EQ(program(), slurm.step.program);
}

TEST_F(Spawn, ReachesTheStepsOfABatchScript) {
    EXPECT_EQ(slurm.sbatch("spawn"), 0);
    run("spawn");
    EXPECT_EQ(program().size(), 6U);
}

TEST_F(Spawn, LeavesLaunchersAsTheyAre) {
    slurm.step.program = {"torchrun", "train.py"};
    run("spawn");
    EXPECT_EQ(program(), slurm.step.program);
    EXPECT_TRUE(said("torchrun starts the ranks itself")) << slurm.messages();
    slurm.clear_messages();
    slurm.step.program = {"rdma-nccl", "run", "./train"};
    run("spawn");
    EXPECT_EQ(program(), slurm.step.program);
    EXPECT_FALSE(said("warning")) << slurm.messages();
}

TEST_F(Spawn, RefusesSeveralTasksOfANode) {
    slurm.step.task_count = 4;
    slurm.step.global_ids = {0, 1};
    slurm.step.layout = {0, 0, 1, 1};
    slurm.step.environment["SLURM_STEP_NUM_TASKS"] = "4";
    slurm.step.environment["SLURM_STEP_TASKS_PER_NODE"] = "2(x2)";
    EXPECT_EQ(slurm.srun("spawn"), 0);
    EXPECT_TRUE(said("this step has 4 tasks on 2 nodes: use --ntasks-per-node=1")) << slurm.messages();
    EXPECT_EXIT(slurm.slurmstepd("spawn"), testing::ExitedWithCode(1), "");
}

TEST_F(Spawn, EndsATaskThatWouldRunAlone) {
    slurm.failing = {"spank_prepend_task_argv"};
    EXPECT_EQ(slurm.srun("spawn"), 0);
    EXPECT_EXIT(slurm.slurmstepd("spawn"), testing::ExitedWithCode(1), "");
}

TEST_F(Spawn, EndsATaskWithoutTheCommand) {
    tree.remove("/bin/rdma-nccl");
    if (std::filesystem::exists(BINDIR "/rdma-nccl")) {
        GTEST_SKIP() << "the command is installed";
    }
    EXPECT_EXIT(run("spawn"), testing::ExitedWithCode(1), "");
}

TEST_F(PluginTest, AnotherRuntimesDaemonsAreLeftAlone) {
    make_one_task_per_node();
    slurm.step.program = {"/opt/openmpi/bin/prted", "-mca", "x", "y"};
    run(bare);
    EXPECT_EQ(value(0, "MASTER_ADDR"), "(unset)");
    EXPECT_TRUE(said("prted starts the ranks of another runtime, which get nothing from --rdma-nccl: use srun "
                     "--mpi=pmix"))
        << slurm.messages();
}

TEST_F(PluginTest, DaemonsOfMpirunAreNoNewsWhereTheSiteActsOnEveryStep) {
    make_one_task_per_node();
    slurm.step.program = {"orted"};
    slurm.plugin_arguments.emplace_back("enable=on");
    run(std::nullopt);
    EXPECT_EQ(slurm.messages(), "");
}

TEST_F(PluginTest, RankZeroOfAnArbitraryLayoutIsTheHead) {
    slurm.step.layout = {1, 0, 0, 1}; // rank 0 on n02
    slurm.step.environment["SLURM_DISTRIBUTION"] = "arbitrary";
    slurm.step.global_ids = {1, 2};
    run(bare);
    EXPECT_EQ(value(0, "MASTER_ADDR"), "10.1.0.6");
    EXPECT_EQ(value(0, "RANK"), "1");
}

TEST_F(PluginTest, NodeRankZeroRunsRankZeroAlsoInArbitraryLayouts) {
    make_one_task_per_node();
    slurm.step.layout = {1, 0};
    slurm.step.global_ids = {1};
    run("layout=node");
    EXPECT_EQ(value(0, "PET_NODE_RANK"), "1");
    EXPECT_EQ(value(0, "PET_MASTER_ADDR"), "10.1.0.6");
}

TEST_F(PluginTest, RankZeroFindsOutThatTheAddressIsNotItsOwn) {
    slurm.step.environment["MASTER_ADDR"] = "10.1.0.99";
    run(bare);
    EXPECT_EQ(slurm.tasks()[0].result, 0);
    EXPECT_TRUE(said("MASTER_ADDR 10.1.0.99 is no address of this node")) << slurm.messages();
}

TEST_F(PluginTest, ReservedPortsAreTaken) {
    slurm.step.environment["SLURM_STEP_RESV_PORTS"] = "21003-21005,21009";
    run(bare);
    EXPECT_EQ(value(0, "MASTER_PORT"), "21003");
    EXPECT_EQ(value(0, "JAX_COORDINATOR_ADDRESS"), "10.1.0.5:21004");
}

TEST_F(PluginTest, ANoteOfAnotherStepIsNotTaken) {
    slurm.step.environment[std::string(note_variable)] = format_note({12, 9, "evil", "10.9.9.9", 25000, ""});
    slurm.slurmstepd(bare);
    EXPECT_NE(value(0, "MASTER_ADDR"), "10.9.9.9");
    slurm.clear_messages();
    slurm.step.environment[std::string(note_variable)] = std::string(100000, ';');
    slurm.step.layout.clear(); // else the node asks Slurm, and needs no note
    slurm.slurmstepd(bare);
    EXPECT_EQ(value(0, "RANK"), "0");
    EXPECT_TRUE(said("malformed")) << slurm.messages();
}

TEST_F(PluginTest, AHeadThatDoesNotResolveIsSaidAndTheStepRuns) {
    run("head=no-such-host.invalid");
    EXPECT_TRUE(said("head=no-such-host.invalid: no-such-host.invalid: ")) << slurm.messages();
    EXPECT_EQ(value(0, "MASTER_ADDR"), "10.1.0.5");
    EXPECT_EQ(slurm.tasks()[0].result, 0);
}

TEST_F(PluginTest, StrictEndsTheTaskThatMustNotRun) {
    EXPECT_EXIT(run("strict,head=no-such-host.invalid"), ::testing::ExitedWithCode(1), "");
    run("strict"); // nothing to object to
    EXPECT_EQ(slurm.tasks()[0].result, 0);
    EXPECT_EQ(value(0, "NCCL_NET"), "IB");
}

TEST_F(PluginTest, ANodeWithoutHcaRuns) {
    tree.remove("/sys/class/infiniband");
    run(bare);
    EXPECT_TRUE(said("no RDMA device")) << slurm.messages();
    EXPECT_EQ(value(0, "NCCL_IB_HCA"), "(unset)");
    EXPECT_EQ(value(0, "MASTER_ADDR"), "10.1.0.5");
    EXPECT_EXIT(run("strict"), ::testing::ExitedWithCode(1), "");
}

TEST_F(PluginTest, ASiteWideInstallationIsSilentOnNodesWithoutRdma) {
    tree.remove("/sys/class/infiniband");
    slurm.plugin_arguments.emplace_back("enable=on");
    run(std::nullopt);
    EXPECT_EQ(slurm.messages().find("warning"), std::string::npos) << slurm.messages();
}

TEST_F(PluginTest, AnAbsurdSysfsIsSurvived) {
    const std::string port = "/sys/class/infiniband/mlx5_0/ports/1/";
    tree.file(port + "gids/3", std::string(5000, '\xff')).file(port + "state", std::string("\0\1\2", 3));
    tree.remove(port + "link_layer").directory(port + "link_layer").file(port + "rate", "-1e999 Gb/sec");
    tree.file("/sys/class/infiniband/\xff\xfe/ports/nonsense/state", "x");
    tree.file("/proc/net/route", std::string(100000, '\t')).file("/proc/net/fib_trie", "\n\n|--");
    run(bare);
    EXPECT_EQ(slurm.tasks()[0].result, 0);
    EXPECT_EQ(value(0, "RANK"), "0");
}

TEST_F(PluginTest, AMissingRootIsSaidAndTheStepRuns) {
    slurm.plugin_arguments[1] = "root=/nonexistent/root";
    run(bare);
    EXPECT_TRUE(said("root directory /nonexistent/root")) << slurm.messages();
    EXPECT_EQ(value(0, "RANK"), "(unset)");
    EXPECT_EQ(slurm.tasks()[0].result, 0);
}

class EachSpankCallFails : public PluginTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(EachSpankCallFails, AndTheStepRuns) {
    slurm.failing = {GetParam()};
    for (const int code : {3000, -1, 1, 3009}) {
        slurm.failure = code;
        EXPECT_EQ(slurm.srun(bare), 0);
        slurm.slurmstepd(bare);
        for (const auto& task : slurm.tasks()) {
            EXPECT_EQ(task.result, 0);
        }
    }
}

INSTANTIATE_TEST_SUITE_P(All, EachSpankCallFails,
                         ::testing::Values("spank_get_item", "spank_setenv", "spank_unsetenv", "spank_option_register",
                                           "spank_context", "slurm_job_step_layout_get", "slurm_load_node_single"));

// srun is gone, or behind a firewall: one warning, from the node of rank 0, and the plan of the node alone.
TEST_F(PluginTest, AnExchangeThatCannotBeReached) {
    slurm.plugin_arguments.pop_back(); // exchange=off
    EXPECT_EQ(slurm.srun("exchange=off"), 0);
    for (const auto& [name, value] : slurm.left_by_srun()) {
        slurm.step.environment[name] = value;
    }
    slurm.step.environment["SLURM_RDMA_NCCL_KEY"] = std::string(64, '1');
    for (const std::string endpoint : {"2;1;5;127.0.0.1", "2;nonsense", ""}) {
        slurm.step.environment["SLURM_RDMA_NCCL_EXCHANGE"] = endpoint;
        slurm.clear_messages();
        slurm.slurmstepd(bare);
        EXPECT_EQ(value(0, "MASTER_ADDR"), "10.1.0.5") << endpoint;
        EXPECT_EQ(value(0, "WORLD_SIZE"), "4") << endpoint;
        EXPECT_EQ(value(0, "SLURM_RDMA_NCCL_EXCHANGE"), "(unset)");
        EXPECT_EQ(value(0, "SLURM_RDMA_NCCL_KEY"), "(unset)");
        EXPECT_EQ(value(0, "RDMA_NCCL_TOKEN").size(), 64U);
        EXPECT_NE(value(0, "RDMA_NCCL_TOKEN"), std::string(64, '1'));
        EXPECT_EQ(said("warning: srun does not answer (127.0.0.1 port 1: Connection refused"),
                  endpoint.find("127") != std::string::npos)
            << slurm.messages();
        EXPECT_EQ(slurm.tasks().at(0).result, 0);
    }
}

/// Four nodes, of which n01 and n03 are in a block. The plugin runs on n02; the test has srun's side and the other
/// nodes.
class NodeOrderTest : public PluginTest {
protected:
    NodeOrderTest() {
        slurm.plugin_arguments.pop_back(); // exchange=off
        slurm.step.nodes = {"n01", "n02", "n03", "n04"};
        slurm.step.node_count = 4;
        slurm.step.node_id = 1;
        slurm.step.task_count = 8;
        slurm.step.global_ids = {2, 3};
        slurm.step.layout = {0, 0, 1, 1, 2, 2, 3, 3};
        auto& environment = slurm.step.environment;
        environment["SLURM_STEP_NODELIST"] = "n[01-04]";
        environment["SLURM_STEP_NUM_NODES"] = "4";
        environment["SLURM_STEP_NUM_TASKS"] = "8";
        environment["SLURM_STEP_TASKS_PER_NODE"] = "2(x4)";
        environment["SLURM_TOPOLOGY_ADDR"] = "b2.n02";
        environment["SLURM_TOPOLOGY_ADDR_PATTERN"] = "block.node";
    }

    /// RANK of both tasks, and what srun prints.
    std::string ranks(const char* option = "order=topology") {
        const auto key = random_key().value();
        auto server = ExchangeServer::open(std::nullopt, 30, key).value();
        auto endpoint = server.endpoint();
        endpoint.addresses = {*IpAddress::parse("127.0.0.1")};
        std::mutex mutex;
        told.clear();
        const auto tell = [&](std::string_view line) {
            const std::lock_guard lock(mutex);
            told += std::string(line) + "\n";
        };
        ExchangeStep step;
        step.settings.order = OrderChoice::Topology;
        step.settings.given["order"] = {"topology", Origin::Option, "--rdma-nccl"};
        step.node_count = 4;
        for (unsigned node = 0; node < 4; ++node) {
            step.nodes.push_back({slurm.step.nodes[node], 2, 2 * node, 2 * node, 0});
        }
        EXPECT_TRUE(server.start([&] { return step; }, tell));
        slurm.step.environment["SLURM_RDMA_NCCL_KEY"] = key_text(key);
        slurm.step.environment["SLURM_RDMA_NCCL_EXCHANGE"] = write_endpoint(endpoint);
        std::vector<std::future<void>> others;
        for (const unsigned node : {0U, 2U, 3U}) {
            others.push_back(std::async(std::launch::async, [&, node] { take_part(endpoint, key, node); }));
        }
        slurm.slurmstepd(option);
        for (auto& other : others) {
            other.get();
        }
        (void)server.finish(std::chrono::milliseconds(0));
        return value(0, "RANK") + " " + value(1, "RANK");
    }

    /// An srun that ends when it has a report.
    static void end_with_report(const UniqueFd& listener, const Key& key) {
        pollfd waiting{listener.get(), POLLIN, 0};
        ASSERT_EQ(::poll(&waiting, 1, 1000 * timeout_seconds), 1);
        Channel node(UniqueFd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)),
                     Session(Session::Role::Coordinator, derive_key(key, KeyPurpose::Exchange), "", most_from_node));
        EXPECT_TRUE(node.shake_hands());
        EXPECT_TRUE(node.hear());
    }

    std::string others_pattern = "block.node";
    std::string others_fabric_profile = std::string(no_fabric_profile_values);
    std::string told;

private:
    void take_part(const ExchangeEndpoint& endpoint, const Key& key, unsigned node) const {
        const auto deadline = ExchangeClient::Clock::now() + std::chrono::seconds(30);
        NodeReport report;
        report.node = slurm.step.nodes[node];
        report.job_id = slurm.step.job_id;
        report.tasks = 2;
        report.first_task = 2 * node;
        report.topology_address = (node == 2 || node == 0 ? "b1." : "b2.") + report.node;
        report.topology_pattern = others_pattern;
        report.keeps_order = "";
        report.fabric_profile = others_fabric_profile;
        auto client = ExchangeClient::connect(endpoint, key, most_from_server, deadline, deadline);
        ASSERT_TRUE(client) << client.error().message;
        const auto answer = client->agree(report, std::nullopt, deadline);
        ASSERT_TRUE(answer) << answer.error().message;
        EXPECT_TRUE(std::holds_alternative<ExchangeAnswer>(*answer));
    }
};

TEST_F(NodeOrderTest, RanksGoByBlock) {
    EXPECT_EQ(ranks(), "4 5");
    EXPECT_EQ(value(0, "NODE_RANK"), "2");
    EXPECT_EQ(value(0, "LOCAL_RANK"), "0");
    EXPECT_EQ(value(0, "SLURM_PROCID"), "2");
    EXPECT_EQ(value(0, "RDMA_NCCL_NODE_ORDER"), "topology");
    EXPECT_NE(told.find("order=topology: a ring of nodes leaves its switches or blocks 2 times, not 4"),
              std::string::npos)
        << told;
}

/// srun tells what differs, and what the node itself would set.
TEST_F(NodeOrderTest, AFabricProfileIsSetIfAllNodesHaveTheSame) {
    tree.file(std::string(fabric_profiles_directory) + "/ours.conf",
              "link = ethernet\nNCCL_IB_TC = 41\nNCCL_IB_SL = 3\n");
    (void)ranks("fabric_profile");
    EXPECT_EQ(value(0, "NCCL_IB_TC"), "(unset)");
    const std::string before = "n02: ";
    const std::string behind = "; 3 nodes have no value of a fabric profile: none is set";
    const auto start = told.find(before + "2 values of ");
    const auto end = told.find(behind);
    ASSERT_TRUE(start != std::string::npos && end != std::string::npos) << told;
    others_fabric_profile = told.substr(start + before.size(), end - start - before.size());
    (void)ranks("fabric_profile");
    EXPECT_EQ(told.find("fabric profile"), std::string::npos) << told;
    EXPECT_EQ(value(0, "NCCL_IB_TC"), "41");
    EXPECT_EQ(value(1, "NCCL_IB_SL"), "3");
}

TEST_F(NodeOrderTest, ANodeThatSlurmDoesNotPlaceIsInNoOthersBlock) {
    slurm.step.environment.erase("SLURM_TOPOLOGY_ADDR");
    EXPECT_EQ(ranks(), "4 5");
    EXPECT_NE(told.find("3 times, not 4"), std::string::npos) << told;
}

TEST_F(NodeOrderTest, WhatSrunChoseItselfIsNoWishOfTheUsers) {
    slurm.step.environment["SLURM_DISTRIBUTION"] = "cyclic";
    EXPECT_EQ(ranks(), "4 5");
}

TEST_F(NodeOrderTest, SlurmsStaysWhereTheUserOrMpiNumbersTheTasks) {
    slurm.step.environment["SLURM_DISTRIBUTION"] = "arbitrary";
    EXPECT_EQ(ranks(), "2 3");
    EXPECT_EQ(value(0, "RDMA_NCCL_NODE_ORDER"), "(unset)");
    EXPECT_NE(told.find("Slurm's stays: n02: --distribution=arbitrary was asked for"), std::string::npos) << told;
    slurm.step.environment.erase("SLURM_DISTRIBUTION");
    slurm.step.environment["SLURM_MPI_TYPE"] = "pmix_v4";
    EXPECT_EQ(ranks(), "2 3");
    EXPECT_NE(told.find("Slurm's stays: MPI (pmix_v4) numbers the ranks"), std::string::npos) << told;
    EXPECT_EQ(ranks("order=topology,layout=node"), "(unset) (unset)");
    EXPECT_EQ(value(0, "PET_NODE_RANK"), "2") << "the launchers number the ranks";
}

TEST_F(NodeOrderTest, SlurmsStaysWhereItTellsNoSwitchOrBlock) {
    slurm.step.environment["SLURM_TOPOLOGY_ADDR"] = "ring1:7.n02";
    slurm.step.environment["SLURM_TOPOLOGY_ADDR_PATTERN"] = others_pattern = "ring:position.node";
    EXPECT_EQ(ranks(), "2 3");
    EXPECT_NE(told.find("Slurm's stays: SLURM_TOPOLOGY_ADDR names no switch or block"), std::string::npos) << told;
}

TEST_F(NodeOrderTest, SlurmsStaysWithoutAnAgreement) {
    const std::string stays = "order=topology: Slurm's stays: the nodes have not agreed";
    EXPECT_EQ(slurm.srun("exchange=off,order=topology"), 0);
    EXPECT_TRUE(said(stays)) << slurm.messages();
    slurm.clear_messages();
    EXPECT_EQ(slurm.srun("exchange=off,order=topology,verbose=0"), 0);
    EXPECT_EQ(slurm.srun("exchange=off"), 0);
    slurm.step.node_count = 1;
    EXPECT_EQ(slurm.srun("exchange=off,order=topology"), 0);
    EXPECT_FALSE(said(stays)) << slurm.messages();
}

/// srun may have answered the others, whose ranks are not Slurm's then, or who have set a fabric profile.
TEST_F(NodeOrderTest, ANodeWithoutItsAnswerSaysSo) {
    const std::string warning = "warning: srun has ended, or closed the connection: each node plans alone";
    const auto says = [&](const char* option) {
        const auto key = random_key().value();
        const auto listener = listen_on(0, PortSharing::Alone).value();
        const auto srun = std::async(std::launch::async, [&] { end_with_report(listener, key); });
        slurm.step.environment["SLURM_RDMA_NCCL_KEY"] = key_text(key);
        slurm.step.environment["SLURM_RDMA_NCCL_EXCHANGE"] =
            write_endpoint({{*IpAddress::parse("127.0.0.1")}, local_port(listener.get()), 30});
        slurm.clear_messages();
        slurm.slurmstepd(option);
        EXPECT_EQ(value(0, "RANK"), "2");
        return said(warning);
    };
    EXPECT_TRUE(says("order=topology")) << slurm.messages();
    EXPECT_FALSE(says("order=slurm")) << slurm.messages();
    EXPECT_FALSE(says("fabric_profile")) << "no profile: " << slurm.messages();
    tree.file(std::string(fabric_profiles_directory) + "/ours.conf", "link = ethernet\nNCCL_IB_TC = 41\n");
    EXPECT_TRUE(says("fabric_profile")) << slurm.messages();
}

// Ports of the step's node are bound while it runs, and a busy one is said where it cannot be another.
TEST_F(PluginTest, PortsAreHeld) {
    slurm.plugin_arguments.erase(slurm.plugin_arguments.begin() + 2); // hold=off
    const auto listener = listen_on(0, PortSharing::Alone);
    ASSERT_TRUE(listener.has_value());
    const std::string port = std::to_string(std::min<int>(local_port(listener->get()), 65532));
    run(("verbose=3,port=" + port).c_str());
    EXPECT_TRUE(said("warning: port " + port + " is or was recently in use on this node")) << slurm.messages();
    EXPECT_EQ(value(0, "MASTER_PORT"), port);
}

/// This process, from now on: a kernel without sock_diag, by a filter of system calls.
void forbid_sock_diag() {
    constexpr std::uint32_t refused = SECCOMP_RET_ERRNO | EPROTONOSUPPORT;
    const auto argument = [](unsigned number) {
        return static_cast<std::uint32_t>(offsetof(seccomp_data, args) + number * sizeof(std::uint64_t));
    };
    std::array<sock_filter, 8> filter{
        sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_socket, 0, 5),
        sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, argument(0)),
        sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_NETLINK, 0, 3),
        sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, argument(2)),
        sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NETLINK_SOCK_DIAG, 0, 1),
        sock_filter BPF_STMT(BPF_RET | BPF_K, refused),
        sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog program{filter.size(), filter.data()};
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        ::_exit(1);
    }
}

TEST_F(PluginTest, AKernelThatDoesNotTellWhoListensIsWarnedOf) {
    slurm.plugin_arguments.erase(slurm.plugin_arguments.begin() + 2); // hold=off
    const auto text = messages_of_child([&] {
        forbid_sock_diag();
        run(bare);
        return std::string();
    });
    EXPECT_NE(text.find("cannot be told: sock_diag: Protocol not supported"), std::string::npos) << text;
}

/// This process, from now on: nothing can be made in /tmp. False where root cannot make mount namespaces.
bool close_tmp() {
    return ::unshare(CLONE_NEWNS) == 0 && ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
           ::mount("/tmp", "/tmp", nullptr, MS_BIND, nullptr) == 0 &&
           ::mount(nullptr, "/tmp", nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr) == 0;
}

TEST_F(PluginTest, WithoutADirectoryTheInspectorIsNotLoaded) {
    tree.file("/usr/lib64/libnccl-profiler-inspector.so", "");
    const auto messages = tree.at("/messages");
    ASSERT_TRUE(run_in_child(std::chrono::seconds(20), [&] {
        std::ofstream stream(messages);
        if (close_tmp()) {
            run("profile=inspector");
            stream << slurm.messages() << "plugin " << value(1, "NCCL_PROFILER_PLUGIN") << "\n";
        }
    }));
    std::ostringstream text;
    text << std::ifstream(messages).rdbuf();
    if (text.str().empty()) {
        GTEST_SKIP() << "a mount namespace needs root";
    }
    EXPECT_NE(text.str().find("profile=inspector: no directory for its files can be made in /tmp: "), std::string::npos)
        << text.str();
    EXPECT_EQ(text.str().find("do not see"), std::string::npos) << "said once: " << text.str();
    EXPECT_TRUE(text.str().ends_with("plugin (unset)\n")) << text.str();
}

/// hosts=mount for a step of one node, whose table every node makes by itself. In a child: what is mounted for a task,
/// and the privileges that it gives up, are those of its process.
class HostsMountTest : public PluginTest {
protected:
    HostsMountTest() {
        slurm.plugin_arguments.emplace_back("hosts_mount=on");
        slurm.step.nodes = {"n01"};
        slurm.step.node_count = 1;
        slurm.step.task_count = 1;
        slurm.step.global_ids = {0};
        slurm.step.layout = {0};
        slurm.step.environment["SLURM_STEP_NODELIST"] = "n01";
        slurm.step.environment["SLURM_STEP_NUM_NODES"] = "1";
        slurm.step.environment["SLURM_STEP_NUM_TASKS"] = "1";
        slurm.step.environment["SLURM_STEP_TASKS_PER_NODE"] = "1";
        slurm.step.environment["TMPDIR"] = tree.path().string();
    }

    struct Outcome {
        std::string hosts; ///< /etc/hosts of a task
        std::string messages;
        bool no_new_privileges = false;
        bool ended = false;
    };

    /// `name`: of this node, by slurmd.
    Outcome step(const std::string& name, std::chrono::seconds timeout = std::chrono::seconds(4)) {
        Outcome outcome;
        const auto hosts = tree.at("/hosts");
        const auto messages = tree.at("/messages");
        outcome.ended = run_in_child(timeout, [&] {
            ::setenv("SLURMD_NODENAME", name.c_str(), 1);
            slurm.slurmstepd("hosts=mount");
            std::ofstream(hosts) << std::ifstream("/etc/hosts").rdbuf();
            std::ofstream(messages) << slurm.messages();
            if (::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1) {
                std::ofstream(messages, std::ios::app) << "no new privileges\n";
            }
        });
        outcome.hosts = content(hosts);
        outcome.messages = content(messages);
        outcome.no_new_privileges = outcome.messages.find("no new privileges\n") != std::string::npos;
        return outcome;
    }

    static std::string content(const std::filesystem::path& path) {
        std::ostringstream text;
        text << std::ifstream(path).rdbuf();
        return text.str();
    }

    const std::string before = content("/etc/hosts");
};

/// A name that this machine's /etc/hosts has not.
constexpr const char* node = "rdma-nccl-test-n01";

TEST_F(HostsMountTest, ANodeOfTheStepIsMounted) {
    if (::geteuid() != 0) {
        GTEST_SKIP() << "a mount namespace needs root";
    }
    slurm.step.nodes = {node};
    slurm.step.addresses = {{node, "10.1.0.5"}};
    const auto outcome = step(node);
    ASSERT_TRUE(outcome.ended);
    if (outcome.messages.find("unshare") != std::string::npos) {
        GTEST_SKIP() << "this machine does not let root make mount namespaces";
    }
    EXPECT_TRUE(outcome.hosts.starts_with(trim(before))) << outcome.hosts; // blank lines at its end are left out
    EXPECT_TRUE(
        outcome.hosts.ends_with("# the nodes of this step, by rdma-nccl\n10.1.0.5\t" + std::string(node) + "\n"))
        << outcome.hosts;
    EXPECT_TRUE(outcome.no_new_privileges);
    EXPECT_EQ(content("/etc/hosts"), before);
    for (const auto& entry : std::filesystem::directory_iterator("/run")) {
        EXPECT_FALSE(entry.path().filename().string().starts_with("rdma-nccl-hosts.12.0.")) << entry.path();
    }
}

TEST_F(HostsMountTest, ANameThatSlurmctldDoesNotKnowIsNot) {
    const auto outcome = step(node); // the layout has n01
    ASSERT_TRUE(outcome.ended);
    EXPECT_EQ(outcome.hosts, before);
    EXPECT_FALSE(outcome.no_new_privileges);
    EXPECT_NE(outcome.messages.find("warning: hosts=mount: 1 of the table's 1 lines are left out"), std::string::npos)
        << outcome.messages;
}

TEST_F(HostsMountTest, WithoutSlurmctldsAnswerNothingIs) {
    slurm.step.nodes = {node};
    slurm.step.layout.clear();
    const auto outcome = step(node);
    ASSERT_TRUE(outcome.ended);
    EXPECT_EQ(outcome.hosts, before);
    EXPECT_FALSE(outcome.no_new_privileges);
    const std::string warning = "warning: hosts=mount: slurmctld did not say which nodes this step has";
    const auto said = outcome.messages.find(warning);
    EXPECT_NE(said, std::string::npos) << outcome.messages;
    EXPECT_EQ(outcome.messages.find(warning, said + 1), std::string::npos) << "said once more";
}

TEST_F(HostsMountTest, NoLongerThanThatIsSlurmctldWaitedFor) {
    slurm.step.nodes = {node};
    slurm.step.environment[std::string(note_variable)] = // else the node asks for the head, too
        format_note({slurm.step.job_id, slurm.step.step_id, node, "10.1.0.5", 0, "", false});
    slurm.step.layout_hangs = true;
    const auto outcome = step(node, std::chrono::seconds(20));
    ASSERT_TRUE(outcome.ended);
    EXPECT_EQ(outcome.hosts, before);
    EXPECT_NE(outcome.messages.find("slurmctld did not say which nodes this step has"), std::string::npos)
        << outcome.messages;
}

TEST_F(HostsMountTest, SlurmctldIsNotAskedWhereTheSiteDoesNotAllowIt) {
    slurm.plugin_arguments.pop_back();
    slurm.step.environment[std::string(note_variable)] =
        format_note({slurm.step.job_id, slurm.step.step_id, node, "10.1.0.5", 0, "", false});
    slurm.step.layout_hangs = true;
    const auto outcome = step(node);
    ASSERT_TRUE(outcome.ended);
    EXPECT_EQ(outcome.hosts, before);
    EXPECT_EQ(outcome.messages.find("slurmctld"), std::string::npos) << outcome.messages;
}

/// The first of four ports that are free now; 0: none found.
std::uint16_t free_block() {
    for (unsigned first = 27000; first < 27400; first += 4) {
        std::vector<UniqueFd> sockets;
        for (unsigned port = first; port < first + 4; ++port) {
            if (auto socket = bind_port(static_cast<std::uint16_t>(port), PortSharing::Alone)) {
                sockets.push_back(std::move(*socket));
            }
        }
        if (sockets.size() == 4) {
            return static_cast<std::uint16_t>(first);
        }
    }
    return 0;
}

// Until its tasks are there nobody listens at a port of the step, then who has SO_REUSEADDR.
TEST_F(PluginTest, HeldPortsAreOpenOnlyToTasks) {
    slurm.plugin_arguments.erase(slurm.plugin_arguments.begin() + 2); // hold=off
    const auto first = free_block();
    ASSERT_NE(first, 0);
    const auto count_open = [first] {
        int open = 0;
        for (unsigned port = first; port < first + 4U; ++port) {
            open += listen_on(static_cast<std::uint16_t>(port), PortSharing::Reuse) ? 1 : 0;
        }
        return open;
    };
    std::vector<int> open;
    const auto note = [&] { open.push_back(count_open()); };
    slurm.after = {{"slurm_spank_user_init", note}, {"slurm_spank_task_post_fork", note}};
    run(("port=" + std::to_string(first)).c_str());
    EXPECT_EQ(value(0, "MASTER_PORT"), std::to_string(first));
    EXPECT_EQ(open, (std::vector<int>{0, 4, 4}));
    EXPECT_TRUE(bind_port(first, PortSharing::Alone)); // held no longer
}

// The steps of a site that are started by something else than srun with the plugin.
TEST_F(PluginTest, NodesWithoutASrunSideAskSlurmctldInTurn) {
    slurm.step.node_id = 2000; // it waits so many milliseconds
    slurm.step.global_ids = {2, 3};
    const auto start = std::chrono::steady_clock::now();
    slurm.slurmstepd(bare);
    EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
}

TEST_F(PluginTest, NoSrunSide) {
    slurm.plugin_arguments.pop_back();
    slurm.slurmstepd(bare);
    EXPECT_TRUE(said("warning: the step's srun has no rdma-nccl plugin: each node plans alone")) << slurm.messages();
    slurm.clear_messages();
    slurm.step.node_id = 1;
    slurm.step.global_ids = {2, 3};
    slurm.slurmstepd(bare);
    EXPECT_FALSE(said("warning: the step's srun")) << slurm.messages();
}

} // namespace
} // namespace rdma_nccl::test
