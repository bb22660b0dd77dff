// SPDX-License-Identifier: Apache-2.0
#include "tools/run/job.h"

#include "tests/unit/tree.h"

#include <algorithm>
#include <csignal>
#include <ctime>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace rdma_nccl::run {
namespace {

using Texts = std::vector<std::string>;

/// A process of this user in an emulated /proc.
void add_process(test::Tree& tree, pid_t pid, const std::string& name, const Texts& files, const std::string& maps = "",
                 pid_t parent = 1) {
    const auto place = "/proc/" + std::to_string(pid);
    tree.file(place + "/comm", name + "\n");
    tree.file(place + "/maps", maps);
    tree.file(place + "/stat",
              std::to_string(pid) + " (a) b) S " + std::to_string(parent) + " 1 1 0 -1 4194304 1 1 0 0\n");
    tree.directory(place + "/fd");
    for (std::size_t i = 0; i < files.size(); ++i) {
        tree.link(place + "/fd/" + std::to_string(i), files[i]);
    }
}

/// A segment that was last written so many seconds ago.
void add_segment(test::Tree& tree, const std::string& name, std::time_t age) {
    tree.file("/dev/shm/" + name, std::string(2 << 20, 'x'));
    const timespec then{std::time(nullptr) - age, 0};
    const timespec times[] = {then, then};
    ASSERT_EQ(::utimensat(AT_FDCWD, tree.at("/dev/shm/" + name).c_str(), times, 0), 0);
}

class Preflight : public ::testing::Test {
protected:
    Texts warnings(const Texts& environment = {}, const Texts& gpus = {}) {
        const auto root = tree_.root();
        const Environment variables{environment};
        return preflight({root, variables, 8, world_size_, master_addr_, gpus});
    }
    std::string warning(const Texts& environment = {}, const Texts& gpus = {}) {
        const auto all = warnings(environment, gpus);
        return all.size() == 1 ? all.front() : std::to_string(all.size()) + " warnings";
    }
    std::vector<pid_t> processes(const Texts& files) { return find_device_processes(tree_.root(), files); }

