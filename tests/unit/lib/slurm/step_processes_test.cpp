// SPDX-License-Identifier: Apache-2.0
#include "lib/slurm/step_processes.h"

#include "lib/base/format.h"
#include "tests/unit/tree.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace rdma_nccl {
namespace {

using Step = std::optional<StepName>;

using namespace std::string_literals;

/// Steps 0 and 1 of job 12, a batch script, and step 9 of another job. Process 30 is the task of process 31.
class FindTask : public testing::Test {
protected:
    void SetUp() override {
        process(1, 0, "", 0);
        process(10, 1, step_0, 0); // slurmstepd: it is no task
        daemon(10, "slurmstepd: [12.0]");
        process(11, 10, step_0 + "SLURM_PROCID=4\0"s);
        const auto task = step_0 + "SLURM_PROCID=3\0NCCL_IB_HCA=mlx5_1\0"s;
        process(31, 30, task + "NCCL_IB_DISABLE=1\0RANK=3\0"s);
        process(30, 10, task + "RDMA_NCCL_SET=@12.0," + marker_entry("NCCL_IB_HCA", "mlx5_1") + "\0"s);
        tree_.file("/proc/30/cmdline", "/bin/bash\0./run.sh\0"s);
        process(40, 1, "SLURM_JOB_ID=12\0SLURM_STEP_ID=1\0SLURM_PROCID=0\0"s);
        process(50, 1, "SLURM_JOB_ID=12\0SLURM_STEP_ID=4294967291\0SLURM_PROCID=0\0"s);
        process(60, 1, "SLURM_JOB_ID=13\0SLURM_STEP_ID=9\0SLURM_PROCID=0\0"s);
    }

    void process(int pid, int parent, const std::string& environ, uid_t user = 1000) {
        const auto folder = format_text("/proc/{}/", pid);
        tree_.file(folder + "environ", environ).file(folder + "stat", format_text("{} (x) S {} 1", pid, parent));
        tree_.file(folder + "status",
                   format_text("Name:\tx\nUid:\t{}\t0\t0\t0\n", user)); // as in a set-user-ID program
    }
    void daemon(int pid, const std::string& title, const std::string& program = "/usr/sbin/slurmstepd") {
        const auto folder = format_text("/proc/{}/", pid);
        tree_.file(folder + "comm", "slurmstepd\n").file(folder + "cmdline", title).link(folder + "exe", program);
    }
    [[nodiscard]] std::optional<TaskProcess> find(std::uint32_t job, std::optional<std::uint32_t> step,
                                                  std::vector<std::string> own = {}, uid_t user = 1000) const {
        return find_task(tree_.root(), job, step, Environment(std::move(own)), user);
    }
    [[nodiscard]] pid_t found_by(uid_t user) const {
        const auto found = find(12, 0, {}, user);
        return found ? found->pid : 0;
    }

    const std::string step_0 = "SLURM_JOB_ID=12\0SLURM_STEP_ID=0\0"s;
    test::Tree tree_;
};

TEST_F(FindTask, TheOutermostProcessOfTheFirstTask) {
    const auto found = find(12, 0);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->pid, 30);
    EXPECT_EQ(found->program, (std::vector<std::string>{"/bin/bash", "./run.sh"}));
    EXPECT_EQ(found->environment.get("SLURM_PROCID"), "3");
    EXPECT_EQ(found->environment.get("RANK"), std::nullopt) << "that is of what it started";
    EXPECT_EQ(found->environment.get_users("NCCL_IB_DISABLE"), "1") << "exported by the script";
    EXPECT_EQ(found->environment.get_users("NCCL_IB_HCA"), std::nullopt) << "the plugin's";
    EXPECT_EQ(found->environment.as_users().get_users("NCCL_IB_HCA"), "mlx5_1");
    EXPECT_EQ(found->environment.as_users().get(marker_variable), std::nullopt);
    EXPECT_FALSE(find(12, 2));
    EXPECT_FALSE(find(14, 0));
}

TEST_F(FindTask, BesideAnotherStep) {
    EXPECT_EQ(find(12, {}, {"SLURM_STEP_ID=2"})->step, 1U) << "the newest";
    EXPECT_EQ(find(12, {}, {"SLURM_STEP_ID=1"})->step, 0U) << "not the own one, and no batch script";
    EXPECT_FALSE(find(13, {}, {"SLURM_STEP_ID=9"}));
}

