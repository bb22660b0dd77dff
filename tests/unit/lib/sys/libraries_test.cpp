// SPDX-License-Identifier: Apache-2.0
#include "lib/sys/libraries.h"

#include "tests/unit/tree.h"

#include <gtest/gtest.h>

namespace rdma_nccl {
namespace {

using namespace std::string_literals;

TEST(FindLibrary, LooksWhereTheLoaderDoes) {
    test::Tree tree;
    const auto find = [&tree](std::vector<std::string> variables = {}) {
        return find_library(tree.root(), Environment(std::span<const std::string>(variables)), "libibverbs.so.1");
    };
    EXPECT_EQ(find(), std::nullopt);
    tree.file("/usr/lib/libibverbs.so.1", "");
    EXPECT_EQ(find(), "/usr/lib/libibverbs.so.1");
    tree.file("/usr/lib/x86_64-linux-gnu/libibverbs.so.1", "");
    tree.file("/etc/ld.so.cache", "glibc-ld.so.cache1.1\0libfoo.so\0/lib/libfoo.so\0libibverbs.so.1\0"
                                  "/usr/lib/x86_64-linux-gnu/libibverbs.so.1\0rest"s);
    EXPECT_EQ(find(), "/usr/lib/x86_64-linux-gnu/libibverbs.so.1");
    tree.file("/opt/ofed/libibverbs.so.1", "");
    EXPECT_EQ(find({"LD_LIBRARY_PATH=/none:/opt/ofed"}), "/opt/ofed/libibverbs.so.1");
}

TEST(FindLibrary, DoesNotTrustTheCache) {
    test::Tree tree;
    for (const auto& cache : {"/libibverbs.so.1\0"s, "\0/gone/libibverbs.so.1\0"s, "\0/usr/lib/libibverbs.so.1"s}) {
        tree.file("/etc/ld.so.cache", cache);
        EXPECT_EQ(find_library(tree.root(), Environment(), "libibverbs.so.1"), std::nullopt);
    }
}

} // namespace
} // namespace rdma_nccl
