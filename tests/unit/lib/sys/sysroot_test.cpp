// SPDX-License-Identifier: Apache-2.0
#include "lib/sys/sysroot.h"

#include "tests/unit/tree.h"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <gtest/gtest.h>
#include <memory>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace rdma_nccl::test {
namespace {

TEST(SysRoot, ReadsWithoutTrailingBlanks) {
    Tree tree;
    tree.file("/sys/a", "4: ACTIVE \n").file("/sys/long", std::string(9000, 'x'));
    const SysRoot root = tree.root();
    EXPECT_EQ(root.read("/sys/a").value(), "4: ACTIVE");
    EXPECT_EQ(root.read("/sys/long").value().size(), 4096U) << "bounded";
    EXPECT_EQ(root.read("/sys/none").error().os_error, ENOENT);
    EXPECT_EQ(root.read("/sys").error().os_error, EISDIR);
}

TEST(SysRoot, ReadsAllOfAFileOrFails) {
    Tree tree;
    tree.file("/a", "four\n\n\n\n").file("/sys/b", std::string(6000, 'x'));
    EXPECT_EQ(tree.root().read_whole("/a", 8).value_or(""), "four");
    ASSERT_FALSE(tree.root().read_whole("/a", 7)) << "what is cut may be no blanks";
    EXPECT_EQ(tree.root().read_whole("/a", 7).error().message, "/a: has more than 7 bytes");
    EXPECT_EQ(tree.root().read_whole("/sys/b", 8192).value_or("").size(), 6000U);
    EXPECT_TRUE(tree.root().read_whole("/c", 8).error().is_absent());
}

TEST(SysRoot, LinksStayInside) {
    Tree tree;
    tree.file("/real/file", "inside").link("/absolute", "/real/file").link("/up", "../../../../../../etc/passwd");
    const SysRoot root = tree.root();
    EXPECT_EQ(root.read("/absolute").value(), "inside");
    EXPECT_FALSE(root.read("/up").has_value()) << "a link must not lead out of the tree";
    EXPECT_EQ(root.resolve("/absolute").value(), "/real/file");
    EXPECT_TRUE(root.exists("/absolute"));
    EXPECT_FALSE(root.exists("/none"));
}

// The kernel cannot tell then whether ".." still leads where it did (openat2(2), EAGAIN): no port may be lost by that.
TEST(SysRoot, ReadsWhileSomethingElseIsRenamed) {
    Tree tree;
    tree.file("/sys/devices/a", "ACTIVE").link("/sys/class/a", "../devices/a").file("/one", "");
    const SysRoot root = tree.root();
    std::atomic<bool> done = false;
    std::thread other([&] {
        while (!done) {
            std::filesystem::rename(tree.at("/one"), tree.at("/two"));
            std::filesystem::rename(tree.at("/two"), tree.at("/one"));
        }
    });
    std::size_t failed = 0;
    for (int i = 0; i < 20000; ++i) {
        failed += root.read("/sys/class/a") ? 0U : 1U;
    }
    done = true;
    other.join();
    EXPECT_EQ(failed, 0U);
}

/// A lease makes open(2) say EAGAIN for a while (fcntl(2), F_SETLEASE), as openat2(2) does on a busy machine.
TEST(SysRoot, OpensAgainForSomeTime) {
    Tree tree;
    tree.file("/leased", "text");
    const auto before = std::signal(SIGIO, SIG_IGN);
    UniqueFd lease(::open(tree.at("/leased").c_str(), O_RDWR | O_CLOEXEC));
    if (::fcntl(lease.get(), F_SETLEASE, F_WRLCK) != 0) {
        GTEST_SKIP() << "this file system has no leases";
    }
    std::thread other([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        lease = {};
    });
    const auto text = tree.root().read("/leased");
    other.join();
    (void)std::signal(SIGIO, before);
    EXPECT_EQ(text.value_or("error"), "text");
}

TEST(SysRoot, ResolvesAsTheKernelDoes) {
    Tree tree;
    const std::string function = "/sys/devices/pci0000:00/0000:00:06.0";
    tree.file(function + "/virtio3/net/eth1/mtu", "1500")
        .link("/sys/class/net/eth1", "../../devices/pci0000:00/0000:00:06.0/virtio3/net/eth1")
        .link(function + "/virtio3/net/eth1/device", "../../../virtio3")
        .link("/sys/absolute", "/sys/class/./net//eth1/")
        .link("/sys/up", "../../../../..")
        .link("/sys/dangling", "nowhere")
        .link("/sys/a", "b")
        .link("/sys/b", "a");
    const SysRoot root = tree.root();
    EXPECT_EQ(root.resolve("/sys/class/net/eth1/device").value_or("?"), function + "/virtio3");
    EXPECT_EQ(root.resolve("/sys/absolute/mtu").value_or("?"), function + "/virtio3/net/eth1/mtu");
    EXPECT_EQ(root.resolve("/sys/up").value_or("?"), "/");
    EXPECT_EQ(root.resolve("/").value_or("?"), "/");
    EXPECT_EQ(root.resolve("/sys/dangling").error().os_error, ENOENT);
    EXPECT_EQ(root.resolve("/sys/absolute/mtu/x").error().os_error, ENOTDIR);
    EXPECT_EQ(root.resolve("/sys/a").error().os_error, ELOOP);
}

TEST(SysRoot, ADirectoryTellsWhatItsLinksSay) {
    test::Tree tree;
    tree.file("/d/file", "x").link("/d/driver", "../../bus/pci/drivers/none");
    const auto log = std::make_shared<AccessLog>();
    const SysRoot root = SysRoot::open(tree.path().string(), log).value();
    const auto directory = root.directory("/d").value();
    EXPECT_EQ(directory.read_link("driver"), "../../bus/pci/drivers/none"); // nothing is followed
    EXPECT_TRUE(log->contains("/d/driver"));
    EXPECT_EQ(directory.read_link("file").error().os_error, EINVAL);
    EXPECT_EQ(directory.read_link("none").error().os_error, ENOENT);
}

TEST(SysRoot, TellsWhatMayBeOpened) {
    Tree tree;
    tree.file("/dev/uverbs0", "").link("/dev/link", "uverbs0");
    EXPECT_TRUE(tree.root().may_read_and_write("/dev/link"));
    EXPECT_TRUE(tree.root().may_read_and_write("/"));
    EXPECT_FALSE(tree.root().may_read_and_write("/dev/uverbs1"));
}

/// 0: both links are followed where there is no /proc; 1: not; 2: this process may not hide /proc.
int follow_links_without_proc(const SysRoot& root) {
    if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("none", "/proc", "tmpfs", 0, nullptr) != 0) {
        return 2;
    }
    return root.resolve("/link").value_or("?") == "/file" && root.may_read_and_write("/link") ? 0 : 1;
}