TEST_F(FindTask, AStepRunsWhereItsDaemonIsHidden) {
    const auto runs = [this](uid_t user) { return step_on_node(tree_.root(), {12, 0}, Environment(), user); };
    EXPECT_TRUE(runs(1001)) << "its slurmstepd is seen by everybody";
    tree_.remove("/proc/10").remove("/proc/1"); // hidepid=2, proc(5)
    EXPECT_TRUE(runs(1000)) << "its tasks are the user's";
    EXPECT_FALSE(runs(1001)) << "its tasks are another user's";
    tree_.file("/proc/1/comm", "systemd\n");
    EXPECT_FALSE(runs(1000)) << "nothing is hidden: it has ended";
}

/// Another user's process claims the step in its environment, and calls what is above it as Slurm would.
TEST_F(FindTask, AStrangerWhoClaimsTheStep) {
    const auto claim = step_0 + "SLURM_PROCID=0\0NCCL_NET=Socket\0"s;
    process(5, 1, claim, 1001);
    EXPECT_EQ(found_by(1000), 30);
    EXPECT_EQ(found_by(0), 30);
    process(6, 1, "", 1001);
    daemon(6, "slurmstepd: [12.0]");
    process(7, 6, claim, 1001);
    EXPECT_EQ(found_by(0), 30) << "another user's slurmstepd";
    process(6, 1, "", 0);
    daemon(6, "slurmstepd: [12.0]", "/usr/bin/sudo");
    EXPECT_EQ(found_by(0), 30) << "a program of root's with that name";
    for (const auto* const title : {"slurmstepd: [12.1]", "slurmstepd: [13.0]", "slurmstepd: [12.batch]"}) {
        daemon(6, title);
        EXPECT_EQ(found_by(0), 30) << title;
    }
    daemon(6, "slurmstepd: [12.0+1]", "/usr/sbin/slurmstepd (deleted)");
    EXPECT_EQ(found_by(0), 7) << "Slurm's own";
    tree_.remove("/proc/6").remove("/proc/10");
    EXPECT_EQ(found_by(0), 0);
}

/// There, root can read no processes but the user's own, and process 1 is nobody's.
TEST_F(FindTask, OfRootInAUserNamespace) {
    process(1, 0, "", 65534);
    process(5, 1, step_0 + "SLURM_PROCID=0\0"s, 0);
    EXPECT_EQ(found_by(0), 5);
}

TEST_F(FindTask, VariablesOfWhatIsBelowTheTaskOnly) {
    process(32, 10, step_0 + "SLURM_PROCID=3\0NCCL_NET=Socket\0"s);
    process(33, 31, step_0 + "SLURM_PROCID=3\0NCCL_DEBUG=INFO\0"s);
    const auto found = find(12, 0);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->environment.get("NCCL_NET"), std::nullopt) << "beside it, of the same rank";
    EXPECT_EQ(found->environment.get("NCCL_DEBUG"), "INFO");
}

TEST_F(FindTask, OfThisNodeWhereSeveralShareTheMachine) {
    process(70, 1, "SLURM_JOB_ID=15\0SLURM_STEP_ID=0\0SLURM_PROCID=0\0SLURMD_NODENAME=n01\0"s);
    process(71, 1, "SLURM_JOB_ID=15\0SLURM_STEP_ID=0\0SLURM_PROCID=1\0SLURMD_NODENAME=n02\0"s);
    EXPECT_EQ(find(15, 0)->pid, 70);
    EXPECT_EQ(find(15, 0, {"SLURMD_NODENAME=n02"})->pid, 71);
}

/// Job 17 is the second component of job 16, whose number its tasks have.
TEST_F(FindTask, OfAComponentOfAHeterogeneousJob) {
    process(80, 1, "", 0);
    daemon(80, "slurmstepd: [17.0]");
    process(81, 80, "SLURM_JOB_ID=16\0SLURM_STEP_ID=0\0SLURM_PROCID=4\0"s);
    for (const uid_t user : {0U, 1000U}) {
        const auto found = find(17, 0, {}, user);
        ASSERT_TRUE(found) << user;
        EXPECT_EQ(found->pid, 81);
    }
    EXPECT_TRUE(find(16, 0)) << "to its user, by the number in its environment";
    EXPECT_FALSE(find(16, 0, {}, 0)) << "any job may have 16 in its environment";
    EXPECT_FALSE(find(17, 0, {}, 1001)) << "of another user";
    tree_.remove("/proc/80/exe"); // of root's process only root can read that (proc(5))
    EXPECT_TRUE(find(17, 0)) << "by the title of slurmstepd";
    EXPECT_FALSE(find(17, 0, {}, 0));
    tree_.remove("/proc/80/cmdline").file("/proc/81/cgroup", "0::/system.slice/slurmstepd.scope/job_17/step_0\n");
    EXPECT_TRUE(find(17, 0)) << "by its cgroup";
}

