// SPDX-License-Identifier: Apache-2.0
// What is read of a node, within a limit of time or without one: it is the same.
#include "lib/plan/inspect.h"

#include "lib/base/unique_fd.h"
#include "lib/settings/parse.h"
#include "tests/unit/fabric_machine.h"
#include "tests/unit/hang.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

namespace rdma_nccl {
namespace {

using namespace std::chrono_literals;
using test::Machine;

constexpr std::chrono::milliseconds without_limit(0);

Settings settings_of(const std::string& option) {
    SettingsSources sources;
    sources.option = option;
    return resolve_settings(sources).settings;
}

NodeFacts read_files(Machine& machine, std::chrono::milliseconds timeout) {
    NodeFacts facts;
    inspect_files(machine.tree().root(), facts, timeout);
    return facts;
}

TEST(Inspect, ConfigurationFilesAreTheSameThroughAChild) {
    Machine machine;
    machine.tree().file("/etc/nccl.conf", "NCCL_DEBUG=INFO\nNCCL_IB_HCA = =mlx5_0:1,mlx5_1:1 # rails\n"
                                          "NCCL_DEBUG_FILE=/tmp/\xc3\xa4\x01.log\nNCCL_LONG=" +
                                              std::string(5000, 'x') + "\n");
    const auto alone = read_files(machine, without_limit);
    const auto bounded = read_files(machine, 60s);
    ASSERT_TRUE(alone.nccl_conf.contains("NCCL_DEBUG_FILE"));
    EXPECT_GE(alone.nccl_conf.size(), 4U);
    ASSERT_EQ(bounded.nccl_conf.size(), alone.nccl_conf.size());
    for (const auto& [name, value] : alone.nccl_conf) {
        ASSERT_TRUE(bounded.nccl_conf.contains(name)) << name;
        EXPECT_EQ(bounded.nccl_conf.at(name).value, value.value);
        EXPECT_EQ(bounded.nccl_conf.at(name).file, value.file);
    }
    EXPECT_EQ(bounded.fabric.problems, alone.fabric.problems);
}

/// A plan needs four of eight slots; if the user sets NCCL's GID index, all eight.
TEST(Inspect, ReadsGidTablesAsFarAsThePlanNeeds) {
    Machine machine;
    machine.connectx("mlx5_0", "eth0", "10.1.0.5", test::below_root_port("50", "53"));
    machine.tree().file("/ip-addresses", "eth0 10.1.0.5/24\n");
    Settings settings;
    settings.root = machine.tree().path();
    const auto slots = [&](const Environment& environment) {
        return inspect_node(settings, environment, {}).value().fabric.hcas.at(0).ports.at(0).gid_table_length;
    };
    EXPECT_EQ(slots({}), 4U);
    Environment wish;
    wish.set("NCCL_IB_GID_INDEX", "6");
    EXPECT_EQ(slots(wish), 8U);
    settings.gid = 6;
    EXPECT_EQ(slots({}), 8U);
}

/// A machine with the RoCE port that fits `fits.conf`, of the site's profiles.
void add_fabric_profiles(Machine& machine) {
    const std::string folder(fabric_profiles_directory);
    machine.connectx("mlx5_0", "eth0", "10.1.0.5", test::below_root_port("50", "53"));
    machine.tree().file("/ip-addresses", "eth0 10.1.0.5/24\n").file("/opt/topo.xml", "<system/>");
    machine.tree()
        .file(folder + "/bad.conf", "?")
        .file(folder + "/other.conf", "link = infiniband\nNCCL_TOPO_FILE = /opt/others.xml\n");
    machine.tree().file(
        folder + "/fits.conf",
        "link = ethernet\nNCCL_TOPO_FILE = /opt/topo.xml\nNCCL_GRAPH_FILE = /opt/none.xml\nNCCL_C = opt\n");
}

TEST(Inspect, TheFilesOfAFabricProfileAreLookedFor) {
    Machine machine;
    add_fabric_profiles(machine);
    auto settings = settings_of("fabric_profile");
    settings.root = machine.tree().path();
    for (const auto timeout : {without_limit, std::chrono::milliseconds(60s)}) {
        const auto facts = inspect_node(settings, {}, {}, timeout).value();
        EXPECT_EQ(facts.fabric_profile_faults.size(), 1U);
        ASSERT_TRUE(facts.fabric_profile);
        const auto& values = facts.fabric_profile->profile.values;
        ASSERT_EQ(values.size(), 3U);
        EXPECT_FALSE(values[0].absent);
        EXPECT_TRUE(values[1].absent);
        EXPECT_FALSE(values[2].absent);
    }
}

/// Lets this process open one descriptor at a time while it lives.
class OneMoreDescriptor {
public:
    explicit OneMoreDescriptor(int any) {
        EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &usual_), 0);
        const int next = UniqueFd(::dup(any)).get();
        const rlimit one_more{static_cast<rlim_t>(next) + 1, usual_.rlim_max};
        EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &one_more), 0);
    }
    ~OneMoreDescriptor() { EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &usual_), 0); }
    OneMoreDescriptor(const OneMoreDescriptor&) = delete;
    OneMoreDescriptor& operator=(const OneMoreDescriptor&) = delete;

