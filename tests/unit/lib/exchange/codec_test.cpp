// SPDX-License-Identifier: Apache-2.0
#include "lib/exchange/messages.h"

#include "tests/unit/exchange_nodes.h"

#include <cerrno>
#include <gtest/gtest.h>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

namespace rdma_nccl {
namespace {

using test::ip;

/// Written, within the limit, and read again.
template<typename Message>
Message through(const Message& message) {
    if constexpr (std::is_constructible_v<NodeMessage, Message>) {
        const auto text = write_message(NodeMessage(message));
        EXPECT_LE(text.size(), most_from_node);
        const auto read = read_node_message(text);
        EXPECT_TRUE(read) << read.error().message;
        return read ? std::get<Message>(*read) : Message();
    } else {
        const auto text = write_message(ServerMessage(message));
        EXPECT_LE(text.size(), (std::is_same_v<Message, Hosts>) ? most_with_hosts : most_from_server);
        const auto read = read_server_message(text);
        EXPECT_TRUE(read) << read.error().message;
        return read ? std::get<Message>(*read) : Message();
    }
}

NodeReport full_report() {
    NodeReport report;
    report.node = "n01";
    report.job_id = 4294967295U;
    report.first_task = 12;
    report.tasks = 4;
    report.step_nodes = 3;
    report.gpus = 8;
    report.layout = Layout::Pod;
    report.alone = "torchrun --standalone";
    report.users_head = "n01-ib";
    report.cpus = 96;
    report.memlock_kib = 64;
    report.failover = "1";
    report.hcas = 9;
    report.active_ports = 10;
    report.fabric = "9 HCA ports (mlx5_0, ...), GID index 3";
    report.ports = {{"mlx5_0", 1, LinkLayer::Ethernet, 212.5, 9000, RoceVersion::V2, ip("10.1.0.1", 24)},
                    {"mlx5_1", 2, LinkLayer::InfiniBand, 0, 0, std::nullopt, std::nullopt},
                    {"irdma0", 1, LinkLayer::Unknown, 25, 1500, RoceVersion::V1, ip("fd00::1", 64)}};
    report.addresses = {{"eth0", ip("10.1.0.1", 24), true}, {"eth1", ip("fd00::1", 64), false}};
    report.plan_head = ip("10.0.0.1");
    report.plan_head_is_given = true;
    report.plan_head_why = "MASTER_ADDR was set before";
    report.block = PortBlock{29400, std::nullopt, "slurm", "of SLURM_STEP_RESV_PORTS", {}};
    report.listener = 65535;
    report.warnings = {"locked memory is limited", "", "mlx5_3 is down"};
    report.topology_address = std::string(2 * longest_text, 's') + ".n01"; // below many switches
    report.topology_pattern = std::string(2 * longest_text, 's') + "witch.node";
    report.keeps_order = "RANK was set before";
    report.mpi = "pmix_v4";
    report.fabric_profile = "5 values of oci-h100.conf:3fa9c1d2";
    report.release = own_release();
    return report;
}

void expect_equal(const NodeReport& a, const NodeReport& b) {
    EXPECT_EQ(a.node, b.node);
    EXPECT_EQ(a.job_id, b.job_id);
    EXPECT_EQ(a.first_task, b.first_task);
    EXPECT_EQ(a.tasks, b.tasks);
    EXPECT_EQ(a.step_nodes, b.step_nodes);
    EXPECT_EQ(a.gpus, b.gpus);
    EXPECT_EQ(a.layout, b.layout);
    EXPECT_EQ(a.alone, b.alone);
    EXPECT_EQ(a.users_head, b.users_head);
    EXPECT_EQ(a.cpus, b.cpus);
    EXPECT_EQ(a.memlock_kib, b.memlock_kib);
    EXPECT_EQ(a.failover, b.failover);
    EXPECT_EQ(a.hcas, b.hcas);
    EXPECT_EQ(a.active_ports, b.active_ports);
    EXPECT_EQ(a.fabric, b.fabric);
    EXPECT_EQ(a.ports, b.ports);
    EXPECT_EQ(a.addresses, b.addresses);
    EXPECT_EQ(a.plan_head, b.plan_head);
    EXPECT_EQ(a.plan_head_is_given, b.plan_head_is_given);
    EXPECT_EQ(a.plan_head_why, b.plan_head_why);
    EXPECT_EQ(a.block, b.block);
    EXPECT_EQ(a.listener, b.listener);
    EXPECT_EQ(a.warnings, b.warnings);
    EXPECT_EQ(a.topology_address, b.topology_address);
    EXPECT_EQ(a.topology_pattern, b.topology_pattern);
    EXPECT_EQ(a.keeps_order, b.keeps_order);
    EXPECT_EQ(a.mpi, b.mpi);
    EXPECT_EQ(a.fabric_profile, b.fabric_profile);
}

/// A release before `order` would take its ranks from Slurm beside nodes that have others.
TEST(ExchangeMessage, ANodeThatDoesNotKnowOrdersKeepsSlurms) {
    const auto message = read_node_message(
        format_text(R"({{"report": {{"node": "n01", "rdma_nccl": {{"version": "0.1", "protocol": {}}}}}}})",
                    own_release().protocol));
    ASSERT_TRUE(message) << message.error().message;
    const auto& report = std::get<NodeReport>(*message);
    EXPECT_TRUE(is_understood(report.release));
    EXPECT_EQ(report.failover, "0");
    EXPECT_EQ(report.keeps_order, "its rdma-nccl is too old: upgrade it");
    EXPECT_EQ(report.fabric_profile, no_fabric_profile_values);
}

TEST(ExchangeMessage, ReportsSurvive) {
    expect_equal(through(full_report()), full_report());
    expect_equal(through(NodeReport()), NodeReport());
    auto report = test::fabric_report(0);
    expect_equal(through(report), report);
    report.layout = Layout::Node;
    expect_equal(through(report), report);
    report.plan_head_is_given = true; // a name, that is no address
    expect_equal(through(report), report);
}

NodeEvidence full_evidence() {
    NodeEvidence evidence;
    evidence.node = "n01";
    const Bytes most{std::numeric_limits<std::uint64_t>::max(), 1, true};
    evidence.traffic = {12.25,
                        {{"mlx5_1:1", ByteSource::PortData, most, true, "", LinkDowned{3, 5},
                          GidChange{3, ip("10.1.0.7"), ip("fe80::1"), 5}},
                         {"mlx5_2:1", ByteSource::PortData, most, true, "", LinkDowned{2, 6, "eth1"},
                          GidChange{1, ip("fd00::7"), ip("::")}},
                         {"siw0:1", ByteSource::None, {}, false, "no counters/ at all"}},
                        {{"eth0", NetdevRole::Plain, {1, 2, false}, "its counters were reset"},
                         {"ib0", NetdevRole::Ipoib, {3, 4, false}, ""}},
                        {5, 6, false},
                        most,
                        true,
                        true};
    evidence.qps = {true, "", 17, {"mlx5_1:1", "mlx5_2:1"}, {"job 12 step 0", "the kernel's nvme_rdma"}};
    evidence.exclusive = true;
    evidence.gpus = 8;
    evidence.rank_per_gpu = true;
    evidence.may_use_nvlink = true;
    evidence.gpu_direct_possible = true;
    LogEvidence log;
    log.ranks = 8;
    log.version = "2.28.9";
    log.networks = {"IB", "AWS Libfabric"};
    log.rdma = 1;
    log.rdma_gdr = 2;
    log.sockets = 3;
    log.nvlink = 4;
    log.other = 5;
    log.local = 6;
    log.nodes = 2;
    log.info = true;
    log.failed = true;
    log.unread = 7;
    log.hcas = {"mlx5_1:1"};
    log.causes = {"a cause; do this"};
    evidence.log = log;
    evidence.causes = {"NCCL_IB_DISABLE=1 is set: unset it"};
    evidence.problem = "its counters could not be read";
    evidence.communicators = {{0xffff'ffff'ffff'ffffU, "tp", 8, 4, 1, 2, 3, {4, 5, 6}, {0, 7, 8}},
                              {0, "", 0, 1, 9, 0, 0, {}, {-1, -1, 0}}};
    return evidence;
}

TEST(ExchangeMessage, EvidenceSurvives) {
    EXPECT_EQ(through(NodeEvidence()), NodeEvidence());
    EXPECT_EQ(through(full_evidence()), full_evidence());
    auto other = full_evidence();
    other.qps = {false, "the kernel has no RDMA netlink", 0, {}, {}};
    other.gpu_direct_possible = false;
    other.traffic.estimate = other.traffic.has_source = other.exclusive = false;
    other.log.reset();
    EXPECT_EQ(through(other), other);
}

TEST(ExchangeMessage, NothingIsKnownOfLinksAndGidsOfANodeThatDoesNotReadThem) {
    const auto read =
        read_evidence(R"({"evidence": {"traffic": {"ports": [{"port": "mlx5_1:1", "expected": true}]}}})");
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(read->traffic.ports.at(0).link_downed, std::nullopt);
    EXPECT_EQ(read->traffic.ports.at(0).gid_change, std::nullopt);
    const auto by_link =
        read_evidence(R"({"evidence": {"traffic": {"ports": [{"link_downed": {"before": 3, "after": 5}}]}}})");
    ASSERT_TRUE(by_link) << by_link.error().message;
    EXPECT_EQ(by_link->traffic.ports.at(0).link_downed, (LinkDowned{3, 5})) << "of a node that reads no carrier";
}

TEST(ExchangeMessage, ResultsSurvive) {
    EXPECT_EQ(through(Reached{{0, 111, 110, 0}}).errors, (ReachResult{0, 111, 110, 0}));
    EXPECT_EQ(through(Reached()).errors, ReachResult());
}

TEST(ExchangeMessage, AlarmsSurvive) {
    EXPECT_EQ(through(NodeAlarm{"mlx5_0 port 1 is down"}).text, "mlx5_0 port 1 is down");
}

TEST(ExchangeMessage, EvidenceAloneIsALine) {
    auto evidence = full_evidence();
    const auto text = write_evidence(evidence);
    EXPECT_EQ(text.find('\n'), std::string::npos);
    EXPECT_EQ(read_evidence(text).value(), evidence);
    EXPECT_EQ(read_evidence(write_evidence({})).value(), NodeEvidence());
    EXPECT_EQ(write_evidence(evidence), write_message(NodeMessage(evidence)));
    evidence.problem = "two\nlines";
    EXPECT_EQ(write_evidence(evidence).find('\n'), std::string::npos);
    for (const auto& bad : {std::string(), std::string("{}"), text.substr(1), text.substr(0, text.size() - 1),
                            text + text, write_message(NodeMessage(NodeAlarm{"x"})), std::string("evidence\n")}) {
        EXPECT_FALSE(read_evidence(bad)) << bad;
    }
}

TEST(ExchangeMessage, TestsSurvive) {
    const ReachTest test{{ip("10.0.0.1"), ip("fd00::1")}, 29400};
    const auto again = through(test);
    EXPECT_EQ(again.addresses, test.addresses);
    EXPECT_EQ(again.port, test.port);
}

TEST(ExchangeMessage, AgreementsSurvive) {
    for (const bool full : {true, false}) {
        Agreement agreement;
        agreement.head_node = "n01";
        agreement.layout = Layout::Node;
        if (full) {
            agreement.head = ip("fd00::1");
            agreement.head_why = "on the fabric (eth0)";
            agreement.block = PortBlock{65535, 1, "derived", "of job 7, 1 blocks further", {}};
            agreement.alone = "torchrun --standalone";
            agreement.ranks = RankShare{4, 2, 7};
            agreement.left_out = {"mlx5_3:1", "mlx5_4:2"};
            agreement.strict_fault = "n[02-03]: 7 HCA ports in use";
            agreement.order = NodeOrder{3, 24};
            agreement.fabric_profile = true;
        }
        const auto again = through(agreement);
        EXPECT_EQ(again.head_node, agreement.head_node);
        EXPECT_EQ(again.head, agreement.head);
        EXPECT_EQ(again.head_why, agreement.head_why);
        EXPECT_EQ(again.block, agreement.block);
        EXPECT_EQ(again.layout, agreement.layout);
        EXPECT_EQ(again.alone, agreement.alone);
        EXPECT_EQ(again.ranks, agreement.ranks);
        EXPECT_EQ(again.left_out, agreement.left_out);
        EXPECT_EQ(again.strict_fault, agreement.strict_fault);
        EXPECT_EQ(again.order, agreement.order);
        EXPECT_EQ(again.fabric_profile, full);
    }
}

TEST(ExchangeMessage, HostsAndDisagreementsSurvive) {
    const HostsTable hosts = {{"n01", ip("10.0.0.1"), 8}, {"n02", ip("fd00::2"), 0}};
    EXPECT_EQ(through(Hosts{hosts}).table, hosts);
    EXPECT_EQ(through(Hosts()).table, HostsTable());
    for (const bool unequal : {true, false}) {
        const auto head = unequal ? std::nullopt : std::optional(ip("10.0.0.1"));
        const auto again = through(Disagreement{"n02 was lost", unequal, unequal ? "" : "n01", head});
        EXPECT_EQ(again.why, "n02 was lost");
        EXPECT_EQ(again.unequal_gpus, unequal);
        EXPECT_EQ(again.head_node, unequal ? "" : "n01");
        EXPECT_EQ(again.head, head);
    }
}

// --- Writing what has no place in a message ---

TEST(ExchangeMessage, NoTextEndsItsMessage) {
    auto report = full_report();
    report.node = "n01\",\"gpus\":99";
    report.fabric = "none\n\r\x1b[31m\xff}}";
    report.block->why = "\\\",\"first\":1";
    report.block->source = "two words";
    report.warnings = {"one\",\"two"};
    const auto again = through(report);
    EXPECT_EQ(again.node, report.node);
    EXPECT_EQ(again.fabric, "none???[31m?}}");
    EXPECT_EQ(again.block, report.block);
    EXPECT_EQ(again.warnings, report.warnings);
    EXPECT_EQ(again.gpus, 8U);
}

TEST(ExchangeMessage, LongNamesAndTextsAreCut) {
    auto report = full_report();
    report.node.assign(300, 'n');
    report.fabric.assign(5000, 'f');
    report.warnings = {std::string(5000, 'w')};
    const auto again = through(report);
    EXPECT_EQ(again.node, std::string(252, 'n') + "...");
    EXPECT_EQ(again.fabric, std::string(397, 'f') + "...");
    EXPECT_EQ(again.warnings.at(0), std::string(397, 'w') + "...");
}

TEST(ExchangeMessage, OfTooManyItemsTheFirstAreSent) {
    auto report = full_report();
    report.ports.assign(100, report.ports.front());
    report.addresses.assign(100, report.addresses.front());
    report.warnings.assign(100, "one of many");
    const auto again = through(report);
    EXPECT_EQ(again.ports.size(), 64U);
    EXPECT_EQ(again.addresses.size(), 64U);
    EXPECT_EQ(again.warnings.size(), 64U);
    EXPECT_EQ(through(Reached{ReachResult(100, 1)}).errors.size(), 64U);
    EXPECT_EQ(through(ReachTest{std::vector<IpAddress>(100, ip("10.0.0.1")), 1}).addresses.size(), 64U);
}

// A message that is written must be one that the other side takes, whatever a node has to say.
TEST(ExchangeMessage, TheLongestOfANodeIsWithinItsLimit) {
    const std::string name(255, '"'); // two bytes each on the wire
    const std::string text(500, '"');
    auto report = full_report();
    report.node = report.block->source = name;
    report.fabric = report.plan_head_why = report.block->why = report.alone = report.users_head = text;
    report.ports.assign(64, {name, 4294967295U, LinkLayer::Ethernet, 1.0 / 3, 4294967295U, RoceVersion::V2,
                             ip("1111:2222:3333:4444:5555:6666:7777:8888", 128)});
    report.addresses.assign(64, {name, ip("1111:2222:3333:4444:5555:6666:7777:8888", 128), true});
    report.warnings.assign(64, text);
    EXPECT_EQ(through(report).warnings.size(), 64U);
    auto evidence = full_evidence();
    const Bytes most{std::numeric_limits<std::uint64_t>::max(), std::numeric_limits<std::uint64_t>::max(), true};
    evidence.node = evidence.log->version = name;
    evidence.problem = evidence.qps.unknown_why = text;
    const auto gid = ip("1111:2222:3333:4444:5555:6666:7777:8888");
    evidence.traffic.ports.assign(2000, {name, ByteSource::None, most, true, text, LinkDowned{most.tx, most.rx, name},
                                         GidChange{4294967295U, gid, gid, 4294967295U}});
    evidence.traffic.netdevs.assign(2000, {name, NetdevRole::Ipoib, most, text});
    evidence.qps.own_ports.assign(2000, name);
    evidence.log->hcas.assign(2000, text);
    for (auto* texts : {&evidence.qps.others, &evidence.log->networks, &evidence.log->causes, &evidence.causes}) {
        texts->assign(2000, text);
    }
    constexpr auto number = std::numeric_limits<std::uint64_t>::max();
    evidence.communicators.assign(2000, {number,
                                         std::string(48, '"'),
                                         4294967295U,
                                         4294967295U,
                                         number,
                                         number,
                                         number,
                                         {number, number, number},
                                         {-1, -1, number}});
    EXPECT_EQ(through(evidence).traffic.ports.size(), 128U);
    EXPECT_EQ(through(evidence).communicators.size(), profile::most_reported);
}

TEST(ExchangeMessage, TheLongestOfSrunIsWithinItsLimit) {
    const std::string name(255, '"'); // two bytes each on the wire
    const std::string text(500, '"');
    Agreement agreement;
    agreement.head_node = name;
    agreement.head = ip("1111:2222:3333:4444:5555:6666:7777:8888");
    agreement.head_why = agreement.alone = text;
    agreement.block = PortBlock{65535, 65535, name, text, {}};
    agreement.left_out.assign(64, name);
    agreement.strict_fault = text;
    EXPECT_EQ(through(agreement).left_out.size(), 64U);
    EXPECT_EQ(through(Disagreement{text, true, name, agreement.head}).why.size(), 400U);
    // Slurm's node names have at most 64 characters (MAX_SLURM_NAME).
    const HostsTable hosts(65536, {std::string(64, 'n'), ip("1111:2222:3333:4444:5555:6666:7777:8888"), 4294967295U});
    EXPECT_EQ(through(Hosts{hosts}).table.size(), 65536U);
}

// --- Reading what a stranger could have written ---

/// A message of one name, and its values.
std::string message(std::string_view name, std::string_view values) {
    return "{\"" + std::string(name) + "\":" + std::string(values) + "}";
}

TEST(ExchangeMessage, UnknownFieldsArePassedOver) {
    const auto read = read_node_message(message("report", R"({"node":"n01","new":[{"x":null}],"gpus":3})"));
    ASSERT_TRUE(read) << read.error().message;
    const auto& report = std::get<NodeReport>(*read);
    EXPECT_EQ(report.node, "n01");
    EXPECT_EQ(report.gpus, 3U);
    EXPECT_TRUE(read_server_message(message("alone", R"({"why":"none","more":"words"})")));
}

TEST(ExchangeMessage, OfAReportThatIsNotUnderstoodTheFirstFieldsAreRead) {
    const auto read = read_node_message(message(
        "report",
        R"({"node":"n01","job":7,"first_task":2,"tasks":4,"step_nodes":3,"gpus":8,"layout":"new","ports":{"mlx5_0":1},)"
        R"("rdma_nccl":{"version":"9.8.7","protocol":99,"built":"today"}})"));
    ASSERT_TRUE(read) << read.error().message;
    auto wanted = NodeReport();
    wanted.node = "n01";
    wanted.job_id = 7;
    wanted.first_task = 2;
    wanted.tasks = 4;
    wanted.step_nodes = 3;
    wanted.gpus = 8;
    const auto& report = std::get<NodeReport>(*read);
    expect_equal(report, wanted);
    EXPECT_EQ(report.release, (Release{"9.8.7", 99}));
    // The same fields of a version that is understood are malformed.
    EXPECT_FALSE(read_node_message(message("report", R"({"node":"n01","layout":"new","rdma_nccl":{"version":"9"}})")));
}

TEST(ExchangeMessage, VersionsThatDidNotTellTheirsAreUnderstood) {
    const auto read = read_node_message(message("report", R"({"node":"n01","hcas":3})"));
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(std::get<NodeReport>(*read).release, (Release{"0.1", 2}));
    EXPECT_EQ(std::get<NodeReport>(*read).hcas, 3U);
    EXPECT_EQ(through(full_report()).release, full_report().release);
}

TEST(ExchangeMessage, UnknownMessagesAreToldFromMalformedOnes) {
    EXPECT_EQ(read_node_message(message("later", "{}")).error().os_error, ENOMSG);
    EXPECT_EQ(read_server_message(message("later", "{}")).error().os_error, ENOMSG);
    EXPECT_NE(read_node_message(message("report", R"({"node":5})")).error().os_error, ENOMSG);
}

TEST(ExchangeMessage, UnknownMessagesAreRefused) {
    for (const auto* const name : {"", "reports", "Report", " report", "agreed", "try", "hosts", "alone"}) {
        EXPECT_FALSE(read_node_message(message(name, "{}"))) << name;
    }
    for (const auto* const name : {"", "report", "reached", "evidence", "alarm", "agreed x"}) {
        EXPECT_FALSE(read_server_message(message(name, "{}"))) << name;
    }
    EXPECT_EQ(read_node_message("report\nnode n01\n").error().message, "not a message of rdma-nccl");
    EXPECT_EQ(read_node_message(message("\\u001b[31m", "{}")).error().message,
              "a message \"?[31m\" is not known; is rdma-nccl the same on all nodes?");
}

/// That `values` are refused, and that they are not without what is wrong.
template<typename Read>
void expect_refused(const Read& read, std::string_view name, const std::vector<std::string>& bad) {
    EXPECT_TRUE(read(message(name, "{}")));
    for (const auto& field : bad) {
        EXPECT_FALSE(read(message(name, "{" + field + "}"))) << name << " " << field;
    }
}

TEST(ExchangeMessage, MalformedFieldsOfANodeAreRefused) {
    const std::string port = R"("hca":"mlx5_0","port":1,"link_layer":2,"rate_gbps":100,"mtu":9000,"roce":2)";
    ASSERT_TRUE(read_node_message(message("report", "{\"ports\":[{" + port + "}]}")));
    std::vector<std::string> bad = {R"("node":1)",
                                    R"("node":null)",
                                    R"("job":-1)",
                                    R"("job":4294967296)",
                                    R"("job":"1")",
                                    R"("first_task":1.5)",
                                    R"("tasks":99999999999999999999)",
                                    R"("gpus":65536)",
                                    R"("gpus":-1)",
                                    R"("layout":0)",
                                    R"("layout":4)",
                                    R"("layout":"node")",
                                    R"("cpus":true)",
                                    R"("memlock_kib":-1)",
                                    R"("memlock_kib":18446744073709551616)",
                                    R"("memlock_kib":null)",
                                    R"("hcas":[])",
                                    R"("ports":{})",
                                    R"("ports":["mlx5_0"])",
                                    R"("addresses":["10.0.0.1"])",
                                    R"("plan_head":"n01")",
                                    R"("plan_head":"10.0.0.256")",
                                    R"("plan_head_is_given":1)",
                                    R"("listener":65536)",
                                    R"("listener":-1)",
                                    R"("block":{"first":0,"second":1})",
                                    R"("block":{"first":1,"second":0})",
                                    R"("block":{})",
                                    R"("block":{"first":65536})",
                                    R"("block":{"first":1,"second":65536})",
                                    R"("block":[29400])",
                                    R"("warnings":"one")",
                                    R"("warnings":[1])"};
    for (const auto* const field :
         {R"("link_layer":3)", R"("rate_gbps":-1)", R"("rate_gbps":1e10)", R"("rate_gbps":1e999)",
          R"("rate_gbps":"nan")", R"("roce":0)", R"("roce":3)", R"("port":-1)", R"("address":"10.0.0.1/24")",
          R"("address":{"address":"10.0.0.1","prefix":33})", R"("address":{"address":"fd00::1","prefix":129})",
          R"("address":{"address":"x","prefix":24})"}) {
        bad.push_back("\"ports\":[{" + port + "},{" + field + "}]");
    }
    expect_refused(read_node_message, "report", bad);
    expect_refused(read_node_message, "reached",
                   {R"("errors":0)", R"("errors":["0"])", R"("errors":[99999999999])", R"("errors":[1.5])"});
    expect_refused(read_node_message, "alarm", {R"("text":1)", R"("text":null)"});
    expect_refused(read_node_message, "evidence",
                   {R"("traffic":[])", R"("traffic":{"seconds":-1})", R"("traffic":{"seconds":1e9})",
                    R"("traffic":{"rdma":{"tx":-1}})", R"("traffic":{"rdma":{"tx":18446744073709551616}})",
                    R"("traffic":{"ports":[{"source":5}]})", R"("traffic":{"netdevs":[{"role":3}]})",
                    R"("traffic":{"ports":[{"bytes":{"at_least":1}}]})", R"("traffic":{"ports":[{"link_downed":2}]})",
                    R"("traffic":{"ports":[{"link_downed":{"after":-1}}]})",
                    R"("traffic":{"ports":[{"link_downed":{"netdev":1}}]})",
                    R"("traffic":{"ports":[{"gid_change":{"after":"none"}}]})",
                    R"("traffic":{"ports":[{"gid_change":{"moved_to":-1}}]})", R"("qps":{"known":"yes"})",
                    R"("gpus":"8")", R"("log":{"ranks":-1})", R"("log":[])", R"("causes":{})", R"("exclusive":null)"});
}

TEST(ExchangeMessage, MalformedFieldsOfSrunAreRefused) {
    expect_refused(read_server_message, "try",
                   {R"("port":65536)", R"("port":-1)", R"("addresses":"10.0.0.1")", R"("addresses":["n01"])",
                    R"("addresses":["10.0.0.1/24"])", R"("addresses":[1])"});
    expect_refused(read_server_message, "agreed",
                   {R"("head_node":1)", R"("layout":0)", R"("layout":4)", R"("head":"n01")", R"("block":{"first":0})",
                    R"("ranks":[0,1,2])", R"("ranks":{"first":0,"count":8,"total":7})",
                    R"("ranks":{"first":4,"count":4,"total":7})", R"("ranks":{"first":-1,"count":1,"total":2})",
                    R"("ranks":{"first":4294967295,"count":2,"total":4294967295})",
                    R"("ranks":{"first":1,"count":4294967295,"total":4294967295})", R"("left_out":[1])"});
    expect_refused(read_server_message, "hosts",
                   {R"("table":{})", R"("table":["n01"])", R"("table":[{"name":"n01","address":"n01"}])",
                    R"("table":[{"name":"n01","address":"10.0.0.1","slots":-1}])"});
    expect_refused(read_server_message, "alone", {R"("why":[])", R"("unequal_gpus":"no")", R"("head":"n01")"});
    EXPECT_TRUE(read_server_message(message("agreed", R"({"ranks":{"first":4,"count":3,"total":7}})")));
    EXPECT_TRUE(read_server_message(message("agreed", R"({"ranks":{"first":0,"count":0,"total":0}})")));
}

TEST(ExchangeMessage, TooManyItemsAreRefused) {
    const auto list = [](std::string_view item, unsigned count) {
        std::string text;
        for (unsigned i = 0; i < count; ++i) {
            text += (i == 0 ? "" : ",") + std::string(item);
        }
        return "[" + text + "]";
    };
    struct Limit {
        std::string before, item;
        unsigned most;
        std::string after = "}}";
    };
    for (const auto& [before, item, most, after] :
         {Limit{R"({"report":{"ports":)", "{}", 64}, Limit{R"({"report":{"addresses":)", "{}", 64},
          Limit{R"({"report":{"warnings":)", "\"x\"", 64}, Limit{R"({"reached":{"errors":)", "1", 64},
          Limit{R"({"evidence":{"traffic":{"ports":)", "{}", 128, "}}}"},
          Limit{R"({"evidence":{"traffic":{"netdevs":)", "{}", 128, "}}}"},
          Limit{R"({"evidence":{"qps":{"own_ports":)", "\"x\"", 128, "}}}"},
          Limit{R"({"evidence":{"qps":{"others":)", "\"x\"", 64, "}}}"},
          Limit{R"({"evidence":{"log":{"hcas":)", "\"x\"", 128, "}}}"},
          Limit{R"({"evidence":{"log":{"causes":)", "\"x\"", 64, "}}}"},
          Limit{R"({"evidence":{"log":{"networks":)", "\"x\"", 64, "}}}"},
          Limit{R"({"evidence":{"causes":)", "\"x\"", 64}}) {
        EXPECT_TRUE(read_node_message(before + list(item, most) + after)) << before;
        EXPECT_FALSE(read_node_message(before + list(item, most + 1) + after)) << before;
    }
    for (const auto& [before, item, most, after] :
         {Limit{R"({"try":{"addresses":)", "\"10.0.0.1\"", 64}, Limit{R"({"agreed":{"left_out":)", "\"mlx5_0:1\"", 64},
          Limit{R"({"hosts":{"table":)", "{}", 65536}}) {
        EXPECT_TRUE(read_server_message(before + list(item, most) + after)) << before;
        EXPECT_FALSE(read_server_message(before + list(item, most + 1) + after)) << before;
    }
}

TEST(ExchangeMessage, TooLongTextsAreRefused) {
    const auto field = [](const std::string& name, std::size_t size) {
        return message("report", "{\"" + name + "\":\"" + std::string(size, 'x') + "\"}");
    };
    EXPECT_TRUE(read_node_message(field("node", 255)));
    EXPECT_FALSE(read_node_message(field("node", 256)));
    EXPECT_TRUE(read_node_message(field("fabric", 400)));
    EXPECT_FALSE(read_node_message(field("fabric", 401)));
}

TEST(ExchangeMessage, WhatComesInIsPrintable) {
    const auto read = read_node_message(message(
        "report", "{\"node\":\"n\\u001b[1m\",\"fabric\":\"a\\tb\\u007f\xc3\xa4\",\"warnings\":[\"\\u0007!\"]}"));
    ASSERT_TRUE(read) << read.error().message;
    const auto& report = std::get<NodeReport>(*read);
    EXPECT_EQ(report.node, "n?[1m");
    EXPECT_EQ(report.fabric, "a?b???");
    EXPECT_EQ(report.warnings.at(0), "?!");
    EXPECT_EQ(read_node_message(message("report", R"({"job":"x"})")).error().message,
              "a message \"report\" is malformed");
}

TEST(ExchangeMessage, TruncatedAnywhereItIsNone) {
    const auto text = write_message(NodeMessage(full_report()));
    for (std::size_t length = 0; length < text.size(); ++length) {
        EXPECT_FALSE(read_node_message(text.substr(0, length))) << length;
    }
}

} // namespace
} // namespace rdma_nccl