TEST(StepId, ByNumbers) {
    EXPECT_EQ(parse_step_id("12.3")->step, 3U);
    for (const auto* const text : {"", "12", "12.", ".3", "0.1", "12.batch", "12.3.4", "x.1", "12.-1"}) {
        EXPECT_FALSE(parse_step_id(text)) << text;
    }
}

TEST(StepOfCgroups, OfSlurmsVersions) {
    for (const char* text : {
             "0::/system.slice/slurmstepd.scope/job_12/step_0/user/task_0\n",
             "0::/system.slice/n01_slurmstepd.scope/job_12/step_0/slurm\n", // several slurmds on a node
             "0::/../../job_12/step_0/user/task_special\n",                 // seen from another cgroup namespace
             "13:memory:/slurm/uid_1000/job_12/step_0/task_0\n4:devices:/slurm/uid_1000/job_12/step_0\n1:name=systemd:/"
             "\n0::/\n",
             "9:freezer:/slurm_n01/uid_0/job_12/step_0",
             "8:cpuset:/slurm/uid_1000/job_12\n7:freezer:/slurm/uid_1000/job_12/step_0\n", // the deepest known
         }) {
        EXPECT_EQ(parse_step_cgroups(text), (StepName{12, "0"})) << text;
    }
    EXPECT_EQ(parse_step_cgroups("0::/system.slice/slurmstepd.scope/job_7/step_batch/user/task_0"),
              (StepName{7, "batch"}));
    EXPECT_EQ(parse_step_cgroups("0::/system.slice/slurmstepd.scope/job_7/step_extern"), (StepName{7, "extern"}));
    EXPECT_EQ(parse_step_cgroups("0::/system.slice/slurmstepd.scope/job_7/step_1+2/user"), (StepName{7, "1+2"}));
    EXPECT_EQ(parse_step_cgroups("0::/slurm/uid_1/job_7"), (StepName{7, ""}));
}

TEST(StepOfCgroups, WhatATaskMakesBelowIsItsOwn) {
    EXPECT_EQ(parse_step_cgroups("0::/system.slice/slurmstepd.scope/job_12/step_0/user/task_0/job_99/step_1"),
              (StepName{12, "0"}));
}

TEST(StepOfCgroups, NoStep) {
    for (const char* text :
         {"", "0::/", "0::/user.slice/user-1000.slice", "0::/x/job_/step_0", "0::/job_x/step_0", "0::/job_0/step_0",
          "0::/job_99999999999/step_1", "0::/my_job_12/step_0", "\n\n/", "0::/job_-1",
          "0::/system.slice/slurmstepd.scope/sEKNKTV3WPV500/step_0/user/task_0/job_99/step_1"}) {
        EXPECT_EQ(parse_step_cgroups(text), Step()) << text;
    }
}

TEST(StepOfTitle, OfSlurmstepd) {
    EXPECT_EQ(parse_step_title("slurmstepd: [123.0]"), (StepName{123, "0"}));
    EXPECT_EQ(parse_step_title("slurmstepd: [123.batch]"), (StepName{123, "batch"}));
    EXPECT_EQ(parse_step_title("slurmstepd: [123.0+1] "), (StepName{123, "0+1"}));
    for (const char* text : {"", "slurmstepd", "/usr/sbin/slurmstepd infinity", "slurmstepd: [", "slurmstepd: []",
                             "slurmstepd: [12]", "slurmstepd: [.0]", "slurmstepd: [12.0", "sleep: [12.0]"}) {
        EXPECT_EQ(parse_step_title(text), Step()) << text;
    }
}

