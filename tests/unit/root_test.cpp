// SPDX-License-Identifier: Apache-2.0
#include "lib/root.h"

#include "tests/unit/tree.h"

#include <cerrno>
#include <gtest/gtest.h>
#include <sys/stat.h>

namespace rdma_nccl::test {
namespace {

TEST(Root, ReadsWithoutTrailingBlanks) {
    Tree tree;
    tree.file("/sys/a", "4: ACTIVE \n").file("/sys/long", std::string(9000, 'x'));
    const Root root = tree.root();
    EXPECT_EQ(root.read("/sys/a").value(), "4: ACTIVE");
    EXPECT_EQ(root.read("/sys/long").value().size(), 4096U) << "bounded";
    EXPECT_EQ(root.read("/sys/none").error().os_error, ENOENT);
    EXPECT_EQ(root.read("/sys").error().os_error, EISDIR);
}

TEST(Root, LinksStayInside) {
    Tree tree;
    tree.file("/real/file", "inside").link("/absolute", "/real/file").link("/up", "../../../../../../etc/passwd");
    const Root root = tree.root();
    EXPECT_EQ(root.read("/absolute").value(), "inside");
    EXPECT_FALSE(root.read("/up").has_value()) << "a link must not lead out of the tree";
    EXPECT_EQ(root.resolve("/absolute").value(), "/real/file");
    EXPECT_TRUE(root.exists("/absolute"));
    EXPECT_FALSE(root.exists("/none"));
}

TEST(Root, ListsInNumericOrder) {
    Tree tree;
    for (const char* name : {"10", "9", "100", "b", "a"}) {
        tree.file(std::string("/d/") + name, "");
    }
    EXPECT_EQ(tree.root().list("/d").value(), (std::vector<std::string>{"9", "10", "100", "a", "b"}));
    EXPECT_EQ(tree.root().directory("/d").value().list().value().size(), 5U);
}

TEST(Root, AFifoDoesNotBlock) {
    Tree tree;
    ASSERT_EQ(::mkfifo((tree.path() / "fifo").c_str(), 0600), 0);
    EXPECT_EQ(tree.root().read("/fifo").value_or("error"), "");
}

TEST(Root, SaysWhatIsWrongWithARoot) {
    const auto root = Root::open("/nonexistent/tree");
    ASSERT_FALSE(root.has_value());
    EXPECT_NE(root.error().message.find("/nonexistent/tree: No such file or directory; name a directory"),
              std::string::npos);
}

TEST(Root, TheLiveRootIsTheMachine) {
    const auto root = Root::open("/");
    ASSERT_TRUE(root.has_value());
    EXPECT_TRUE(root->is_live());
    EXPECT_TRUE(root->read("/proc/self/comm").has_value());
    EXPECT_EQ(root->resolve("/proc/self/cwd/..").has_value(), true);
}

} // namespace
} // namespace rdma_nccl::test
