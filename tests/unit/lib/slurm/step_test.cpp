// SPDX-License-Identifier: Apache-2.0
#include "lib/slurm/step.h"

#include "lib/plan/plan.h"
#include "lib/plan/port_block.h"

#include <gtest/gtest.h>

namespace rdma_nccl {
namespace {

Environment environment(std::vector<std::string> entries) {
    return Environment(entries);
}

Step step_of(std::vector<std::string> entries) {
    return read_step(environment(std::move(entries)), {});
}

TEST(Step, StepVariablesComeBeforeTheJobs) {
    const Step step =
        step_of({"SLURM_JOB_ID=7", "SLURM_STEP_ID=3", "SLURM_JOB_NODELIST=n[1-4]", "SLURM_STEP_NODELIST=n[2-3]",
                 "SLURM_NTASKS=99", "SLURM_STEP_NUM_TASKS=3", "SLURM_STEP_TASKS_PER_NODE=2,1",
                 "SLURM_STEP_RESV_PORTS=12000-12002", "SLURM_STEP_NUM_NODES=2"});
    EXPECT_EQ(step.job_id, 7U);
    EXPECT_EQ(step.leader_job_id, 7U);
    EXPECT_EQ(step.nodes, (std::vector<std::string>{"n2", "n3"}));
    EXPECT_EQ(step.node_count, 2U);
    EXPECT_EQ(step.task_count, 3U);
    EXPECT_EQ(step.most_tasks_per_node(), 2U);
    EXPECT_EQ(step.reserved_ports.size(), 3U);
    EXPECT_TRUE(step.problems.empty());
}

TEST(Step, NonsenseIsNotedAndNotTaken) {
    const Step step =
        step_of({"SLURM_JOB_ID=x", "SLURM_STEP_NODELIST=n[1-", "SLURM_STEP_NUM_TASKS=-4", "SLURM_STEP_RESV_PORTS=0"});
    EXPECT_EQ(step.problems.size(), 4U);
    EXPECT_EQ(step.task_count, 1U);
    EXPECT_TRUE(step.nodes.empty());
    EXPECT_TRUE(step.problems[0].starts_with("SLURM_JOB_ID=\"x\" is not a number"));
}

TEST(StepNote, IsReadBackAndBoundToItsStep) {
    const StepNote note{7, 3, "n2", "10.0.0.2", 21000, "RDMA_NCCL_GID=3,RDMA_NCCL_NET=eth0"};
    const auto back = parse_note(format_note(note));
    ASSERT_TRUE(back.has_value());
    EXPECT_EQ(back->head_node, "n2");
    EXPECT_EQ(back->port, 21000);
    EXPECT_EQ(back->settings, note.settings);
    const std::string variable = std::string(note_variable) + "=" + format_note(note);
    EXPECT_TRUE(step_of({"SLURM_JOB_ID=7", "SLURM_STEP_ID=3", variable}).note.has_value());
    EXPECT_FALSE(step_of({"SLURM_JOB_ID=7", "SLURM_STEP_ID=4", variable}).note.has_value());
    EXPECT_FALSE(step_of({"SLURM_JOB_ID=8", "SLURM_STEP_ID=3", variable}).note.has_value());
    for (const char* bad :
         {"", "1", "2;job=7;step=3;head=;addr=;port=0;set=", "1;job=7;step=3;head=;addr=;port=99999;set=",
          "1;job=7;step=3;head;addr=;port=0;set=", "1;step=3;job=7;head=;addr=;port=0;set="}) {
        EXPECT_FALSE(parse_note(bad).has_value()) << bad;
    }
}

TEST(HeadNode, IsWhereRankZeroIs) {
    Step step = step_of({"SLURM_JOB_ID=7", "SLURM_STEP_ID=3", "SLURM_STEP_NODELIST=n[1-3]", "SLURM_STEP_NUM_NODES=3"});
    EXPECT_EQ(find_head_node(step).name, "n1");
    EXPECT_TRUE(find_head_node(step).certain);
    step.distribution = "arbitrary";
    EXPECT_FALSE(find_head_node(step).certain) << "task 0 can be on any node";
    step.arbitrary_nodes = {"n3", "n1"};
    EXPECT_EQ(find_head_node(step).name, "n3");
    step.note = StepNote{7, 3, "n2", "", 0, ""};
    EXPECT_EQ(find_head_node(step).name, "n2");
    step = Step();
    EXPECT_FALSE(find_head_node(step).certain);
}

TEST(Head, TheSettingThenTheNoteThenTheResolver) {
    Settings settings;
    Step step;
    step.node_count = 2;
    const HeadNode node{"n1", "first of the step's node list", true};
    const Resolution resolved{"n1",
                              {*IpAddress::parse("127.0.1.1"), *IpAddress::parse("fe80::1"),
                               *IpAddress::parse("10.0.0.1"), *IpAddress::parse("10.9.0.1")},
                              ""};
    EXPECT_EQ(name_to_resolve(settings, step, node), "n1");
    EXPECT_EQ(choose_head(settings, step, node, resolved, std::nullopt).address->text(), "10.0.0.1")
        << "never loopback";
    settings.net.prefix = IpPrefix::parse("10.9.0.0/16");
    EXPECT_EQ(choose_head(settings, step, node, resolved, std::nullopt).address->text(), "10.9.0.1");
    step.note = StepNote{0, 0, "n1", "10.0.0.7", 0, ""};
    EXPECT_FALSE(name_to_resolve(settings, step, node).has_value()) << "no need to ask the resolver";
    EXPECT_EQ(choose_head(settings, step, node, std::nullopt, std::nullopt).address->text(), "10.0.0.7");
    settings.head.suffix = "-ib0";
    EXPECT_EQ(name_to_resolve(settings, step, node), "n1-ib0");
    const Resolution fabric{"n1-ib0", {*IpAddress::parse("192.168.5.1")}, ""};
    EXPECT_EQ(choose_head(settings, step, node, fabric, std::nullopt).address->text(), "192.168.5.1");
    const Resolution none{"n1-ib0", {}, "Name or service not known"};
    const auto fallen_back = choose_head(settings, step, node, none, std::nullopt);
    EXPECT_EQ(fallen_back.address->text(), "10.0.0.7");
    ASSERT_EQ(fallen_back.warnings.size(), 1U);
    EXPECT_EQ(fallen_back.warnings[0],
              "head=suffix:-ib0: n1-ib0: Name or service not known; give a name that resolves on every "
              "node, or an address");
}

TEST(Head, OnlyLoopbackIsNoAddress) {
    Step step;
    step.node_count = 2;
    const HeadNode node{"n1", "", true};
    const Resolution loopback{"n1", {*IpAddress::parse("127.0.1.1")}, ""};
    const auto own = IpAddress::parse("10.0.0.1");
    const auto head = choose_head({}, step, node, loopback, own);
    EXPECT_FALSE(head.address.has_value()) << "this node's own address is nothing that the others know";
    EXPECT_NE(head.warnings.at(0).find("resolves to 127.0.1.1 only, which other nodes cannot reach"),
              std::string::npos);
    step.node_count = 1;
    EXPECT_EQ(choose_head({}, step, node, loopback, own).address, own);
}

TEST(Head, IsVerifiedAgainstTheInterfaces) {
    Netdev netdev;
    netdev.name = "eth0";
    EXPECT_FALSE(verify_head(*IpAddress::parse("10.0.0.1"), "n1", {netdev}).has_value())
        << "nothing known, nothing proved";
    netdev.addresses = {{*IpAddress::parse("10.0.0.2"), 24}};
    EXPECT_TRUE(verify_head(*IpAddress::parse("10.0.0.1"), "n1", {netdev}).has_value());
    EXPECT_FALSE(verify_head(*IpAddress::parse("10.0.0.2"), "n1", {netdev}).has_value());
    EXPECT_TRUE(verify_head(*IpAddress::parse("127.0.0.1"), "n1", {netdev}).has_value());
}

TEST(Head, NumericTextResolvesToItself) {
    EXPECT_EQ(resolve_host("10.0.0.3").addresses, (std::vector<IpAddress>{*IpAddress::parse("10.0.0.3")}));
    EXPECT_FALSE(resolve_host("no-such-host.invalid").problem.empty());
}

TEST(Port, OrderOfTheSources) {
    Settings settings;
    Step step;
    step.job_id = step.leader_job_id = 12;
    const PortRange ephemeral{32768, 60999};
    EXPECT_EQ(choose_port(settings, step, std::nullopt, ephemeral).source, "derived");
    step.note = StepNote{12, 0, "", "", 25000, ""};
    EXPECT_EQ(choose_port(settings, step, std::nullopt, ephemeral).first, 25000);
    step.reserved_ports = {12000};
    EXPECT_EQ(choose_port(settings, step, std::nullopt, ephemeral).first, 12000);
    EXPECT_FALSE(choose_port(settings, step, std::nullopt, ephemeral).second.has_value()) << "one port was reserved";
    settings.port = 21000;
    EXPECT_EQ(choose_port(settings, step, std::nullopt, ephemeral).second, 21001);
    EXPECT_EQ(choose_port(settings, step, "29500", ephemeral).first, 29500);
    const auto nonsense = choose_port(settings, step, "http", ephemeral);
    EXPECT_EQ(nonsense.first, 21000);
    EXPECT_EQ(nonsense.warnings.size(), 1U);
    EXPECT_EQ(choose_port(settings, step, "40000", ephemeral).warnings.size(), 0U) << "the user's decision";
    settings.port = 40000;
    EXPECT_EQ(choose_port(settings, step, std::nullopt, ephemeral).warnings.size(), 1U);
}

TEST(Port, BlocksOfNeighboursDoNotMeet) {
    const PortRange range = default_port_range(PortRange{32768, 60999});
    EXPECT_EQ(range.first, 20000);
    std::vector<std::uint16_t> seen;
    for (std::uint32_t job = 1000; job < 1020; ++job) {
        for (std::uint32_t step = 0; step < 97; ++step) {
            seen.push_back(derive_port(job, step, range));
            EXPECT_GE(seen.back(), range.first);
            EXPECT_LE(seen.back() + 3, range.last);
            EXPECT_EQ((seen.back() - range.first) % 4, 0);
        }
    }
    std::sort(seen.begin(), seen.end());
    EXPECT_EQ(std::unique(seen.begin(), seen.end()), seen.end()) << "20 jobs of 97 steps each";
}

TEST(Port, TheRangeAvoidsEphemeralPorts) {
    EXPECT_EQ(default_port_range(std::nullopt).first, 20000);
    EXPECT_EQ(default_port_range(PortRange{9000, 64000}).first, 64001);
    EXPECT_EQ(default_port_range(PortRange{15000, 65535}).last, 14999);
    EXPECT_EQ(default_port_range(PortRange{1024, 65535}).first, 20000) << "nothing is left outside";
}

TEST(Mpirun, IsToldToItsFirstRankOnly) {
    const auto hint = [](std::vector<std::string> entries) { return mpirun_hint(Environment(entries)); };
    const auto found = hint({"OMPI_COMM_WORLD_SIZE=16", "OMPI_COMM_WORLD_RANK=0"});
    ASSERT_TRUE(found);
    EXPECT_EQ(found->find("mpirun started 16 ranks, which the plugin does not set up: use srun --mpi=pmix"), 0U);
    EXPECT_TRUE(hint({"MPI_LOCALNRANKS=8", "PMI_SIZE=16", "PMI_RANK=0"}));
    EXPECT_FALSE(hint({"OMPI_COMM_WORLD_SIZE=16", "OMPI_COMM_WORLD_RANK=3"}));
    EXPECT_FALSE(hint({"OMPI_COMM_WORLD_SIZE=1", "OMPI_COMM_WORLD_RANK=0"}));
    EXPECT_FALSE(hint({"PMI_SIZE=16", "PMI_RANK=0"})) << "Slurm's own";
    EXPECT_FALSE(hint({}));
    EXPECT_FALSE(hint({"OMPI_COMM_WORLD_SIZE=16", "OMPI_COMM_WORLD_RANK=0", "RDMA_NCCL_SET=@7.0"}));
}

TEST(Layout, IsChosenByTasksGpusAndProgram) {
    Step step;
    step.tasks_per_node = {8, 8};
    const Program ordinary;
    const Program launcher{ProgramKind::Launcher, "torchrun"};
    EXPECT_EQ(choose_layout({}, step, ordinary, 8).layout, Layout::Rank);
    EXPECT_EQ(choose_layout({}, step, launcher, 8).layout, Layout::Node);
    EXPECT_EQ(choose_layout({}, step, launcher, 8).warnings.size(), 1U) << "eight torchruns on a node";
    step.tasks_per_node = {1, 1};
    EXPECT_EQ(choose_layout({}, step, ordinary, 8).layout, Layout::Node);
    EXPECT_EQ(choose_layout({}, step, ordinary, 1).layout, Layout::Rank);
    EXPECT_EQ(choose_layout({}, step, ordinary, 0).layout, Layout::Rank);
    EXPECT_EQ(choose_layout({}, step, launcher, 1).layout, Layout::Node) << "a launcher beats the GPU count";
    Settings pod;
    pod.layout = Layout::Pod;
    EXPECT_EQ(choose_layout(pod, step, ordinary, 0).layout, Layout::Pod);
    step.tasks_per_node = {1, 2};
    EXPECT_EQ(choose_layout({}, step, ordinary, 8).layout, Layout::Rank) << "the same on all nodes";
}

TEST(Environment, OursAreToldFromTheUsers) {
    const auto mark = marker_entry("A", "1") + "," + marker_entry("B", "2") + "," + marker_entry("C", "3");
    const auto known =
        environment({"A=1", "B=changed", "D=4", std::string(marker_variable) + "=" + mark, "=x", "noequals"});
    EXPECT_FALSE(known.get_users("A").has_value());
    EXPECT_EQ(known.get_users("B"), "changed") << "changed since: the user's";
    EXPECT_EQ(known.get_users("D"), "4");
    EXPECT_FALSE(known.get("C").has_value());
    EXPECT_EQ(known.ours().size(), 1U);
    EXPECT_TRUE(Environment::from(nullptr).all().empty());
    EXPECT_TRUE(environment({std::string(marker_variable) + "=,:,A:,:zz"}).ours().empty());
}

} // namespace
} // namespace rdma_nccl
