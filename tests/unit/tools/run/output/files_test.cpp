// SPDX-License-Identifier: Apache-2.0
#include "tools/run/output/files.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>

namespace rdma_nccl::run {

namespace {

TEST(RunLogDir, NamesAreSafe) {
    EXPECT_EQ(safe_file_name("job-7.0_a"), "job-7.0_a");
    EXPECT_EQ(safe_file_name("../../etc/passwd"), "_._.._etc_passwd");
    EXPECT_EQ(safe_file_name(".."), "_.");
    EXPECT_EQ(safe_file_name("-rf *"), "_rf__");
    EXPECT_EQ(safe_file_name(std::string_view("a\0b\n\xc3\xa4", 6)), "a_b___");
    EXPECT_EQ(safe_file_name(""), "none");
    EXPECT_EQ(safe_file_name(std::string(5000, 'x')), std::string(64, 'x'));
}

TEST(RunLogDir, IsNewEachTime) {
    const auto folder = PrivateDirectory::create(testing::TempDir());
    ASSERT_TRUE(folder);
    const auto parent = folder->path() + "/a/b"; // absent
    const auto first = make_log_directory(parent, "job/7", "n01");
    const auto second = make_log_directory(parent, "job/7", "n01");
    ASSERT_TRUE(first && second);
    EXPECT_NE(*first, *second);
    EXPECT_TRUE(first->starts_with(parent + "/job_7_n01_")) << *first;
    EXPECT_EQ(std::filesystem::status(*first).permissions(), std::filesystem::perms::owner_all);
}

TEST(RunLogDir, Layout) {
    const auto folder = PrivateDirectory::create(testing::TempDir());
    const auto attempt = make_subdirectory(folder->path(), "attempt_1");
    ASSERT_TRUE(attempt);
    EXPECT_EQ(*attempt, folder->path() + "/attempt_1");
    for (int i = 0; i < 2; ++i) { // the launcher may have made it for error.json
        const auto rank = make_subdirectory(*attempt, "3");
        ASSERT_TRUE(rank);
        EXPECT_EQ(*rank, folder->path() + "/attempt_1/3");
        EXPECT_TRUE(std::filesystem::is_directory(*rank));
    }
}

TEST(RunLogDir, WhatIsInTheWayIsNamed) {
    const auto folder = PrivateDirectory::create(testing::TempDir());
    const auto file = folder->path() + "/file";
    std::ofstream(file) << "x";
    const auto made = make_log_directory(file + "/logs", "id", "n01");
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().message,
              "cannot create the log directory " + file + "/logs: Not a directory; name another with --log-dir");
    EXPECT_FALSE(make_log_directory(file, "id", "n01"));
}

} // namespace

} // namespace rdma_nccl::run
