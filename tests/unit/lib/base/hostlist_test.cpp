// SPDX-License-Identifier: Apache-2.0
#include "lib/base/text.h"

#include <algorithm>
#include <gtest/gtest.h>

namespace rdma_nccl {
namespace {

using Names = std::vector<std::string>;

TEST(Hostlist, ExpandsSlurmsForms) {
    EXPECT_EQ(expand_hostlist("n[01-03,7]-ib,login").value(), (Names{"n01-ib", "n02-ib", "n03-ib", "n7-ib", "login"}));
    EXPECT_EQ(expand_hostlist("r[1-2]n[3-4]").value(), (Names{"r1n3", "r1n4", "r2n3", "r2n4"}));
    EXPECT_EQ(expand_hostlist("n[098-101]").value(), (Names{"n098", "n099", "n100", "n101"}));
    EXPECT_EQ(expand_hostlist("host").value(), (Names{"host"}));
    EXPECT_EQ(expand_hostlist("n[1-4096]").value().size(), 4096U);
}

TEST(Hostlist, RefusesNonsense) {
    for (const char* bad : {"", ",", "n[1-", "n[]", "n[3-1]", "n[a-b]", "n]", "n[1-99999999]", "a b",
                            "n[1-60000],m[1-60000]", "n[1-300][1-300]", "[[1]]", "n[1-3]]"}) {
        EXPECT_FALSE(expand_hostlist(bad).has_value()) << bad;
    }
}

TEST(Hostlist, FoldsNames) {
    EXPECT_EQ(fold_hostlist({"n03", "n17"}), "n[03,17]");
    EXPECT_EQ(fold_hostlist({"n10", "n09", "n08", "n11", "n11"}), "n[08-11]");
    EXPECT_EQ(fold_hostlist({"n8", "n9", "n10"}), "n[8-10]");
    EXPECT_EQ(fold_hostlist({"n1", "n01"}), "n1,n01");
    EXPECT_EQ(fold_hostlist({"r1n1-ib", "r1n2-ib", "r1n4-ib", "login"}), "r1n[1-2,4]-ib,login");
    EXPECT_EQ(fold_hostlist({"n1"}), "n1");
    EXPECT_EQ(fold_hostlist({"n0", "n1", "n2"}), "n[0-2]");
    EXPECT_EQ(fold_hostlist({}), "");
    EXPECT_EQ(fold_hostlist({"n99999999999999999999"}), "n99999999999999999999");
}

TEST(Hostlist, FoldedNamesExpandAgain) {
    std::vector<std::string> names;
    for (unsigned i = 0; i < 3000; i += 1 + i % 3) {
        names.push_back("gpu" + std::string(i < 1000 ? "0" : "") + std::to_string(i + 100) + "-ib");
    }
    auto expanded = expand_hostlist(fold_hostlist(names)).value();
    std::sort(names.begin(), names.end());
    std::sort(expanded.begin(), expanded.end());
    EXPECT_EQ(expanded, names);
}

TEST(TaskCounts, ExpandRepeats) {
    EXPECT_EQ(expand_task_counts("2(x3),1").value(), (std::vector<unsigned>{2, 2, 2, 1}));
    for (const char* bad : {"", "2(x", "2(x)", "(x2)", "2(3)", "2(x0)", "1(x99999999)", "-1"}) {
        EXPECT_FALSE(expand_task_counts(bad).has_value()) << bad;
    }
}

TEST(Ports, ExpandRanges) {
    EXPECT_EQ(expand_ports("12000-12002,12007").value(), (std::vector<std::uint16_t>{12000, 12001, 12002, 12007}));
    for (const char* bad : {"", "0", "65536", "1-65536", "5-4", "x"}) {
        EXPECT_FALSE(expand_ports(bad).has_value()) << bad;
    }
}

TEST(Hostlist, TheGreatestNumberEnds) {
    EXPECT_EQ(expand_hostlist("n[4294967294-4294967295]").value_or(std::vector<std::string>{}),
              (std::vector<std::string>{"n4294967294", "n4294967295"}));
}

TEST(Hostlist, NamesLongerThanAnyHostsAreRefused) {
    EXPECT_TRUE(expand_hostlist(std::string(255, 'n')));
    EXPECT_FALSE(expand_hostlist(std::string(256, 'n')));
    EXPECT_FALSE(expand_hostlist("n[0-65534]" + std::string(20000, 'z')));
}

} // namespace
} // namespace rdma_nccl