private:
    rlimit usual_{};
};

/// As it is where their file system hangs: here, for want of a descriptor for the pipe to the process that looks.
TEST(Inspect, ThatTheFilesOfAFabricProfileCannotBeLookedForIsSaid) {
    Machine machine;
    add_fabric_profiles(machine);
    const auto root = machine.tree().root();
    NodeFacts facts;
    inspect_files(root, facts, without_limit);
    {
        const OneMoreDescriptor limit(root.descriptor());
        inspect_fabric_profile(root, facts, settings_of("fabric_profile"), 60s);
    }
    ASSERT_TRUE(facts.fabric_profile);
    EXPECT_TRUE(facts.fabric_profile->profile.values[0].absent);
    EXPECT_FALSE(facts.fabric_profile->profile.values[2].absent) << "names no file";
    ASSERT_EQ(facts.fabric_profile_faults.size(), 2U);
    EXPECT_NE(facts.fabric_profile_faults[1].find("/fits.conf: the files that it names count as absent: "),
              std::string::npos)
        << facts.fabric_profile_faults[1];
}

TEST(Inspect, OfFabricProfilesThatDoNotFitNoFileIsLookedFor) {
    Machine machine;
    add_fabric_profiles(machine);
    const auto log = std::make_shared<AccessLog>();
    const auto root = SysRoot::open(machine.tree().path().string(), log).value();
    NodeFacts facts;
    inspect_files(root, facts, without_limit);
    inspect_fabric_profile(root, facts, settings_of("fabric_profile"), without_limit);
    EXPECT_TRUE(log->contains("/opt/none.xml"));
    EXPECT_FALSE(log->contains("/opt/others.xml"));
}

TEST(Inspect, NoFabricProfileIsReadWhereItIsOff) {
    Machine machine;
    add_fabric_profiles(machine);
    Settings settings;
    settings.root = machine.tree().path();
    const auto facts = inspect_node(settings, {}, {}).value();
    EXPECT_FALSE(facts.fabric_profile);
    EXPECT_TRUE(facts.fabric_profile_faults.empty());
}