/// Processes 1 (init), 20 (slurmstepd of 12.0), 30 (its task), 40 (slurmstepd of another step), 50 (its task).
class StepProcessesTest : public testing::Test {
protected:
    void SetUp() override {
        process(1, 0, "systemd", "0::/init.scope", "/sbin/init");
        process(20, 1, "slurmstepd", "0::/system.slice/slurmstepd.scope/job_12/step_0/slurm", "slurmstepd: [12.0]");
        process(30, 20, "python3", "0::/system.slice/slurmstepd.scope/job_12/step_0/user/task_0", "python3");
        process(40, 1, "slurmstepd", "0::/", "slurmstepd: [13.batch]");
        process(50, 40, "a) R 20 (b", "0::/", "x");
    }

    void process(pid_t pid, pid_t parent, std::string_view name, std::string_view cgroup, std::string_view title) {
        const std::string folder = format_text("/proc/{}/", pid);
        tree_.file(folder + "stat", format_text("{} ({}) S {} 1 1 0 -1\n", pid, name, parent));
        tree_.file(folder + "status", format_text("Name:\t{}\nTgid:\t{}\n", name, pid));
        tree_.file(folder + "comm", format_text("{}\n", name));
        tree_.file(folder + "cgroup", format_text("{}\n", cgroup));
        tree_.file(folder + "cmdline", std::string(title) + std::string(200, '\0'));
    }
    [[nodiscard]] ProcessIdentity identify(pid_t pid, StepProcesses step = {12, 0, 0}) const {
        return step.identify(tree_.root(), pid);
    }

    test::Tree tree_;
};

constexpr auto own = ProcessOwner::Step;
constexpr auto other = ProcessOwner::OtherStep;

TEST_F(StepProcessesTest, ByCgroup) {
    EXPECT_EQ(identify(30), (ProcessIdentity{own, "python3"}));
    EXPECT_EQ(identify(30, {12, 1, 0}), (ProcessIdentity{other, "job 12 step 0"}));
    EXPECT_EQ(identify(30, {1, 0, 0}), (ProcessIdentity{other, "job 12 step 0"}));
    EXPECT_EQ(identify(30, {0, 0, 0}), (ProcessIdentity{other, "job 12 step 0"}));
    EXPECT_EQ(identify(1), (ProcessIdentity{ProcessOwner::System, "systemd"}));
}

TEST_F(StepProcessesTest, ComponentsOfAHeterogeneousStep) {
    process(31, 20, "python3", "0::/system.slice/slurmstepd.scope/job_12/step_0+1/user/task_0", "python3");
    EXPECT_EQ(identify(31).owner, own);
}

TEST_F(StepProcessesTest, ByParents) {
    process(32, 20, "bash", "0::/", "bash");
    process(33, 32, "ib_write_bw", "0::/", "ib_write_bw");
    EXPECT_EQ(identify(33, {12, 0, 20}), (ProcessIdentity{own, "ib_write_bw"}));
    EXPECT_EQ(identify(20, {0, 0, 20}).owner, own) << "the ancestor itself";
    EXPECT_EQ(identify(33), (ProcessIdentity{own, "ib_write_bw"})) << "slurmstepd's title";
    EXPECT_EQ(identify(50), (ProcessIdentity{other, "job 13 step batch"})) << "a name with a parenthesis and blanks";
    EXPECT_EQ(identify(50, {12, 0, 20}).owner, other);
}

/// A process that slurmstepd is no longer above, under Slurm 26.05.
TEST_F(StepProcessesTest, ByTheDaemonBesideItsCgroup) {
    const std::string step = "/system.slice/slurmstepd.scope/sEKNKTV3WPV500/step_0";
    process(34, 1, "python3", "0::" + step + "/user/task_0", "python3");
    EXPECT_EQ(identify(34).owner, ProcessOwner::System) << "nothing is known of that cgroup";
    process(21, 20, "prolog", "0::" + step + "/slurm", "slurmstepd: [99.0]");
    tree_.file("/sys/fs/cgroup" + step + "/slurm/cgroup.procs", "21\n20\n");
    EXPECT_EQ(identify(34), (ProcessIdentity{own, "python3"}));
    EXPECT_EQ(identify(34, {13, 0, 0}), (ProcessIdentity{other, "job 12 step 0"}));
    process(35, 1, "python3", "0::" + step + "/user/task_0/job_99/step_1", "python3");
    EXPECT_EQ(identify(35).owner, own) << "what a task makes below is its own";
    for (const auto* const job : {"sEKNKTV3WPV50", "sEKNKTV3WPV50o", "SEKNKTV3WPV500"}) { // no SLUIDs
        process(36, 1, "python3", format_text("0::/{}/step_0/user", job), "python3");
        tree_.file(format_text("/sys/fs/cgroup/{}/step_0/slurm/cgroup.procs", job), "20\n");
        EXPECT_EQ(identify(36).owner, ProcessOwner::System) << job;
    }
}

