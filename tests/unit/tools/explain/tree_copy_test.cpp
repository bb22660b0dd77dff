// SPDX-License-Identifier: Apache-2.0
#include "tools/explain/explain.h"

#include "tests/unit/tree.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

namespace rdma_nccl {
namespace {

using test::Tree;
namespace fs = std::filesystem;

/// A machine's tree, read through a log, and its copy.
class TreeCopy : public testing::Test {
protected:
    /// What is read here is copied.
    [[nodiscard]] SysRoot source() const { return std::move(*SysRoot::open(from_.path().string(), log_)); }
    std::size_t copy() {
        const auto target = ConfinedDir::create(to_.path().string());
        EXPECT_TRUE(target) << target.error().message;
        const auto files = copy_accessed(source(), AccessLog(*log_), *target);
        EXPECT_TRUE(files) << files.error().message;
        return files.value_or(0);
    }

    Tree from_;
    Tree to_;
    std::shared_ptr<AccessLog> log_ = std::make_shared<AccessLog>();
};

TEST_F(TreeCopy, WhatWasReadAndNothingElse) {
    from_.file("/sys/class/net/eth0/mtu", "9000\n").file("/sys/class/net/eth0/secret", "x");
    EXPECT_EQ(source().read("/sys/class/net/eth0/mtu").value_or(""), "9000");
    EXPECT_EQ(copy(), 1U);
    EXPECT_EQ(to_.root().read("/sys/class/net/eth0/mtu").value_or(""), "9000");
    EXPECT_FALSE(fs::exists(to_.at("/sys/class/net/eth0/secret")));
}

TEST_F(TreeCopy, LinksStayLinks) {
    from_.file("/sys/devices/pci0000:00/0000:00:01.0/net/eth0/mtu", "9000\n");
    from_.link("/sys/class/net/eth0", "../../devices/pci0000:00/0000:00:01.0/net/eth0");
    from_.link("/sys/devices/pci0000:00/0000:00:01.0/net/eth0/device", "/sys/devices/pci0000:00/0000:00:01.0");
    (void)source().read("/sys/class/net/eth0/mtu");
    const auto device = source().resolve("/sys/class/net/eth0/device");
    (void)copy();
    EXPECT_TRUE(fs::is_symlink(to_.at("/sys/class/net/eth0")));
    EXPECT_EQ(to_.root().read("/sys/class/net/eth0/mtu").value_or(""), "9000");
    EXPECT_EQ(to_.root().resolve("/sys/class/net/eth0/device").value_or("?"), device.value_or("!"));
}

TEST_F(TreeCopy, AListedDirectoryHasTheSameNames) {
    from_.file("/sys/class/infiniband/mlx5_0/ports/1/gids/0", "x").directory("/sys/class/infiniband/mlx5_0/ports/2");
    from_.link("/sys/class/infiniband/mlx5_0/ports/dangling", "nowhere");
    const auto names = source().list("/sys/class/infiniband/mlx5_0/ports");
    (void)copy();
    EXPECT_EQ(to_.root().list("/sys/class/infiniband/mlx5_0/ports").value_or(std::vector<std::string>{}), *names);
}

TEST_F(TreeCopy, ReadThroughADirectory) {
    from_.file("/sys/x/gids/0", "fe80\n").file("/sys/x/gids/1", "0\n");
    const auto directory = source().directory("/sys/x/gids");
    ASSERT_TRUE(directory);
    (void)directory->read("0");
    (void)directory->read("7"); // not there
    EXPECT_EQ(copy(), 1U);
    EXPECT_EQ(to_.root().read("/sys/x/gids/0").value_or(""), "fe80");
}

TEST_F(TreeCopy, WhatCannotBeReadCannotBeReadAgain) {
    from_.directory("/sys/x/types/3");
    (void)source().read("/sys/x/types/3");
    (void)copy();
    EXPECT_FALSE(to_.root().read("/sys/x/types/3"));
    EXPECT_TRUE(to_.root().exists("/sys/x/types/3"));
}

TEST_F(TreeCopy, OfConfigurationOnlyNcclsLines) {
    from_.file("/etc/nccl.conf", "# by ops\nNCCL_IB_TC=106\nAWS_SECRET_ACCESS_KEY=x\nRCCL_A=1\n");
    (void)source().read("/etc/nccl.conf");
    (void)copy();
    EXPECT_EQ(to_.root().read("/etc/nccl.conf").value_or(""), "NCCL_IB_TC=106\nRCCL_A=1");
}

/// Wherever a link leads to; but of what is no profile, as a secret, no more than of other files.
TEST_F(TreeCopy, OfTheSitesProfilesAllLines) {
    const std::string folder(fabric_profiles_directory);
    const std::string profile = "gpus = 8\nNCCL_IB_TC = 41";
    from_.file(folder + "/a.conf", profile + "\n").file("/srv/b", profile + "\n").link(folder + "/b.conf", "/srv/b");
    from_.file("/srv/key", "secret\nNCCL_A=1\n").link(folder + "/c.conf", "/srv/key");
    from_.file(folder + ".old/d.conf", profile + "\n");
    for (const auto* const name : {"/a.conf", "/b.conf", "/c.conf", ".old/d.conf"}) {
        EXPECT_TRUE(source().read(folder + name)) << name;
    }
    (void)copy();
    EXPECT_EQ(to_.root().read(folder + "/a.conf").value_or(""), profile);
    EXPECT_TRUE(fs::is_symlink(to_.at(folder + "/b.conf")));
    EXPECT_EQ(to_.root().read(folder + "/b.conf").value_or(""), profile);
    EXPECT_EQ(to_.root().read(folder + "/c.conf").value_or(""), "NCCL_A=1");
    EXPECT_EQ(to_.root().read(folder + ".old/d.conf").value_or(""), "NCCL_IB_TC = 41");
}

TEST_F(TreeCopy, ADeviceFileBecomesAnEmptyFile) {
    from_.directory("/dev/infiniband");
    if (::mknod(from_.at("/dev/infiniband/uverbs0").c_str(), S_IFCHR | 0600, makedev(1, 5)) != 0) {
        GTEST_SKIP() << "device files need root";
    }
    EXPECT_TRUE(source().exists("/dev/infiniband/uverbs0"));
    (void)copy();
    EXPECT_TRUE(fs::is_regular_file(to_.at("/dev/infiniband/uverbs0")));
}

TEST_F(TreeCopy, LinksThatGoRoundEnd) {
    from_.link("/sys/a", "b").link("/sys/b", "a");
    (void)source().read("/sys/a/x");
    EXPECT_EQ(copy(), 0U);
}

TEST_F(TreeCopy, ALinkOutOfTheRootStaysInside) {
    from_.link("/sys/out", "../../../../../etc/passwd");
    (void)source().read("/sys/out");
    EXPECT_EQ(copy(), 0U);
}

/// A tree that wants to write outside: into a directory that lies beside it.
class HostileTree : public TreeCopy {
protected:
    HostileTree() { victim_.file("/hostname", "innocent\n"); }
    ~HostileTree() override {
        EXPECT_EQ(victim_.root().read("/hostname").value_or(""), "innocent");
        EXPECT_EQ(std::distance(fs::directory_iterator(victim_.path()), fs::directory_iterator()), 1);
    }
    Tree victim_;
};

TEST_F(HostileTree, LinksInProcAreWalkedInsideTheRoot) {
    from_.link("/proc/sys/kernel", victim_.path().string()).file("/proc/sys/x", "y\n");
    from_.link("/etc/nccl.conf", "/proc/sys/kernel/x");
    (void)source().read("/proc/sys/kernel/hostname");
    (void)source().read("/etc/nccl.conf");
    (void)copy();
}

TEST_F(HostileTree, DotsAreNoPathOfOurs) {
    from_.file("/etc/secret", "NCCL_X=1\n");
    (void)source().read("/proc/../etc/secret");
    (void)source().read("/sys/../../../../../../.." + victim_.path().string() + "/new");
    EXPECT_EQ(copy(), 0U);
}

TEST_F(HostileTree, OurOwnFilesAreNotWrittenThroughItsLinks) {
    from_.link("/ip-addresses", victim_.at("/hostname").string());
    (void)source().read("/ip-addresses");
    const auto target = ConfinedDir::create(to_.path().string());
    ASSERT_TRUE(target);
    (void)copy_accessed(source(), AccessLog(*log_), *target);
    EXPECT_TRUE(target->write_file("ip-addresses", "eth0 10.0.0.1/24\n"));
    EXPECT_EQ(to_.root().read("/ip-addresses").value_or(""), "eth0 10.0.0.1/24");
}

TEST(ConfinedDir, OnlyAnEmptyDirectoryOfThisUser) {
    const Tree tree;
    EXPECT_TRUE(ConfinedDir::create((tree.path() / "new").string()));
    EXPECT_TRUE(ConfinedDir::create((tree.path() / "new").string()));
    EXPECT_FALSE(ConfinedDir::create(tree.path().string())) << "not empty";
    EXPECT_FALSE(ConfinedDir::create("/dev/null/here"));
    fs::create_directory_symlink(tree.path() / "new", tree.path() / "link");
    EXPECT_FALSE(ConfinedDir::create((tree.path() / "link").string()));
}

TEST(ConfinedDir, WhatItMadeIsTheOwnersAloneAndCanBeRemoved) {
    const Tree tree;
    const auto path = tree.path() / "new";
    const auto target = ConfinedDir::create(path.string());
    ASSERT_TRUE(target);
    ASSERT_TRUE(target->write_file("a/b", "x"));
    EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_all);
    target->remove();
    EXPECT_FALSE(fs::exists(path));
}

TEST(ConfinedDir, NothingIsWrittenThroughALink) {
    const Tree tree;
    const auto target = ConfinedDir::create((tree.path() / "new").string());
    ASSERT_TRUE(target);
    ASSERT_TRUE(target->make_link("up", ".."));
    EXPECT_FALSE(target->write_file("up/x", "x"));
    EXPECT_FALSE(target->write_file("../x", "x"));
    EXPECT_FALSE(target->write_file("a/../../x", "x"));
    EXPECT_FALSE(fs::exists(tree.path() / "x"));
}

} // namespace
} // namespace rdma_nccl