    test::Tree tree_;
    unsigned world_size_ = 16;
    std::string master_addr_ = "10.0.0.1";
};

TEST_F(Preflight, OfNothingSaysNothing) {
    EXPECT_EQ(warnings({"NCCL_IB_HCA=", "http_proxy="}), Texts());
}

TEST_F(Preflight, NamesOtherProcessesOnTheGpus) {
    add_process(tree_, 1200, "python3", {"/dev/null", "/dev/nvidiactl", "/dev/nvidia3"});
    add_process(tree_, 1100, "train\x1b", {"/dev/nvidia0", "/dev/nvidia0"});
    add_process(tree_, 1300, "other", {"/dev/nvidia30", "/tmp/dev/nvidia3"});
    add_process(tree_, 1400, "nvidia-cuda-mps", {"/dev/nvidia3"});
    EXPECT_EQ(processes({"/dev/nvidia0", "/dev/nvidia3"}), (std::vector<pid_t>{1100, 1200}));
    EXPECT_EQ(processes({"/dev/nvidia5"}), std::vector<pid_t>());
    EXPECT_EQ(processes({}), std::vector<pid_t>());
    EXPECT_EQ(warning({}, {"/dev/nvidia0", "/dev/nvidia3"}),
              "the GPUs are held by other processes of yours: 1100 (train?), 1200 (python3): they take memory and time "
              "from the ranks; if they are left from an earlier job: kill 1100 1200");
}

TEST_F(Preflight, DoesNotBlameItselfOrWhomItDescendsFrom) {
    add_process(tree_, ::getpid(), "rdma-nccl", {"/dev/nvidia0"}, "", 1500);
    add_process(tree_, 1500, "bash", {"/dev/nvidia0"}, "", 1501);
    add_process(tree_, 1501, "slurmstepd", {"/dev/nvidia0"}, "", 1);
    EXPECT_EQ(processes({"/dev/nvidia0"}), std::vector<pid_t>());
    add_process(tree_, 1600, "python3", {"/dev/nvidia0"}, "", 1501);
    EXPECT_EQ(processes({"/dev/nvidia0"}), std::vector<pid_t>{1600});
}

TEST_F(Preflight, PassesOverWhatIsDamaged) {
    tree_.file("/proc/1700", "no directory").directory("/proc/1800").file("/proc/1900/fd", "").link("/proc/2000", "/");
    tree_.file("/proc/x/fd/1", "").file("/proc/99999999999/comm", "");
    add_process(tree_, 2100, "python3", {"relative", std::string(1000, 'x'), "/dev/nvidia0"});
    EXPECT_EQ(processes({"/dev/nvidia0"}), std::vector<pid_t>{2100});
}

TEST_F(Preflight, OfThisMachineFindsAnOpenFile) {
    const int fd = ::open("/dev/full", O_RDONLY | O_CLOEXEC);
    ASSERT_GE(fd, 0);
    const pid_t child = ::fork();
    if (child == 0) {
        ::pause();
        ::_exit(0);
    }
    const auto found = find_device_processes(*SysRoot::open("/"), Texts{"/dev/full"});
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    ::close(fd);
    EXPECT_EQ(std::count(found.begin(), found.end(), child), 1);
    EXPECT_EQ(std::count(found.begin(), found.end(), ::getpid()), 0);
}

TEST_F(Preflight, CountsSharedMemoryThatNobodyUses) {
    add_segment(tree_, "nccl-Left01", 3600);
    add_segment(tree_, "nccl-Left02", 3600);
    EXPECT_EQ(warning(), "2 files of NCCL's shared memory in /dev/shm, 4 MiB, used by no process: left by a job that "
                         "was killed; rm /dev/shm/nccl-*");
}

TEST_F(Preflight, LeavesSharedMemoryAloneThatSomebodyUses) {
    add_segment(tree_, "nccl-Mapped", 3600);
    add_segment(tree_, "nccl-Open01", 3600);
    add_segment(tree_, "nccl-New001", 1);
    add_segment(tree_, "torch_1234", 3600);
    add_process(tree_, 1200, "python3", {"/dev/shm/nccl-Open01"},
                "7f00-7f10 r-xp 0 08:01 12 /usr/lib/x.so\n7f10-7f20 rw-s 0 00:1a 3 /dev/shm/nccl-Mapped (deleted)\n");
    EXPECT_EQ(warnings(), Texts());
    add_segment(tree_, "nccl-Left01", 3600);
    EXPECT_EQ(warning(), "1 file of NCCL's shared memory in /dev/shm, 2 MiB, used by no process: left by a job that "
                         "was killed; rm /dev/shm/nccl-Left01");
}

TEST_F(Preflight, WarnsOfProxies) {
    EXPECT_EQ(warning({"http_proxy=http://proxy:3128"}),
              "http_proxy is set, and no_proxy does not have 10.0.0.1: a rendezvous by gRPC or HTTP (JAX, etcd) would "
              "go through the proxy; export no_proxy=\"$no_proxy,10.0.0.1\"");
    EXPECT_NE(warning({"ALL_PROXY=socks5://proxy", "NO_PROXY=example.org"}).find("ALL_PROXY is set"),
              std::string::npos);
    EXPECT_EQ(warnings({"https_proxy=http://proxy", "no_proxy=10.0.0.0/8"}), Texts());
    EXPECT_EQ(warnings({"grpc_proxy=http://proxy", "no_grpc_proxy=10.0.0.1", "no_proxy=x"}), Texts());
    world_size_ = 8; // one node
    EXPECT_EQ(warnings({"http_proxy=http://proxy:3128"}), Texts());
    world_size_ = 16;
    master_addr_ = "";
    EXPECT_EQ(warnings({"http_proxy=http://proxy:3128"}), Texts());
}

TEST(NoProxy, CoversHostsAndNetworks) {
    for (const auto* const list : {"*", "n01.cluster", "cluster", ".cluster", "*.cluster", "x, .cluster ,y"}) {
        EXPECT_TRUE(no_proxy_covers(list, "n01.cluster")) << list;
    }
    for (const auto* const list : {"", ",", "n01", "uster", ".", "01.cluster", "10.0.0.0/8"}) {
        EXPECT_FALSE(no_proxy_covers(list, "n01.cluster")) << list;
    }
    EXPECT_TRUE(no_proxy_covers("10.1.0.0/16", "10.1.2.3"));
    EXPECT_FALSE(no_proxy_covers("10.1.0.0/16,2.3", "10.2.2.3"));
    EXPECT_TRUE(no_proxy_covers("fd00::/64", "fd00::1"));
}

class PreflightHcas : public Preflight {
protected:
    void port(const std::string& hca, const std::string& number, const std::string& state) {
        tree_.file("/sys/class/infiniband/" + hca + "/ports/" + number + "/state", state + "\n");
    }
};

TEST_F(PreflightHcas, ThatAreNamedMustBeActive) {
    port("mlx5_1", "1", "4: ACTIVE");
    port("mlx5_2", "1", "1: DOWN");
    port("mlx5_3", "1", "1: DOWN");
    EXPECT_EQ(warning({"NCCL_IB_HCA==mlx5_1:1,mlx5_2:1", "UCX_NET_DEVICES=mlx5_1:1,mlx5_2:1"}),
              "NCCL_IB_HCA: mlx5_2 port 1 is in state DOWN, not ACTIVE: is its cable or interface down (ip link, "
              "ibstat)?");
    EXPECT_EQ(warnings({"NCCL_IB_HCA=^mlx5_2"}), Texts());
    EXPECT_EQ(warnings({"NCCL_IB_HCA=mlx5", "UCX_NET_DEVICES=all"}), Texts());
    EXPECT_EQ(warnings(), Texts());
}

TEST_F(PreflightHcas, ThatCannotBeReadAreNotAbsent) {
    tree_.directory("/sys/class/infiniband/mlx5_1/ports/1/state");
    EXPECT_EQ(warning({"NCCL_IB_HCA==mlx5_1:1"}),
              "NCCL_IB_HCA: mlx5_1 port 1 cannot be read (/sys/class/infiniband/mlx5_1/ports/1/state: Is a directory)");
    tree_.link("/sys/class/infiniband/mlx5_2/ports", "ports");
    EXPECT_EQ(warning({"NCCL_IB_HCA==mlx5_2"}), "NCCL_IB_HCA: mlx5_2 cannot be read (/sys/class/infiniband/mlx5_2/"
                                                "ports: Too many levels of symbolic links)");
}

TEST_F(PreflightHcas, WithoutAPortNeedOneThatIsActive) {
    port("mlx5_1", "1", "1: DOWN");
    port("mlx5_1", "2", "4: ACTIVE");
    EXPECT_EQ(warnings({"NCCL_IB_HCA=mlx5_1"}), Texts());
    EXPECT_EQ(warnings({"NCCL_IB_HCA=mlx5_1:1"}).size(), 1U);
    EXPECT_EQ(warning({"NCCL_IB_HCA=mlx5_1:3"}), "NCCL_IB_HCA: mlx5_1 port 3 has no such port");
    EXPECT_EQ(warning({"NCCL_IB_HCA=mlx5_1:3:0:1"}), "NCCL_IB_HCA: mlx5_1 port 3 has no such port");
    EXPECT_EQ(warnings({"NCCL_IB_HCA=mlx5_1::0:1"}), Texts());
    port("mlx5_1", "2", "5: ACTIVE_DEFER");
    EXPECT_EQ(warnings({"NCCL_IB_HCA=mlx5_1"}).size(), 1U);
}

TEST_F(PreflightHcas, NeedTheirInterfaceInThisNetworkNamespace) {
    port("mlx5_1", "1", "4: ACTIVE");
    tree_.file("/sys/class/infiniband/mlx5_1/ports/1/gid_attrs/ndevs/0", "eth1\n");
    EXPECT_EQ(
        warning({"NCCL_IB_HCA==mlx5_1:1"}),
        "NCCL_IB_HCA: mlx5_1 port 1 has its interface eth1 in another network namespace, and so no GID here: give "
        "the container an interface of the fabric, or the node's network (podman --network=host)");
    for (int index = 1; index < 10; ++index) {
        tree_.file(format_text("/sys/class/infiniband/mlx5_1/ports/1/gid_attrs/ndevs/{}", index), "net1\n");
    }
    tree_.file("/sys/class/infiniband/mlx5_1/ports/1/gid_attrs/ndevs/12", "eth1.7\n");
    EXPECT_EQ(warnings({"NCCL_IB_HCA==mlx5_1:1"}).size(), 1U);
    tree_.directory("/sys/class/net/eth1.7");
    EXPECT_EQ(warnings({"NCCL_IB_HCA==mlx5_1:1"}), Texts());
}

TEST_F(PreflightHcas, MustBeThere) {
    port("mlx5_1", "1", "4: ACTIVE");
    tree_.directory("/sys/class/net/eth0");
    EXPECT_EQ(warning({"UCX_NET_DEVICES=mlx5_7:1,eth0"}), "UCX_NET_DEVICES: mlx5_7 port 1 is not on this node");
    EXPECT_EQ(warning({"UCX_NET_DEVICES=mlx5_7:1,mlx5_8:1,mlx5_9:1"}),
              "UCX_NET_DEVICES: mlx5_7 port 1 is not on this node (likewise mlx5_8 port 1, mlx5_9 port 1)");
    EXPECT_EQ(warnings({"UCX_NET_DEVICES=../../x,,:,=,mlx5_1:1"}), Texts());
}

class PreflightLimits : public ::testing::Test {
protected:
    void SetUp() override {
        ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &files_), 0);
        const rlimit low{200, files_.rlim_max};
        ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
    }
    void TearDown() override { ::setrlimit(RLIMIT_NOFILE, &files_); }

    static bool warns(const Texts& environment) {
        const auto root = SysRoot::open("/");
        const Environment variables{environment};
        const auto warnings = preflight({*root, variables, 8, 8, "", {}});
        return std::any_of(warnings.begin(), warnings.end(), [](const std::string& warning) {
            return warning.starts_with("open files are limited to 200, 8 ranks need");
        });
    }
    rlimit files_{};
};

TEST_F(PreflightLimits, AreJudgedWhereThePluginHasNotDoneIt) {
    EXPECT_TRUE(warns({}));
    EXPECT_FALSE(warns({"RDMA_NCCL_SET=@5.0"}));
}

TEST_F(PreflightLimits, AreNotJudgedForAnotherMachine) {
    const test::Tree tree;
    const auto root = tree.root();
    const Environment none;
    EXPECT_EQ(preflight({root, none, 8, 8, "", {}}), Texts());
}

} // namespace
} // namespace rdma_nccl::run
