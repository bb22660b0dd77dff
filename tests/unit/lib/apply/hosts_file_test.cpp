// SPDX-License-Identifier: Apache-2.0
#include "lib/apply/hosts_file.h"

#include "lib/base/forked_worker.h"
#include "tests/unit/exchange_nodes.h"
#include "tests/unit/tree.h"

#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sched.h>
#include <set>
#include <sstream>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

namespace rdma_nccl {
namespace {

namespace fs = std::filesystem;
using test::ip;

const HostsTable hosts = {{"n01", ip("10.0.0.1"), 8}, {"n02", ip("fd00::2"), 1}};
const std::string hosts_of_two = "10.0.0.1\tn01\nfd00::2\tn02\n";
const std::string hostfile_of_two = "n01 slots=8\nn02 slots=1\n";

std::string content(const fs::path& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
}

const std::set<std::string, std::less<>> nodes_of_two = {"n01", "n02"};
const std::string own = "127.0.0.1 localhost\n10.0.0.9\tldap.site ldap # the directory\n";
const std::string heading = "# the nodes of this step, by rdma-nccl\n";

TEST(EtcHosts, TheSitesLinesComeFirst) {
    const auto made = make_etc_hosts(hosts, nodes_of_two, own);
    EXPECT_EQ(made.text, own + heading + hosts_of_two);
    EXPECT_EQ(made.warning, "");
    EXPECT_EQ(make_etc_hosts(hosts, nodes_of_two, "::1 localhost").text, "::1 localhost\n" + heading + hosts_of_two);
    EXPECT_EQ(make_etc_hosts(hosts, nodes_of_two, "").text, heading + hosts_of_two);
}

TEST(EtcHosts, OnlyNodesOfTheStepAreNamed) {
    const HostsTable forged = {
        {"ldap.site", ip("10.6.6.6"), 1},         {"n01", ip("10.0.0.1"), 8}, {"N02", ip("10.6.6.6"), 1},
        {"n02.site", ip("10.6.6.6"), 1},          {"n0", ip("10.6.6.6"), 1},  {"n01 kdc", ip("10.6.6.6"), 1},
        {"n02\n10.6.6.6 kdc", ip("10.6.6.6"), 1}, {"", ip("10.6.6.6"), 1}};
    const auto made = make_etc_hosts(forged, nodes_of_two, own);
    EXPECT_EQ(made.text, own + heading + "10.0.0.1\tn01\n");
    EXPECT_EQ(made.warning,
              "hosts=mount: 7 of the table's 8 lines are left out: they name no node of this step, or one "
              "twice, or have an address that other nodes cannot reach");
}

TEST(EtcHosts, ANameOfTheSitesIsTheSites) {
    const auto made = make_etc_hosts(hosts, nodes_of_two, "10.0.0.9 login\tN01\t# n02\n#10.0.0.9 n02\n");
    EXPECT_EQ(made.text, "10.0.0.9 login\tN01\t# n02\n#10.0.0.9 n02\n" + heading + "fd00::2\tn02\n");
    EXPECT_EQ(made.warning, "");
}

TEST(EtcHosts, WithNothingToAddThereIsNoneToMount) {
    const auto made = make_etc_hosts(hosts, nodes_of_two, "10.0.0.1 n01\r\n10.0.0.2 a b n02");
    EXPECT_EQ(made.text, "");
    EXPECT_EQ(made.warning, "");
    const HostsTable forged = {{"ldap", ip("10.6.6.6"), 1}};
    EXPECT_EQ(make_etc_hosts(forged, nodes_of_two, own).text, "");
    EXPECT_NE(make_etc_hosts(forged, nodes_of_two, own).warning, "");
}

TEST(EtcHosts, AnAddressIsOneThatOtherNodesReach) {
    for (const char* const bad :
         {"127.0.0.1", "::1", "::", "0.0.0.0", "224.0.0.1", "ff02::1", "fe80::1", "169.254.1.1", "::ffff:127.0.0.1"}) {
        const auto made = make_etc_hosts({{"n01", ip(bad), 8}}, nodes_of_two, own);
        EXPECT_EQ(made.text, "") << bad;
        EXPECT_NE(made.warning.find("1 of the table's 1 lines"), std::string::npos) << bad;
    }
}

TEST(EtcHosts, ANodeIsNamedOnce) {
    HostsTable many(100000, {"n01", ip("10.6.6.6"), 8});
    many.front().address = ip("10.0.0.1");
    EXPECT_EQ(make_etc_hosts(many, nodes_of_two, own).text, own + heading + "10.0.0.1\tn01\n");
}

TEST(EtcHosts, WithoutSlurmctldsAnswerThereIsNone) {
    const auto made = make_etc_hosts(hosts, {}, own);
    EXPECT_EQ(made.text, "");
    EXPECT_EQ(made.warning,
              "hosts=mount: slurmctld did not say which nodes this step has: the tasks see the node's own "
              "/etc/hosts; RDMA_NCCL_HOSTS names a file with the table");
}

TEST(EtcHosts, WithoutTheSitesLinesThereIsNone) {
    const auto made = make_etc_hosts(hosts, nodes_of_two, std::nullopt);
    EXPECT_EQ(made.text, "");
    EXPECT_EQ(made.warning,
              "hosts=mount: /etc/hosts of the node cannot be read, or is longer than 1 MiB: the tasks see "
              "it as it is; RDMA_NCCL_HOSTS names a file with the table");
}

/// The working directory is one of the test's.
class HostsFile : public testing::Test {
protected:
    HostsFile() : before_(fs::current_path()) {
        tree_.directory("/tmp").directory("/scratch");
        fs::current_path(tree_.at("/scratch"));
    }
    ~HostsFile() override { fs::current_path(before_); }