TEST(SysRoot, FollowsLinksWithoutProc) {
    Tree tree;
    tree.file("/file", "").link("/link", "file");
    const SysRoot root = tree.root();
    const pid_t child = ::fork(); // the only one that loses /proc
    ASSERT_GE(child, 0);
    if (child == 0) {
        ::_exit(follow_links_without_proc(root));
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    if (WEXITSTATUS(status) == 2) {
        GTEST_SKIP() << "a mount namespace needs root";
    }
    EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(SysRoot, ListsInNumericOrder) {
    Tree tree;
    for (const char* name : {"10", "9", "100", "b", "a"}) {
        tree.file(std::string("/d/") + name, "");
    }
    EXPECT_EQ(tree.root().list("/d").value(), (std::vector<std::string>{"9", "10", "100", "a", "b"}));
    EXPECT_EQ(tree.root().directory("/d").value().list().value().size(), 5U);
}

TEST(SysRoot, AFifoDoesNotBlock) {
    Tree tree;
    ASSERT_EQ(::mkfifo((tree.path() / "fifo").c_str(), 0600), 0);
    EXPECT_EQ(tree.root().read("/fifo").value_or("error"), "");
}

// So the kernel answers while it changes a GID (Linux 4.4, __ib_cache_gid_get), and mlx5's firmware while it is busy.
TEST(SysRoot, ReadsAgainWhatSaysEagain) {
    Tree tree;
    const std::string name = "/sys/state";
    tree.directory("/sys");
    ASSERT_EQ(::mkfifo(tree.at(name).c_str(), 0600), 0);
    const UniqueFd writer(::open(tree.at(name).c_str(), O_RDWR | O_CLOEXEC)); // so that an empty FIFO gives EAGAIN
    const SysRoot root = tree.root();
    EXPECT_EQ(root.read(name).error().os_error, EAGAIN) << "not for ever";
    const auto read_while_it_is_written = [&](bool in_directory) {
        std::thread other([&] {
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
            (void)write_all(writer.get(), "ACTIVE");
        });
        const auto text = in_directory ? root.directory("/sys").value().read("state") : root.read(name);
        other.join();
        if (!text) {
            std::string unread(6, ' ');
            (void)::read(writer.get(), unread.data(), unread.size());
        }
        return text.value_or("error");
    };
    for (const bool in_directory : {false, true}) {
        std::string text;
        for (int i = 0; i < 1000 && text != "ACTIVE"; ++i) { // on a busy machine the writer may come too late
            text = read_while_it_is_written(in_directory);
        }
        EXPECT_EQ(text, "ACTIVE");
    }
}

TEST(SysRoot, TellsWhatIsAbsentFromWhatCannotBeTold) {
    Tree tree;
    tree.file("/dev/uverbs0", "").link("/dev/uverbs1", "uverbs1");
    const SysRoot root = tree.root();
    EXPECT_TRUE(root.look_for("/dev/uverbs0"));
    EXPECT_TRUE(root.look_for("/dev/uverbs7").error().is_absent());
    EXPECT_TRUE(root.look_for("/dev/uverbs0/x").error().is_absent());
    EXPECT_FALSE(root.look_for("/dev/uverbs1").error().is_absent()) << "a link to itself";
}

TEST(SysRoot, SaysWhatIsWrongWithARoot) {
    const auto root = SysRoot::open("/nonexistent/tree");
    ASSERT_FALSE(root.has_value());
    EXPECT_NE(root.error().message.find("/nonexistent/tree: No such file or directory; name a directory"),
              std::string::npos);
}

TEST(SysRoot, TheLiveRootIsTheMachine) {
    const auto root = SysRoot::open("/");
    ASSERT_TRUE(root.has_value());
    EXPECT_TRUE(root->is_live());
    EXPECT_TRUE(root->read("/proc/self/comm").has_value());
    EXPECT_EQ(root->resolve("/proc/self/cwd/..").has_value(), true);
}

} // namespace
} // namespace rdma_nccl::test