/// As podman's conmon leaves a container. A stranger's claim does not count, and nobody's if no user is named.
TEST_F(StepProcessesTest, ByTheEnvironmentOfTheUsersOwnProcesses) {
    const auto claim = [&](pid_t pid, std::string_view uids, std::string_view words) {
        process(pid, 1, "ib_write_bw", "0::/user.slice", "ib_write_bw");
        tree_.file(format_text("/proc/{}/status", pid), format_text("Tgid:\t{}\nUid:\t{}\n", pid, uids));
        tree_.file(format_text("/proc/{}/environ", pid), words);
    };
    using namespace std::string_view_literals;
    claim(60, "1000\t1000\t1000\t1000", "SLURM_JOB_ID=12\0SLURM_STEP_ID=0\0"sv);
    claim(61, "1001\t1001\t1001\t1001", "SLURM_JOB_ID=12\0SLURM_STEP_ID=0\0"sv);
    claim(62, "1000\t1000\t1000\t1000", "SLURM_JOB_ID=12\0SLURM_STEP_ID=1\0"sv);
    EXPECT_EQ(identify(60, {12, 0, 20, 1000}), (ProcessIdentity{own, "ib_write_bw"}));
    EXPECT_EQ(identify(60, {12, 0, 20}).owner, ProcessOwner::System);
    EXPECT_EQ(identify(61, {12, 0, 20, 1000}).owner, ProcessOwner::System) << "a stranger";
    EXPECT_EQ(identify(62, {12, 0, 20, 1000}).owner, ProcessOwner::System) << "another step";
    process(63, 40, "ib_write_bw", "0::/", "ib_write_bw");
    tree_.file("/proc/63/status", "Tgid:\t63\nUid:\t1000\n");
    tree_.file("/proc/63/environ", "SLURM_JOB_ID=12\0SLURM_STEP_ID=0\0"sv);
    EXPECT_EQ(identify(63, {12, 0, 20, 1000}).owner, other) << "what Slurm tells comes first";
}

/// With a session of systemd, users make cgroups of any name; and any program can be called slurmstepd.
TEST_F(StepProcessesTest, NoStrangerInAStepByTheNamesThatHeChose) {
    const auto identified = [&](pid_t pid, int user) {
        tree_.file(format_text("/proc/{}/status", pid), format_text("Tgid:\t{}\nUid:\t{}\n", pid, user));
        return identify(pid, {12, 0, 90, 1000}).owner;
    };
    process(64, 1, "ib_write_bw", "0::/user.slice/user-1001.slice/user@1001.service/job_12/step_0", "ib_write_bw");
    process(65, 1, "slurmstepd", "0::/user.slice", "slurmstepd: [12.0]");
    process(66, 65, "ib_write_bw", "0::/user.slice", "ib_write_bw");
    for (const pid_t pid : {64, 66}) {
        EXPECT_EQ(identified(pid, 1001), ProcessOwner::System);
        EXPECT_EQ(identified(pid, 1000), own);
        EXPECT_EQ(identified(pid, 0), own) << "a container's root";
    }
}

/// Job 13 is the second component of job 12, whose number its tasks have: in podman's containers with a cgroup of their
/// own, and with the task's.
TEST_F(StepProcessesTest, ContainersOfAComponentOfAHeterogeneousJob) {
    const StepProcesses step{13, 0, 90, 1000, 12};
    const auto container = [&](pid_t pid, std::string_view cgroup, std::string_view words) {
        process(pid, 1, "ib_write_bw", cgroup, "ib_write_bw");
        tree_.file(format_text("/proc/{}/status", pid), format_text("Tgid:\t{}\nUid:\t1000\n", pid));
        tree_.file(format_text("/proc/{}/environ", pid), words);
    };
    using namespace std::string_view_literals;
    container(60, "0::/user.slice", "SLURM_JOB_ID=12\0SLURM_STEP_ID=0\0"sv);
    container(61, "0::/system.slice/slurmstepd.scope/job_13/step_0/user/task_0", "");
    container(62, "0::/user.slice", "SLURM_JOB_ID=13\0SLURM_STEP_ID=0\0"sv);
    container(63, "0::/system.slice/slurmstepd.scope/job_14/step_0/user/task_0", "");
    EXPECT_EQ(identify(60, step), (ProcessIdentity{own, "ib_write_bw"}));
    EXPECT_EQ(identify(61, step), (ProcessIdentity{own, "ib_write_bw"}));
    EXPECT_EQ(identify(30, step), (ProcessIdentity{other, "job 12 step 0"})) << "the leader's own";
    EXPECT_EQ(identify(62, step).owner, ProcessOwner::System) << "no task's environment has that number";
    EXPECT_EQ(identify(63, step), (ProcessIdentity{other, "job 14 step 0"}));
}

