// SPDX-License-Identifier: Apache-2.0
#include "lib/evidence/verdict.h"

#include "lib/base/forked_worker.h"
#include "tests/unit/tree.h"

#include <cerrno>
#include <csignal>
#include <gtest/gtest.h>
#include <iterator>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

namespace rdma_nccl {
namespace {

namespace fs = std::filesystem;

class VerdictFile : public testing::Test {
protected:
    [[nodiscard]] std::string directory() const { return tree_.path().string(); }
    [[nodiscard]] std::string content(const std::string& name) const {
        std::ifstream stream(tree_.path() / name);
        return {std::istreambuf_iterator<char>(stream), {}};
    }
    /// Drafts, too.
    [[nodiscard]] std::ptrdiff_t files() const {
        return std::distance(fs::directory_iterator(tree_.path()), fs::directory_iterator());
    }

    test::Tree tree_;
};

TEST_F(VerdictFile, IsReadableForAll) {
    const auto old = ::umask(077);
    EXPECT_TRUE(save_verdict(directory(), "12.0.json", "{}\n"));
    ::umask(old);
    EXPECT_EQ(content("12.0.json"), "{}\n");
    EXPECT_EQ(fs::status(tree_.path() / "12.0.json").permissions(), fs::perms(0644));
    EXPECT_EQ(files(), 1);
}

TEST_F(VerdictFile, StaysAsItIsWhenItIsThere) {
    tree_.file("/12.0.json", "old");
    const auto saved = save_verdict(directory(), "12.0.json", "new");
    ASSERT_FALSE(saved);
    EXPECT_EQ(saved.error().message, directory() + "/12.0.json: File exists");
    EXPECT_EQ(content("12.0.json"), "old");
    EXPECT_EQ(files(), 1);
}

TEST_F(VerdictFile, DoesNotFollowALinkThatSomebodyLaidThere) {
    tree_.link("/12.0.json", "victim");
    EXPECT_FALSE(save_verdict(directory(), "12.0.json", "new"));
    EXPECT_FALSE(fs::exists(tree_.path() / "victim"));
    EXPECT_EQ(files(), 1);
}

TEST_F(VerdictFile, NamesTheDirectoryThatIsNotThere) {
    const auto saved = save_verdict(directory() + "/none", "12.0.json", "{}");
    ASSERT_FALSE(saved);
    EXPECT_EQ(saved.error().message, directory() + "/none: No such file or directory");
    tree_.file("/plain", "");
    EXPECT_FALSE(save_verdict(directory() + "/plain", "12.0.json", "{}"));
}

/// In a child, whose exit says whether it held.
template<typename Work>
bool holds_in_child(Work work) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe(ends.data()), 0);
    EXPECT_TRUE(run_in_child(
        std::chrono::seconds(30),
        [&] {
            const char answer = work() ? 'y' : 'n';
            (void)!::write(ends[1], &answer, 1);
        },
        std::array{ends[1]}));
    ::close(ends[1]);
    char answer = 0;
    const bool held = ::read(ends[0], &answer, 1) == 1 && answer == 'y';
    ::close(ends[0]);
    return held;
}

TEST_F(VerdictFile, IsRefusedWhereTheUserMayNotWrite) {
    fs::permissions(tree_.path(), fs::perms(0555));
    EXPECT_TRUE(holds_in_child([&] {
        if (::getuid() == 0 && ::setuid(65534) != 0) {
            return false;
        }
        const auto saved = save_verdict(directory(), "12.0.json", "{}");
        return !saved && saved.error().os_error == EACCES;
    }));
    fs::permissions(tree_.path(), fs::perms(0755));
    EXPECT_EQ(files(), 0);
}

TEST_F(VerdictFile, LeavesNothingWhenTheDiskIsFull) {
    EXPECT_TRUE(holds_in_child([&] {
        const rlimit limit{4096, 4096};
        (void)::signal(SIGXFSZ, SIG_IGN);
        if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) {
            return false;
        }
        const auto saved = save_verdict(directory(), "12.0.json", std::string(8192, 'x'));
        return !saved && saved.error().os_error == EFBIG;
    }));
    EXPECT_EQ(files(), 0);
}

} // namespace
} // namespace rdma_nccl