/// The script is of this machine, whatever the root is, and may be written relative to the working directory.
TEST(Inspect, AShellScriptThatStartsALauncherIsSeen) {
    Machine machine;
    const auto program_of = [&](const std::string& text, bool through_child = true) {
        machine.tree().file("/run.sh", text);
        Settings settings;
        settings.root = machine.tree().path();
        const auto facts = inspect_node(settings, {}, {machine.tree().at("/run.sh").string()},
                                        through_child ? std::chrono::milliseconds(60s) : without_limit);
        return facts.value().program;
    };
    for (const bool through_child : {true, false}) {
        const auto program = program_of("#!/bin/bash\nexec torchrun --standalone x.py\n", through_child);
        EXPECT_EQ(program.kind, ProgramKind::Launcher);
        EXPECT_EQ(program.name, "torchrun in run.sh");
        EXPECT_EQ(program.alone, "torchrun --standalone");
    }
    EXPECT_EQ(program_of("#!/bin/bash\npython x.py\n").kind, ProgramKind::Ordinary);
    EXPECT_EQ(program_of(std::string("\x7f"
                                     "ELF\0\ntorchrun x.py\n",
                                     21))
                  .kind,
              ProgramKind::Ordinary);
    EXPECT_EQ(program_of("#!/bin/bash\n" + std::string(65536, '\n') + "torchrun x.py\n").kind, ProgramKind::Ordinary)
        << "too long";
    machine.tree().remove("/run.sh").directory("/run.sh");
    Settings settings;
    settings.root = machine.tree().path();
    const auto fifo = machine.tree().at("/fifo.sh").string();
    ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
    for (const auto& path : {machine.tree().at("/run.sh").string(), fifo, std::string("/nonexistent/run.sh")}) {
        EXPECT_EQ(inspect_node(settings, {}, {path}).value().program.kind, ProgramKind::Ordinary) << path;
    }
}

TEST(Inspect, AScriptThatAScriptStartsIsSeen) {
    Machine machine;
    const auto path = [&](const char* name) { return machine.tree().at(name).string(); };
    machine.tree().file("/inner.sh", "#!/bin/bash\nexec torchrun \"$@\" x.py\n");
    machine.tree().file("/outer.sh", "#!/bin/bash\nN=1\nbash " + path("/inner.sh") + " --nnodes=$N\n");
    machine.tree().file("/endless.sh", path("/endless.sh") + "\n" + path("/endless.sh") + "\n" + path("/inner.sh"));
    Settings settings;
    settings.root = machine.tree().path();
    for (const auto timeout : {without_limit, std::chrono::milliseconds(60s)}) {
        const auto of = [&](std::vector<std::string> argv) {
            return inspect_node(settings, {}, std::move(argv), timeout).value().program;
        };
        EXPECT_EQ(of({path("/outer.sh")}).name, "torchrun in inner.sh in outer.sh");
        EXPECT_EQ(of({path("/outer.sh")}).alone, "torchrun --nnodes=1");
        EXPECT_EQ(of({"bash", "-c", path("/inner.sh") + " --standalone"}).alone, "torchrun --standalone");
        EXPECT_TRUE(of({path("/inner.sh"), "--nnodes=2"}).names_others);
        EXPECT_EQ(of({path("/endless.sh")}).kind, ProgramKind::Ordinary) << "given up";
    }
}

/// Of another process's program; what such a script starts by an absolute path stays where it is.
TEST(Inspect, ARelativeScriptIsInTheNamedDirectory) {
    Machine machine;
    machine.tree().file("/outer.sh", "#!/bin/bash\n./inner.sh --nnodes=1\n");
    machine.tree().file("/inner.sh", "#!/bin/bash\nexec torchrun \"$@\" x.py\n");
    Settings settings;
    settings.root = machine.tree().path();
    const auto name_of = [&](const std::string& script, const std::string& directory) {
        return inspect_node(settings, {}, {"bash", script}, 60s, false, GidTables::Expected, directory)
            .value()
            .program.name;
    };
    EXPECT_EQ(name_of("outer.sh", settings.root), "torchrun in inner.sh in outer.sh");
    EXPECT_EQ(name_of(machine.tree().at("/inner.sh").string(), "/nonexistent"), "torchrun in inner.sh");
    EXPECT_EQ(name_of("outer.sh", "/nonexistent"), "");
}

