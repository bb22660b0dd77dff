// SPDX-License-Identifier: Apache-2.0
#include "lib/plan/plan.h"

#include "lib/base/text.h"
#include "lib/plan/node_placement.h"

#include <gtest/gtest.h>

namespace rdma_nccl {
namespace {

Hca roce_hca(const std::string& name, const std::string& netdev, const std::string& address, unsigned index = 3) {
    Hca hca;
    hca.name = name;
    hca.node_type = "CA";
    hca.netdevs = {netdev};
    Port port;
    port.state = "ACTIVE";
    port.link_layer = LinkLayer::Ethernet;
    port.rate_gbps = 100;
    Gid gid;
    gid.index = index;
    gid.value = *IpAddress::parse(address);
    gid.type = GidType::RoceV2;
    gid.netdev = netdev;
    port.gids = {gid};
    hca.ports = {port};
    return hca;
}

Netdev netdev(const std::string& name, const std::string& address) {
    Netdev result;
    result.name = name;
    result.up = true;
    result.addresses = {{*IpAddress::parse(address), address.find(':') == std::string::npos ? 24U : 64U}};
    return result;
}

NodeFacts two_nodes() {
    NodeFacts facts;
    facts.host_name = "n01";
    facts.step.job_id = facts.step.leader_job_id = 12;
    facts.step.nodes = {"n01", "n02"};
    facts.step.node_count = 2;
    facts.step.task_count = 8;
    facts.step.tasks_per_node = {4, 4};
    facts.step.note = StepNote{12, 0, "n01", "10.0.0.1", 21000, ""};
    facts.head_node = find_head_node(facts.step);
    facts.fabric.hcas = {roce_hca("mlx5_0", "eth1", "10.1.0.1"), roce_hca("mlx5_1", "eth2", "10.2.0.1")};
    facts.fabric.netdevs = {netdev("eth0", "10.0.0.1"), netdev("eth1", "10.1.0.1"), netdev("eth2", "10.2.0.1")};
    facts.visible_gpus = {{"0", "1", "2", "3"}, "SLURM_STEP_GPUS", ""};
    facts.allowed_cpus = 32;
    return facts;
}

std::string value(const std::vector<Variable>& variables, std::string_view name) {
    const auto* found = find_variable(variables, name);
    return found == nullptr ? "(none)" : found->value;
}

TEST(Plan, EfaNeedsNoVariablesOfInfinibandAndNoWarning) {
    NodeFacts facts = two_nodes();
    for (auto& hca : facts.fabric.hcas) {
        hca.driver = "efa";
        hca.ports[0].link_layer = LinkLayer::Unknown;
    }
    const auto plan = make_plan(facts, {});
    for (const auto& variable : plan.variables) {
        EXPECT_NE(variable.name.substr(0, 8), "NCCL_IB_") << variable.name << "=" << variable.value;
    }
    EXPECT_TRUE(plan.warnings.empty()) << plan.warnings.front();
    EXPECT_NE(plan_summary(plan, facts).find(", 2 EFA ports for aws-ofi-nccl"), std::string::npos);
    facts.fabric.hcas[0].driver = "mlx5_core"; // DOWN or the like, but NCCL's own
    EXPECT_EQ(value(make_plan(facts, {}).variables, "NCCL_IB_TIMEOUT"), "22");
}

TEST(Plan, DevicesThatCannotBeReadAreNotAbsent) {
    NodeFacts facts = two_nodes();
    facts.fabric.hcas.clear();
    const auto warning = [&facts] { return make_plan(facts, {}).warnings.at(0); };
    EXPECT_EQ(warning(), "no RDMA device in /sys/class/infiniband: NCCL will use sockets");
    facts.fabric.problems = {"/sys/class/infiniband: Permission denied"};
    EXPECT_EQ(warning(),
              "cannot tell the RDMA devices (/sys/class/infiniband: Permission denied): NCCL will use sockets");
}

TEST(Plan, SocketsFollowTheHeadsNetwork) {
    const auto plan = make_plan(two_nodes(), {});
    EXPECT_EQ(value(plan.variables, "NCCL_SOCKET_IFNAME"), "=eth0");
    EXPECT_EQ(find_variable(plan.variables, "NCCL_SOCKET_IFNAME")->why, "on the network of MASTER_ADDR 10.0.0.1");
    Settings settings;
    settings.net.interface = "eth2";
    EXPECT_EQ(value(make_plan(two_nodes(), settings).variables, "GLOO_SOCKET_IFNAME"), "eth2");
}

TEST(Plan, OneIndexOrNcclsOwnChoice) {
    auto facts = two_nodes();
    EXPECT_EQ(value(make_plan(facts, {}).variables, "NCCL_IB_GID_INDEX"), "3");
    facts.fabric.hcas[1] = roce_hca("mlx5_1", "eth2", "10.2.0.1", 5);
    const auto plan = make_plan(facts, {});
    EXPECT_EQ(find_variable(plan.variables, "NCCL_IB_GID_INDEX")->action, VariableAction::Leave);
    EXPECT_EQ(value(plan.variables, "NCCL_IB_ROCE_VERSION_NUM"), "2");
    EXPECT_EQ(value(plan.variables, "NCCL_IB_ADDR_FAMILY"), "AF_INET");
    EXPECT_FALSE(plan.warnings.empty()) << "NCCL before 2.21 cannot do it";
}

TEST(Plan, Ipv6FabricsSayTheFamilyAndBrackets) {
    auto facts = two_nodes();
    facts.fabric.hcas = {roce_hca("mlx5_0", "eth1", "fd00::1")};
    facts.step.note->head_address = "fd01::9";
    const auto plan = make_plan(facts, {});
    EXPECT_EQ(value(plan.variables, "NCCL_IB_ADDR_FAMILY"), "AF_INET6");
    EXPECT_EQ(value(plan.variables, "MASTER_ADDR"), "fd01::9");
    EXPECT_EQ(value(plan.variables, "JAX_COORDINATOR_ADDRESS"), "[fd01::9]:21001");
    Settings node;
    node.layout = Layout::Node;
    EXPECT_EQ(value(make_plan(facts, node).variables, "PET_MASTER_ADDR"), "[fd01::9]");
}

TEST(Plan, InfiniBandHasNoIndex) {
    auto facts = two_nodes();
    for (auto& hca : facts.fabric.hcas) {
        hca.ports[0].link_layer = LinkLayer::InfiniBand;
    }
    const auto plan = make_plan(facts, {});
    EXPECT_EQ(value(plan.variables, "NCCL_IB_HCA"), "=mlx5_0:1,mlx5_1:1");
    EXPECT_EQ(value(plan.variables, "NCCL_IB_GID_INDEX"), "(none)");
    EXPECT_EQ(value(plan.variables, "NCCL_IB_ROCE_VERSION_NUM"), "(none)");
}

TEST(Plan, TheUserAndTheSitesFileWin) {
    auto facts = two_nodes();
    facts.environment.set("MASTER_ADDR", "head.example");
    facts.environment.set("NCCL_IB_TIMEOUT", "14");
    facts.nccl_conf["NCCL_SOCKET_IFNAME"] = {"eth7", "/etc/nccl.conf"};
    const auto plan = make_plan(facts, {});
    EXPECT_EQ(plan.master_address(), "head.example");
    EXPECT_EQ(find_variable(plan.variables, "MASTER_ADDR")->action, VariableAction::Keep);
    EXPECT_EQ(find_variable(plan.variables, "NCCL_IB_TIMEOUT")->source, "user");
    EXPECT_EQ(find_variable(plan.variables, "NCCL_SOCKET_IFNAME")->source, "/etc/nccl.conf");
    EXPECT_EQ(value(plan.variables, "JAX_COORDINATOR_ADDRESS"), "head.example:21001");
}

TEST(Plan, TuningCanBeOff) {
    Settings settings;
    settings.tuning = false;
    EXPECT_EQ(value(make_plan(two_nodes(), settings).variables, "NCCL_IB_TIMEOUT"), "(none)");
    settings.tuning = true;
    settings.tuning_values.ib_timeout = 20;
    EXPECT_EQ(value(make_plan(two_nodes(), settings).variables, "NCCL_IB_TIMEOUT"), "20");
}

TEST(Plan, WithoutAHeadNothingPretendsToKnowIt) {
    auto facts = two_nodes();
    facts.step.note.reset();
    facts.head_resolution = Resolution{"n01", {}, "Name or service not known"};
    const auto plan = make_plan(facts, {});
    EXPECT_EQ(value(plan.variables, "MASTER_ADDR"), "(none)");
    EXPECT_EQ(value(plan.variables, "JAX_COORDINATOR_ADDRESS"), "(none)");
    ASSERT_FALSE(plan.warnings.empty());
    EXPECT_EQ(plan.warnings[0],
              "no address of rank 0's node n01 (Name or service not known): MASTER_ADDR is not set; give "
              "head=ADDRESS");
}

TEST(PlanTask, ThreadsAreTheTasksShare) {
    const auto plan = make_plan(two_nodes(), {});
    TaskFacts task;
    task.rank = 5;
    task.local_rank = 1;
    task.node_rank = 1;
    task.local_tasks = 4;
    task.task_count = 8;
    task.node_count = 2;
    task.task_cpus = 32; // not bound
    task.node_cpus = 32;
    EXPECT_EQ(value(plan_task(plan, task, {}), "OMP_NUM_THREADS"), "8");
    task.task_cpus = 4; // bound by Slurm
    EXPECT_EQ(value(plan_task(plan, task, {}), "OMP_NUM_THREADS"), "4");
    task.task_cpus = 32;
    task.cpus_per_task = 6;
    EXPECT_EQ(value(plan_task(plan, task, {}), "OMP_NUM_THREADS"), "6");
    task.node_cpus = 2;
    task.cpus_per_task = 0;
    EXPECT_EQ(value(plan_task(plan, task, {}), "OMP_NUM_THREADS"), "1") << "never 0";
    Environment users;
    users.set("OMP_NUM_THREADS", "3");
    users.set("RANK", "3");
    EXPECT_EQ(find_variable(plan_task(plan, task, users), "OMP_NUM_THREADS")->action, VariableAction::Keep);
    EXPECT_EQ(value(plan_task(plan, task, users), "RANK"), "5");
}

TEST(PlanTask, InNodeLayoutTheCpusAreSharedByTheRanksToCome) {
    auto facts = two_nodes();
    facts.step.tasks_per_node = {1, 1};
    const auto plan = make_plan(facts, {});
    ASSERT_EQ(plan.layout.layout, Layout::Node);
    TaskFacts task;
    task.rank = 1;
    task.node_rank = 0; // arbitrary distribution: Slurm's node order is not the tasks'
    task.task_cpus = task.node_cpus = 32;
    const auto variables = plan_task(plan, task, {});
    EXPECT_EQ(value(variables, "OMP_NUM_THREADS"), "8");
    EXPECT_EQ(value(variables, "PET_NODE_RANK"), "1");
    EXPECT_EQ(value(variables, "RANK"), "(none)");
}

TEST(Report, SaysEverythingInALine) {
    const auto facts = two_nodes();
    const auto plan = make_plan(facts, {});
    EXPECT_EQ(plan_summary(plan, facts), "rank layout, 8 tasks on 2 nodes, head n01 (10.0.0.1:21000), 2 HCA ports "
                                         "(mlx5_0:1,mlx5_1:1), GID index 3");
    const auto lines = plan_lines(plan, facts.step, {});
    EXPECT_NE(std::find(lines.begin(), lines.end(), "  MASTER_PORT=21000  [derived: from job and step id, by srun]"),
              lines.end());
}

TEST(Report, SaysWhatAppliesWhereTheUserDecides) {
    auto facts = two_nodes();
    const auto line_with = [&](const std::string& name, const std::string& text) {
        auto changed = facts;
        changed.environment.set(name, text);
        const auto line = plan_summary(make_plan(changed, {}), changed);
        return line.substr(line.find("head "));
    };
    EXPECT_EQ(line_with("NCCL_IB_HCA", "mlx5_1"),
              "head n01 (10.0.0.1:21000), 1 HCA port (mlx5_1:1) by NCCL_IB_HCA=mlx5_1, GID index per port");
    EXPECT_EQ(line_with("NCCL_IB_HCA", "bnxt"), "head n01 (10.0.0.1:21000), no HCA by NCCL_IB_HCA=bnxt");
    EXPECT_EQ(line_with("NCCL_IB_GID_INDEX", "5"), "head n01 (10.0.0.1:21000), 2 HCA ports (mlx5_0:1,mlx5_1:1), GID by "
                                                   "NCCL_IB_GID_INDEX=5");
    EXPECT_EQ(line_with("NCCL_IB_DISABLE", "1"), "head n01 (10.0.0.1:21000), sockets by NCCL_IB_DISABLE=1");
    EXPECT_EQ(line_with("NCCL_NET", "Socket"), "head n01 (10.0.0.1:21000), sockets by NCCL_NET=Socket");
    EXPECT_EQ(line_with("MASTER_ADDR", "lab-head"), "head lab-head:21000 (MASTER_ADDR set before), 2 HCA ports "
                                                    "(mlx5_0:1,mlx5_1:1), GID index 3");
    EXPECT_EQ(line_with("MASTER_ADDR", "fd00::1").substr(0, 19), "head [fd00::1]:2100");
    facts.nccl_conf["NCCL_IB_HCA"] = {"mlx5_0", "/etc/nccl.conf"};
    EXPECT_EQ(line_with("NCCL_IB_TC", "106"), "head n01 (10.0.0.1:21000), 1 HCA port (mlx5_0:1) by NCCL_IB_HCA=mlx5_0 "
                                              "(/etc/nccl.conf), GID index per port");
}

/// As NCCL sees it: numbers, hardware below.
NodeFacts two_nodes_of_hardware() {
    NodeFacts facts = two_nodes();
    unsigned number = 1;
    for (auto& entry : facts.fabric.netdevs) {
        entry.order = number++;
        entry.pci_path = "/sys/devices/pci0000:00/0000:00:0" + std::to_string(number) + ".0";
    }
    return facts;
}

const Variable& interface_variable(const Plan& plan) {
    return *find_variable(plan.variables, "NCCL_SOCKET_IFNAME");
}

TEST(Plan, NcclIsToldItsInterfaceOnlyWhereItWouldGoWrong) {
    NodeFacts facts = two_nodes_of_hardware();
    EXPECT_EQ(interface_variable(make_plan(facts, {})).action, VariableAction::Leave);
    EXPECT_EQ(value(make_plan(facts, {}).variables, "GLOO_SOCKET_IFNAME"), "eth0");

    NodeFacts other_first = facts;
    other_first.fabric.netdevs[1].order = 0; // eth1 before eth0
    EXPECT_EQ(interface_variable(make_plan(other_first, {})).value, "=eth0");

    NodeFacts bridge = facts; // NET/Socket would use it too
    bridge.fabric.netdevs.push_back(netdev("br-1a2b", "172.18.0.1"));
    bridge.fabric.netdevs.back().order = 9;
    EXPECT_EQ(interface_variable(make_plan(bridge, {})).value, "=eth0");

    NodeFacts ipoib = facts;
    ipoib.fabric.netdevs.push_back(netdev("ib0", "10.9.0.1"));
    EXPECT_EQ(interface_variable(make_plan(ipoib, {})).value, "=eth0");

    Settings asked;
    asked.net.interface = "eth0";
    EXPECT_EQ(interface_variable(make_plan(facts, asked)).value, "=eth0");
    EXPECT_EQ(interface_variable(make_plan(facts, asked)).source, "setting");
}

/// eth0 has the default route. NCCL takes eth1, of mlx5_0, by itself.
NodeFacts rail_first() {
    NodeFacts facts = two_nodes_of_hardware();
    facts.fabric.default_route_netdevs = {"eth0"};
    facts.fabric.netdevs[1].order = 0;
    return facts;
}

TEST(Plan, NcclKeepsToTheFabricWhereItsRanksMayMeetOnAnyNetwork) {
    const auto with_head = [](const char* address) {
        NodeFacts facts = rail_first();
        facts.environment.set_users("MASTER_ADDR", address);
        return make_plan(facts, {});
    };
    NodeFacts lone = rail_first();
    lone.step.nodes = {"n01"};
    lone.step.node_count = 1;
    for (const auto& plan : {with_head("n01.example.org"), make_plan(lone, {})}) {
        EXPECT_EQ(interface_variable(plan).action, VariableAction::Leave);
        EXPECT_EQ(interface_variable(plan).why, "NCCL takes eth1 by itself (is the interface of mlx5_0)");
        EXPECT_EQ(value(plan.variables, "GLOO_SOCKET_IFNAME"), "eth0");
    }
    EXPECT_EQ(interface_variable(make_plan(rail_first(), {})).value, "=eth0") << "NodeAddr, which all nodes reach";
    EXPECT_EQ(interface_variable(with_head("10.0.0.9")).value, "=eth0") << "on the network that the user names";
    lone.fabric.netdevs[1].addresses.clear(); // eth0 is next
    lone.fabric.netdevs[2].order = 0;         // before eth0, and of mlx5_1
    EXPECT_EQ(interface_variable(make_plan(lone, {})).why, "NCCL takes eth2 by itself (is the interface of mlx5_1)");
    lone.fabric.netdevs[2].addresses = {{*IpAddress::parse("fe80::2"), 64}, {*IpAddress::parse("169.254.0.2"), 16}};
    EXPECT_EQ(interface_variable(make_plan(lone, {})).value, "=eth0") << "eth2 reaches nobody";
}

TEST(Plan, WhatTheUserTellsNcclOfInterfacesCounts) {
    NodeFacts facts = two_nodes_of_hardware();
    facts.environment.set("NCCL_SOCKET_FAMILY", "AF_INET6"); // no interface has such an address: NCCL fails alone
    EXPECT_EQ(interface_variable(make_plan(facts, {})).value, "=eth0");
    facts = two_nodes_of_hardware();
    facts.environment.set("NCCL_COMM_ID", "10.1.0.9:4000"); // NCCL would go by that subnet
    EXPECT_EQ(interface_variable(make_plan(facts, {})).value, "=eth0");
    facts = two_nodes_of_hardware();
    facts.nccl_conf["NCCL_SOCKET_IFNAME"] = {"eth2", "/etc/nccl.conf"};
    EXPECT_EQ(interface_variable(make_plan(facts, {})).action, VariableAction::Keep);
}

TEST(Plan, NcclsCrashWithoutMlx5IsAvoided) {
    NodeFacts facts = two_nodes();
    facts.fabric.hcas[0].driver = "bnxt_en";
    EXPECT_EQ(value(make_plan(facts, {}).variables, "NCCL_GIN_TYPE"), "2");
    facts.fabric.hcas[1].driver = "mlx5_core";
    EXPECT_EQ(value(make_plan(facts, {}).variables, "NCCL_GIN_TYPE"), "(none)");
    facts.fabric.hcas.clear();
    EXPECT_EQ(value(make_plan(facts, {}).variables, "NCCL_GIN_TYPE"), "(none)");
}

TEST(Plan, NcclsCrashWithoutPciFunctionIsAvoided) {
    const auto merging = [](const NodeFacts& facts) {
        return value(make_plan(facts, {}).variables, "NCCL_IB_MERGE_NICS");
    };
    NodeFacts facts = two_nodes();
    EXPECT_EQ(merging(facts), "0");
    facts.fabric.hcas[0].pci = "0000:51:00.0";
    EXPECT_EQ(merging(facts), "(none)") << "hardware is preferred, and alone";
    facts.environment.set("NCCL_IB_HCA", "mlx5_0,mlx5_1");
    EXPECT_EQ(merging(facts), "0") << "the user wants both";
    facts.environment.set("NCCL_IB_HCA", "=mlx5_1");
    EXPECT_EQ(merging(facts), "(none)") << "with one port there is nothing to compare";
    facts.fabric.hcas[1].ports.push_back(facts.fabric.hcas[1].ports[0]);
    facts.fabric.hcas[1].ports[1].number = 2;
    EXPECT_EQ(merging(facts), "0") << "two ports of one HCA";
    facts.environment.set("NCCL_IB_MERGE_NICS", "1");
    EXPECT_EQ(find_variable(make_plan(facts, {}).variables, "NCCL_IB_MERGE_NICS")->action, VariableAction::Keep);
}

TEST(Plan, ASitesTuningValueNamesItsLine) {
    Settings settings;
    settings.given["NCCL_IB_TIMEOUT"] = {"20", Origin::SiteFile, "/etc/rdma-nccl.conf:4"};
    settings.tuning_values.ib_timeout = 20;
    const auto plan = make_plan(two_nodes(), settings);
    EXPECT_EQ(find_variable(plan.variables, "NCCL_IB_TIMEOUT")->source, "/etc/rdma-nccl.conf:4");
    EXPECT_EQ(find_variable(plan.variables, "NCCL_IB_QPS_PER_CONNECTION")->source, "default");
}

TEST(Plan, FailoverIsTheSameOnEveryNode) {
    constexpr const char* failover = "NCCL_IB_RESILIENCY_PORT_FAILOVER";
    constexpr const char* recovery = "NCCL_IB_RESILIENCY_PORT_RECOVERY";
    auto facts = two_nodes();
    Settings settings;
    EXPECT_EQ(value(make_plan(facts, settings).variables, failover), "(none)");
    settings.failover = true;
    EXPECT_EQ(value(make_plan(facts, settings).variables, failover), "1");
    EXPECT_EQ(value(make_plan(facts, settings).variables, recovery), "1");
    facts.fabric.hcas[1].ports[0].state = "DOWN";
    EXPECT_EQ(value(make_plan(facts, settings).variables, failover), "1") << "a node with a sick port has it, too";
    facts.environment.set(failover, "0");
    const auto plan = make_plan(facts, settings);
    EXPECT_EQ(find_variable(plan.variables, failover)->action, VariableAction::Keep);
    EXPECT_EQ(value(plan.variables, recovery), "(none)") << "recovery alone only starts a thread";
}

TEST(Plan, NamesPortsThatFailoverDoesNothingFor) {
    auto facts = two_nodes();
    facts.fabric.hcas[0].pci = "0000:25:00.0";
    facts.fabric.hcas[1].pci = "0000:45:00.0";
    Settings settings;
    settings.failover = true;
    settings.given["failover"] = {"on", Origin::Option, "--rdma-nccl"};
    const auto warnings = [&] { return make_plan(facts, settings).warnings; };
    using Warnings = std::vector<std::string>;
    EXPECT_EQ(warnings(),
              Warnings{"mlx5_0 port 1 has no other port in its NIC: failover=on does nothing for it; NCCL fails over "
                       "between ports that it fuses (NCCL_NET_MERGE_LEVEL) (likewise mlx5_1 port 1)"});
    facts.fabric.hcas[1].pci = "0000:25:00.1";
    EXPECT_EQ(warnings(), Warnings{}) << "two ports of one card";
    facts.fabric.hcas[1].pci = "0000:25:01.0";
    EXPECT_EQ(warnings(), Warnings{}) << "two devices of one bus, such as virtual functions";
    facts.fabric.hcas[0].pci = facts.fabric.hcas[1].pci = "";
    EXPECT_EQ(warnings(),
              Warnings{"mlx5_0 port 1 is fused with no other: failover=on does nothing for it; NCCL fuses none with "
                       "NCCL_IB_MERGE_NICS=0, set because an HCA has no PCI function (likewise mlx5_1 port 1)"});
    settings.given["failover"].origin = Origin::SiteFile;
    EXPECT_EQ(warnings(), Warnings{}) << "the user cannot change the site's file";
    settings.given["failover"].origin = Origin::Option;
    for (const auto* const name : {"NCCL_NET_MERGE_LEVEL", "NCCL_NET_MERGE_POLICY", "NCCL_NET_FORCE_MERGE",
                                   "NCCL_IB_MERGE_VFS", "NCCL_IB_MERGE_NICS"}) {
        facts.nccl_conf.clear();
        facts.nccl_conf[name] = {"1", "/etc/nccl.conf"};
        EXPECT_EQ(warnings(), Warnings{}) << name << ": what NCCL fuses is not known";
    }
}

TEST(Plan, TellsRdmaNcclRunHowToBind) {
    auto facts = two_nodes();
    facts.step.tasks_per_node = {1, 1};
    Settings settings;
    settings.layout = Layout::Node;
    EXPECT_EQ(find_variable(make_plan(facts, settings).variables, "RDMA_NCCL_BIND"), nullptr);
    settings.bind = BindChoice::Off;
    settings.given["bind"] = {"off", Origin::Option, "--rdma-nccl"};
    const auto plan = make_plan(facts, settings);
    ASSERT_NE(find_variable(plan.variables, "RDMA_NCCL_BIND"), nullptr);
    EXPECT_EQ(find_variable(plan.variables, "RDMA_NCCL_BIND")->value, "off");
}

TEST(Plan, TellsRdmaNcclRunToRecord) {
    auto facts = two_nodes();
    facts.step.tasks_per_node = {1, 1};
    Settings settings;
    settings.layout = Layout::Node;
    settings.given["recorder"] = {"off", Origin::Option, "--rdma-nccl"};
    EXPECT_EQ(find_variable(make_plan(facts, settings).variables, "RDMA_NCCL_RECORDER"), nullptr);
    settings.recorder = true;
    settings.given["recorder"] = {"on", Origin::Option, "--rdma-nccl"};
    const auto plan = make_plan(facts, settings);
    ASSERT_NE(find_variable(plan.variables, "RDMA_NCCL_RECORDER"), nullptr);
    EXPECT_EQ(find_variable(plan.variables, "RDMA_NCCL_RECORDER")->value, "on");
}

TEST(Plan, OnlyTheLimitThatRdmaNeedsIsAWarning) {
    auto facts = two_nodes();
    facts.limits = {8192, 16, 1};
    const auto plan = make_plan(facts, Settings());
    EXPECT_EQ(plan.warnings.size(), 1U);
    EXPECT_NE(plan.warnings.at(0).find("locked memory is limited to 8192 KiB"), std::string::npos);
    EXPECT_EQ(plan.notes.size(), 2U);
    Settings ignore;
    ignore.memlock = MemlockChoice::Ignore;
    EXPECT_TRUE(make_plan(facts, ignore).warnings.empty());
}

TEST(Plan, TheAgreementReplacesTheNodesOwnDecisions) {
    const auto facts = two_nodes();
    const auto own = make_plan(facts, {});
    Coordination coordination;
    coordination.agreement = Agreement{.head_node = "n02",
                                       .head = IpAddress::parse("10.1.0.2"),
                                       .head_why = "reached by all nodes",
                                       .block = PortBlock{.first = 23000, .second = 23001, .source = "slurm"},
                                       .left_out = {"mlx5_1:1"}};
    const auto plan = complete_plan(own, facts, {}, coordination);
    EXPECT_EQ(plan.head_node.name, "n02");
    EXPECT_EQ(value(plan.variables, "MASTER_ADDR"), "10.1.0.2");
    EXPECT_EQ(value(plan.variables, "MASTER_PORT"), "23000");
    EXPECT_EQ(value(plan.variables, "NCCL_IB_HCA"), "=mlx5_0:1");
    EXPECT_EQ(value(plan.variables, "NCCL_SOCKET_IFNAME"), "=eth1") << "on the network of the agreed head";
    EXPECT_EQ(plan.fabric.used_names(), std::vector<std::string>{"mlx5_0:1"});
}

/// A node that could not read the step's script would wait for the others.
TEST(Plan, WhetherTasksMeetIsTheSameOnAllNodes) {
    auto facts = two_nodes();
    facts.step.tasks_per_node = {1, 1};
    facts.step.task_count = 2;
    Coordination coordination;
    coordination.agreement = Agreement{.head_node = "n01",
                                       .head = std::nullopt,
                                       .head_why = "",
                                       .layout = Layout::Node,
                                       .alone = "torchrun --standalone"};
    const auto plan = complete_plan(make_plan(facts, {}), facts, {}, coordination);
    EXPECT_FALSE(plan.meets());
    EXPECT_EQ(value(plan.variables, "PET_NNODES"), "(none)");
    facts.program = classify_program(std::vector<std::string>{"torchrun", "--standalone", "x.py"});
    coordination.agreement->alone.clear();
    EXPECT_EQ(value(complete_plan(make_plan(facts, {}), facts, {}, coordination).variables, "PET_NNODES"), "2");
}

TEST(Plan, CompletingWithNothingChangesNothing) {
    const auto facts = two_nodes();
    const auto own = make_plan(facts, {});
    const auto plan = complete_plan(own, facts, {}, {});
    EXPECT_EQ(plan.warnings, own.warnings);
    EXPECT_EQ(plan.notes, own.notes);
    EXPECT_EQ(plan_lines(plan, facts.step, {}), plan_lines(own, facts.step, {}));
}

TEST(Plan, HeldPortsAreThePlans) {
    const auto facts = two_nodes();
    Coordination coordination;
    coordination.held_ports = PortBlock{.first = 24000, .second = 24001, .source = "derived"};
    const auto plan = complete_plan(make_plan(facts, {}), facts, {}, coordination);
    EXPECT_EQ(value(plan.variables, "MASTER_PORT"), "24000");
    EXPECT_NE(value(make_plan(facts, {}).variables, "MASTER_PORT"), "24000");
}

TEST(Plan, RanksCannotBeNumberedWhereNodesDifferAndDoNotAgree) {
    auto facts = two_nodes();
    facts.step.tasks_per_node = {1, 1};
    facts.step.task_count = 2;
    Coordination coordination;
    coordination.unequal_gpus = true;
    EXPECT_EQ(value(complete_plan(make_plan(facts, {}), facts, {}, coordination).variables, ranks_variable), "unequal");
    EXPECT_EQ(value(make_plan(facts, {}).variables, ranks_variable), "(none)");
}

TEST(TaskFacts, CpusAreWhatSlurmGrantsAndTheNodeHas) {
    const Environment environment(std::vector<std::string>{"SLURM_PROCID=5", "SLURM_LOCALID=1", "SLURM_NODEID=1",
                                                           "SLURM_CPUS_ON_NODE=64", "SLURM_CPUS_PER_TASK=4"});
    const auto task = task_facts({.rank = 1, .local_tasks = 4, .task_cpus = 2, .node_cpus = 16}, environment);
    EXPECT_EQ(task.rank, 5U) << "of all components of a heterogeneous step";
    EXPECT_EQ(task.local_rank, 1U);
    EXPECT_EQ(task.node_rank, 1U);
    EXPECT_EQ(task.local_tasks, 4U);
    EXPECT_EQ(task.node_cpus, 16U) << "a node may claim more CPUs than it has";
    EXPECT_EQ(task.cpus_per_task, 4U);
    EXPECT_EQ(task_facts({.rank = 1}, Environment()).rank, 1U);
}

TEST(Plan, TasksThatMeetNobodyGetNcclsVariablesOnly) {
    auto facts = two_nodes();
    facts.step.tasks_per_node = {1, 1};
    facts.step.task_count = 2;
    facts.program = classify_program(std::vector<std::string>{"torchrun", "--standalone", "x.py"});
    facts.environment.set("MASTER_ADDR", "localhost");
    facts.environment.set("RANK", "0");
    const auto plan = make_plan(facts, {});
    EXPECT_EQ(value(plan.variables, "NCCL_IB_HCA"), "=mlx5_0:1,mlx5_1:1");
    for (const auto& variable : plan.variables) {
        const auto& name = variable.name;
        EXPECT_TRUE(name.starts_with("NCCL_") || name.starts_with("NVSHMEM_") || name == "UCX_NET_DEVICES" ||
                    name == "GLOO_SOCKET_IFNAME" || name == "CUDA_DEVICE_ORDER")
            << name;
    }
    EXPECT_TRUE(plan_task(plan, TaskFacts{.rank = 1, .task_count = 2}, {}).empty());
    EXPECT_TRUE(plan.warnings.empty()) << plan.warnings.front();
    EXPECT_EQ(plan.master_address(), "");
    EXPECT_EQ(plan_summary(plan, facts), "node layout, 2 tasks on 2 nodes, each task a world of its own (torchrun "
                                         "--standalone), 2 HCA ports (mlx5_0:1,mlx5_1:1), GID index 3");
}

TEST(Plan, WhatAnOuterStepSetIsRemovedForTasksThatMeetNobody) {
    auto facts = two_nodes();
    facts.environment = Environment(std::vector<std::string>{"PET_NNODES=2", "NODE_RANK=1",
                                                             "RDMA_NCCL_SET=@12.7," + marker_entry("PET_NNODES", "2") +
                                                                 "," + marker_entry("NODE_RANK", "1")});
    facts.step.tasks_per_node = {1, 1};
    facts.program = classify_program(std::vector<std::string>{"torchrun", "--nnodes=1", "x.py"}, facts.environment);
    const auto plan = make_plan(facts, {});
    EXPECT_EQ(find_variable(plan.variables, "PET_NNODES")->action, VariableAction::Unset);
    EXPECT_EQ(find_variable(plan.variables, "NODE_RANK")->action, VariableAction::Unset);
}

TEST(Plan, ProgramsLearnOfTheNetworksOrder) {
    Coordination coordination;
    coordination.agreement = Agreement();
    EXPECT_EQ(
        value(complete_plan(make_plan(two_nodes(), {}), two_nodes(), {}, coordination).variables, node_order_variable),
        "(none)");
    coordination.agreement->order = NodeOrder{1, 4};
    EXPECT_EQ(
        value(complete_plan(make_plan(two_nodes(), {}), two_nodes(), {}, coordination).variables, node_order_variable),
        "topology");
}

TEST(PlanTask, ByTheNetworksOrder) {
    auto plan = make_plan(two_nodes(), {});
    plan.order = NodeOrder{3, 12};
    TaskFacts task;
    task.rank = 5;
    task.local_rank = 1;
    task.node_rank = 1;
    task.task_count = 16;
    plan.layout.layout = Layout::Rank;
    const auto ranks = plan_task(plan, task, {});
    EXPECT_EQ(value(ranks, "RANK"), "13");
    EXPECT_EQ(value(ranks, "LOCAL_RANK"), "1");
    EXPECT_EQ(value(ranks, "NODE_RANK"), "3");
    plan.layout.layout = Layout::Node;
    const auto launchers = plan_task(plan, task, {});
    EXPECT_EQ(value(launchers, "PET_NODE_RANK"), "3");
    EXPECT_EQ(value(launchers, "GROUP_RANK"), "3");
    plan.layout.layout = Layout::Pod;
    EXPECT_EQ(value(plan_task(plan, task, {}), "RANK"), "3");
}

TEST(PlanTask, AStepOfOneTaskKeepsWhatWasExportedForIt) {
    auto facts = two_nodes();
    facts.step.node_count = facts.step.task_count = 1;
    facts.step.tasks_per_node = {1};
    const Environment users(std::vector<std::string>{"NODE_RANK=3", "RANK=3", "WORLD_SIZE=4"});
    const auto plan = make_plan(facts, {});
    EXPECT_EQ(value(plan_task(plan, {}, users), "NODE_RANK"), "3");
    facts.visible_gpus = {};
    const auto variables = plan_task(make_plan(facts, {}), {}, users);
    EXPECT_EQ(value(variables, "RANK"), "3");
    EXPECT_EQ(value(variables, "WORLD_SIZE"), "4");
    EXPECT_EQ(value(variables, "LOCAL_RANK"), "0");
    EXPECT_EQ(value(plan_task(plan, {.task_count = 2}, users), "NODE_RANK"), "0") << "one value for several tasks";
}

TEST(PlanTask, WhereOnlyTheSiteAskedAProgramWithoutGpusKeepsItsCpus) {
    auto facts = two_nodes();
    Settings settings;
    settings.enable = true;
    const auto threads = [&] { return value(plan_task(make_plan(facts, settings), {}, {}), "OMP_NUM_THREADS"); };
    EXPECT_NE(threads(), "(none)") << "it has GPUs";
    facts.visible_gpus = {};
    EXPECT_EQ(threads(), "(none)");
    EXPECT_TRUE(make_plan(facts, settings).cpus_stay);
    settings.given["bind"] = {"cpu", Origin::SiteFile, ""};
    EXPECT_NE(threads(), "(none)") << "the site wants it bound";
    settings.given = {{"enable", {"on", Origin::Option, "--rdma-nccl"}}};
    EXPECT_NE(threads(), "(none)") << "the user asked";
}

/// The step of a loop over the nodes of a job of two, on its second node.
NodeFacts second_of_loop(const std::string& command, std::vector<std::string> variables = {},
                         const ReadScript& read = {}) {
    auto facts = two_nodes();
    facts.step.job_nodes = {"n01", "n02"};
    facts.step.nodes = {"n02"};
    facts.step.node_count = facts.step.task_count = 1;
    facts.step.step_id = 1;
    facts.step.tasks_per_node = {1};
    facts.environment = Environment(variables);
    const auto words = split_words(command);
    facts.program = classify_program(std::vector<std::string>(words.begin(), words.end()), facts.environment, read);
    return facts;
}

TEST(LoneStep, ThatIsToldOfOthersIsHinted) {
    EXPECT_EQ(lone_step_hint(second_of_loop("torchrun --nnodes=2 --node_rank=1 x.py", {"NODE_RANK=1"})),
              "hint: this step has one of the job's 2 nodes; one world on all: srun -N2 --ntasks-per-node=1 ...");
    for (const auto* const command :
         {"torchrun --nnodes=2 --node_rank=1 x.py", "torchrun --nnodes 2 --rdzv-endpoint=n01:29500 x.py",
          "accelerate launch --machine_rank 1 x.py", "rdma-nccl run --nnodes=2 --node-rank=1 x.py"}) {
        EXPECT_TRUE(lone_step_hint(second_of_loop(command))) << command;
    }
    for (const auto* const variable : {"NODE_RANK=1", "RANK=8"}) {
        EXPECT_TRUE(lone_step_hint(second_of_loop("python x.py", {variable}))) << variable;
    }
    for (const auto* const variable : {"PET_NNODES=2", "PET_NODE_RANK=1"}) {
        EXPECT_TRUE(lone_step_hint(second_of_loop("torchrun x.py", {variable}))) << variable;
    }
}

TEST(LoneStep, OfASweepIsNot) {
    const std::vector<std::string> of_the_job = {"MASTER_ADDR=n01", "NNODES=2", "WORLD_SIZE=16", "NODE_RANK=0",
                                                 "RANK=0"};
    for (const auto* const command :
         {"torchrun x.py", "torchrun --standalone x.py", "torchrun --standalone --nnodes=2 x.py",
          "torchrun --nproc_per_node=8 x.py", "torchrun --nnodes=1:2 x.py", "accelerate launch x.py",
          "deepspeed --hostfile h --num_nodes 2 x.py", "ray start --address=n01:6379 --block", "python x.py"}) {
        EXPECT_FALSE(lone_step_hint(second_of_loop(command))) << command;
        EXPECT_FALSE(lone_step_hint(second_of_loop(command, of_the_job))) << command;
    }
    EXPECT_FALSE(lone_step_hint(second_of_loop("torchrun --standalone x.py", {"NODE_RANK=1"})));
}

TEST(LoneStep, BehindAScriptIsJudgedByIt) {
    const auto hint = [](const std::string& text) {
        return lone_step_hint(second_of_loop("./run.sh --nnodes=2 x.py", {}, [&](const std::string&) { return text; }));
    };
    EXPECT_TRUE(hint("exec torchrun \"$@\"\n"));
    EXPECT_TRUE(hint("torchrun --nnodes=2 x.py\ntorchrun --nnodes=2 y.py\n"));
    EXPECT_FALSE(hint("exec torchrun x.py\n"));
    EXPECT_FALSE(hint("exec torchrun --nnodes=$NNODES x.py\n")) << "the plan's";
    EXPECT_FALSE(hint("[ $N -gt 1 ] && exec torchrun --nnodes=2 x.py\ntorchrun --standalone x.py\n"));
}

TEST(LoneStep, OnTheJobsSecondNodeIsHintedWhateverItsId) {
    auto facts = second_of_loop("torchrun --nnodes=2 x.py");
    for (const std::uint32_t id : {0U, 1U, 2U, 4000U}) {
        facts.step.step_id = id;
        EXPECT_TRUE(lone_step_hint(facts)) << id;
    }
    facts.step.nodes = {"n01"};
    EXPECT_FALSE(lone_step_hint(facts)) << "once for the loop";
    facts.step.nodes = {"n02", "n01"};
    facts.step.node_count = 2;
    EXPECT_FALSE(lone_step_hint(facts));
}

TEST(Plan, AnOrderOfTheGpusIsNoLeftOver) {
    auto facts = two_nodes();
    facts.environment = Environment(std::vector<std::string>{
        "CUDA_VISIBLE_DEVICES=2,0,1,3", "RDMA_NCCL_SET=@11.0," + marker_entry("CUDA_VISIBLE_DEVICES", "2,0,1,3")});
    ASSERT_TRUE(facts.environment.ours().contains("CUDA_VISIBLE_DEVICES"));
    EXPECT_EQ(find_variable(make_plan(facts, Settings()).variables, "CUDA_VISIBLE_DEVICES"), nullptr);
}

} // namespace
} // namespace rdma_nccl