/// In a component, a task's environment has the leader's number, here 11.
TEST_F(StepProcessesTest, AroundATaskOfAComponent) {
    rdma_nccl::Step step;
    step.job_id = 11;
    step.step_id = 0;
    process(32, 20, "bash", "0::/", "bash"); // Slurm uses no cgroups
    for (const pid_t task : {30, 32}) {
        const auto processes = StepProcesses::around(tree_.root(), task, step, 70);
        EXPECT_EQ(processes.job_id, 12U) << task;
        EXPECT_EQ(processes.step_id, 0U);
        EXPECT_EQ(processes.ancestor, 70);
        EXPECT_EQ(processes.job_of_tasks(), 11U);
        EXPECT_EQ(identify(30, processes).owner, own);
    }
    EXPECT_EQ(StepProcesses::around(tree_.root(), 1, step, 70).job_id, 11U) << "nothing else tells";
    EXPECT_EQ(StepProcesses::around(tree_.root(), 30, rdma_nccl::Step(), 70).job_id, 0U) << "no job";
}

TEST_F(StepProcessesTest, AThreadIsItsProcess) {
    tree_.file("/proc/39/status", "Name:\tNCCL\nTgid:\t30\nPid:\t39\n").file("/proc/39/comm", "NCCL\n");
    EXPECT_EQ(identify(39), (ProcessIdentity{own, "python3"}));
}

TEST_F(StepProcessesTest, WhoseStatusCannotBeRead) {
    tree_.remove("/proc/30/status");
    EXPECT_EQ(identify(30), (ProcessIdentity{own, "python3"}));
}

TEST_F(StepProcessesTest, GoneAndUnknown) {
    EXPECT_EQ(identify(999), (ProcessIdentity{ProcessOwner::Gone, ""}));
    EXPECT_EQ(identify(0), (ProcessIdentity{ProcessOwner::System, ""}));
    EXPECT_EQ(identify(-1), (ProcessIdentity{ProcessOwner::System, ""}));
}

TEST_F(StepProcessesTest, ParentsInACircle) {
    process(60, 61, "a", "0::/", "a");
    process(61, 60, "b", "0::/", "b");
    EXPECT_EQ(identify(60).owner, ProcessOwner::System);
}

TEST_F(StepProcessesTest, NamesAreSafeToShow) {
    process(70, 1, "x\x1b[31m", "0::/job_3/step_\x1b[31m", "x");
    EXPECT_EQ(identify(70).name, "job 3 step ?[31m");
    process(71, 1, "x\x1b[31m", "0::/", "x");
    EXPECT_EQ(identify(71).name, "x?[31m");
}

TEST_F(StepProcessesTest, OtherJobs) {
    EXPECT_TRUE(other_jobs_on_node(tree_.root(), 12));
    tree_.remove("/proc/40");
    EXPECT_FALSE(other_jobs_on_node(tree_.root(), 12));
    EXPECT_TRUE(other_jobs_on_node(tree_.root(), 13));
    process(80, 1, "python3", "0::/", "slurmstepd: [99.0]");
    EXPECT_FALSE(other_jobs_on_node(tree_.root(), 12)) << "a program that calls itself so";
    process(81, 1, "slurmstepd", "0::/", "/usr/sbin/slurmstepd");
    EXPECT_FALSE(other_jobs_on_node(tree_.root(), 12)) << "the one that keeps the scope of cgroups";
    tree_.remove("/proc");
    EXPECT_FALSE(other_jobs_on_node(tree_.root(), 12));
}

TEST(StepProcesses, OfThisProcess) {
    const auto live = *SysRoot::open("/");
    EXPECT_EQ((StepProcesses{0, 0, ::getppid()}.identify(live, ::getpid()).owner), own);
}

} // namespace
} // namespace rdma_nccl