/// As slurmstepd does, which is root and has the effective ids of the job's user.
TEST(Inspect, AScriptThatOnlyRootMayReadIsNotRead) {
    if (::geteuid() != 0) {
        GTEST_SKIP() << "another user needs root";
    }
    Machine machine;
    const auto path = machine.tree().at("/run.sh");
    machine.tree().file("/run.sh", "#!/bin/bash\ntorchrun x.py\n");
    std::filesystem::permissions(machine.tree().path(), std::filesystem::perms(0755));
    Settings settings;
    settings.root = machine.tree().path();
    const auto kind_as_nobody = [&](unsigned mode, std::chrono::milliseconds timeout) {
        std::filesystem::permissions(path, std::filesystem::perms(mode));
        EXPECT_EQ(::seteuid(65534), 0);
        const auto facts = inspect_node(settings, {}, {path.string()}, timeout);
        EXPECT_EQ(::seteuid(0), 0);
        return facts.value().program.kind;
    };
    for (const auto timeout : {without_limit, std::chrono::milliseconds(60s)}) {
        EXPECT_EQ(kind_as_nobody(0644, timeout), ProgramKind::Launcher);
        EXPECT_EQ(kind_as_nobody(0600, timeout), ProgramKind::Ordinary);
    }
}

TEST(Inspect, FilesThatHangCountAsAbsent) {
    Machine machine;
    machine.connectx("mlx5_0", "eth0", "10.0.0.5", test::below_root_port("50", "53"));
    machine.tree().file("/etc/nccl.conf", "NCCL_DEBUG=INFO\n");
    const test::Hang hang({machine.tree().at("/etc/nccl.conf").string()});
    if (!hang.works()) {
        GTEST_SKIP() << "no fanotify permission events here: " << std::strerror(errno);
    }
    const auto facts = read_files(machine, 1s);
    EXPECT_TRUE(facts.nccl_conf.empty());
    EXPECT_EQ(facts.fabric.hcas.size(), 1U) << "the rest is read";
    ASSERT_EQ(facts.fabric.problems.size(), 1U);
    EXPECT_EQ(facts.fabric.problems[0], "NCCL's configuration files count as absent: the home directory, the "
                                        "program's or the name service did not answer within 1 s");
}

TEST(Inspect, TheHeadIsTheSameThroughAChild) {
    for (const auto timeout : {without_limit, std::chrono::milliseconds(60s)}) {
        NodeFacts facts;
        resolve_head(facts, settings_of("head=127.0.0.1"), timeout);
        ASSERT_TRUE(facts.head_resolution);
        EXPECT_EQ(facts.head_resolution->name, "127.0.0.1");
        EXPECT_EQ(facts.head_resolution->addresses, std::vector{IpAddress::parse("127.0.0.1").value()});
        EXPECT_EQ(facts.head_resolution->problem, "");
        resolve_head(facts, settings_of("head=localhost"), timeout);
        EXPECT_EQ(facts.head_resolution->name, "localhost");
        EXPECT_FALSE(facts.head_resolution->addresses.empty()) << facts.head_resolution->problem;
    }
}

TEST(Inspect, TheHeadIsAskedForOnlyWhereItIsNeeded) {
    NodeFacts facts;
    facts.head_node.name = "127.0.0.1";
    resolve_head(facts, settings_of(""), 60s);
    EXPECT_TRUE(facts.head_resolution);
    facts.head_is_to_be_agreed = true; // the nodes will tell each other
    resolve_head(facts, settings_of(""), 60s);
    EXPECT_FALSE(facts.head_resolution);
    resolve_head(facts, settings_of("head=127.0.0.1"), 60s); // not where the user has said it
    EXPECT_TRUE(facts.head_resolution);
    facts.environment.set("MASTER_ADDR", "10.0.0.1");
    resolve_head(facts, settings_of("head=127.0.0.1"), 60s);
    EXPECT_FALSE(facts.head_resolution);
}

} // namespace
} // namespace rdma_nccl