    [[nodiscard]] static Result<HostsFiles> write(const std::string& temporary) {
        Environment environment;
        environment.set("TMPDIR", temporary);
        return write_hosts_files(hosts, environment, "7.0", "n01");
    }

    /// Of this process's directory.
    std::string own_name = "rdma-nccl.7.0.n01." + std::to_string(::getpid());
    fs::path before_;
    test::Tree tree_;
};

TEST_F(HostsFile, LiesInTheJobsTemporaryDirectory) {
    const auto files = write(tree_.at("/tmp"));
    ASSERT_TRUE(files) << files.error().message;
    EXPECT_EQ(files->directory, tree_.at("/tmp/" + own_name).string());
    EXPECT_EQ(content(files->hosts()), hosts_of_two);
    EXPECT_EQ(content(files->hostfile()), hostfile_of_two);
    remove_hosts_files(*files);
    EXPECT_TRUE(fs::is_empty(tree_.at("/tmp")));
    remove_hosts_files(*files); // again: nothing happens
}

TEST_F(HostsFile, ElseInTheWorkingDirectory) {
    for (const auto& temporary : {std::string("relative"), tree_.at("/none").string()}) {
        const auto files = write(temporary);
        ASSERT_TRUE(files) << files.error().message;
        EXPECT_EQ(files->directory, tree_.at("/scratch/" + own_name).string());
        EXPECT_EQ(content(files->hosts()), hosts_of_two);
        remove_hosts_files(*files);
    }
}

TEST_F(HostsFile, WithoutTmpdirItIsTmp) {
    Environment environment;
    const std::string step = "test" + std::to_string(::getpid());
    const auto files = write_hosts_files(hosts, environment, step, "n01");
    ASSERT_TRUE(files) << files.error().message;
    EXPECT_EQ(files->directory, "/tmp/rdma-nccl." + step + ".n01." + std::to_string(::getpid()));
    remove_hosts_files(*files);
    EXPECT_FALSE(fs::exists(files->directory));
}

TEST_F(HostsFile, NothingThatIsThereIsOverwritten) {
    tree_.file("/tmp/" + own_name + "/hosts", "of another\n").link("/scratch/" + own_name, "../tmp/elsewhere");
    const auto files = write(tree_.at("/tmp"));
    ASSERT_FALSE(files);
    EXPECT_EQ(files.error().os_error, EEXIST);
    EXPECT_NE(files.error().message.find("/" + own_name + ": File exists"), std::string::npos);
    EXPECT_EQ(content(tree_.at("/tmp/" + own_name + "/hosts")), "of another\n");
    EXPECT_FALSE(fs::exists(tree_.at("/tmp/elsewhere")));
}

TEST_F(HostsFile, WhatOthersPutThereStays) {
    const auto files = write(tree_.at("/tmp"));
    ASSERT_TRUE(files);
    tree_.file("/tmp/" + own_name + "/notes", "of the user\n");
    remove_hosts_files(*files);
    EXPECT_FALSE(fs::exists(files->hosts()));
    EXPECT_EQ(content(tree_.at("/tmp/" + own_name + "/notes")), "of the user\n");
}

/// `work` beside a file system of this size at /tmp of the tree, in a mount namespace of its own; false without one.
bool with_small_disk(const std::string& mountpoint, const char* size, bool& mounted,
                     const std::function<bool()>& work) {
    int pipe[2] = {-1, -1};
    if (::pipe(pipe) != 0) {
        return false;
    }
    const auto mount_and_work = [&] {
        const bool ready = ::unshare(CLONE_NEWNS) == 0 &&
                           ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                           ::mount("none", mountpoint.c_str(), "tmpfs", 0, size) == 0;
        (void)!::write(pipe[1], &ready, sizeof ready);
        ::_exit(ready && work() ? 0 : 1);
    };
    const bool good = run_in_child(std::chrono::seconds(30), mount_and_work, std::array{pipe[1]});
    mounted = false;
    ::close(pipe[1]);
    (void)!::read(pipe[0], &mounted, sizeof mounted);
    ::close(pipe[0]);
    return good;
}

TEST_F(HostsFile, OnAFullDiskNothingIsLeft) {
    if (::geteuid() != 0) {
        GTEST_SKIP() << "a mount namespace needs root";
    }
    const auto place = tree_.at("/tmp").string();
    bool mounted = false;
    const bool good = with_small_disk(place, "size=4k,nr_inodes=8", mounted, [&] {
        const HostsTable many(2000, {"n01", ip("10.0.0.1"), 8}); // more than a page
        Environment environment;
        environment.set("TMPDIR", place);
        const auto files = write_hosts_files(many, environment, "7.0", "n01");
        return !files && files.error().os_error == ENOSPC && fs::is_empty(place) && fs::is_empty(tree_.at("/scratch"));
    });
    if (!mounted) {
        GTEST_SKIP() << "this machine does not let root make mount namespaces";
    }
    EXPECT_TRUE(good);
}

} // namespace
} // namespace rdma_nccl
