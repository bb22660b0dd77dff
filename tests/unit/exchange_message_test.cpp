// SPDX-License-Identifier: Apache-2.0
#include "lib/exchange_message.h"

#include "tests/unit/exchange_nodes.h"

#include <gtest/gtest.h>
#include <limits>

namespace rdma_nccl {
namespace {

using test::ip;
using namespace std::string_literals;

/// The body of a message, which must be whole and within the limit.
std::string body_of(const std::string& bytes, std::size_t limit) {
    MessageStream stream(limit);
    stream.append(bytes);
    const auto body = stream.next();
    EXPECT_TRUE(body) << body.error().message;
    EXPECT_TRUE(body && *body);
    return body && *body ? **body : "";
}

template<typename Message>
Message through(const Message& message) {
    if constexpr (std::is_constructible_v<NodeMessage, Message>) {
        const auto read = read_node_message(body_of(write_message(NodeMessage(message)), most_from_node));
        EXPECT_TRUE(read) << read.error().message;
        return read ? std::get<Message>(*read) : Message();
    } else {
        const auto read = read_server_message(body_of(write_message(ServerMessage(message)), most_with_hosts));
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
    report.cpus = 96;
    report.memlock_kib = 64;
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
    EXPECT_EQ(a.cpus, b.cpus);
    EXPECT_EQ(a.memlock_kib, b.memlock_kib);
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
                        {{"mlx5_1:1", ByteSource::PortData, most, true, ""},
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
    log.hcas = {"mlx5_1:1"};
    log.causes = {"a cause; do this"};
    evidence.log = log;
    evidence.causes = {"NCCL_IB_DISABLE=1 is set: unset it"};
    evidence.problem = "its counters could not be read";
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

TEST(ExchangeMessage, ResultsSurvive) {
    EXPECT_EQ(through(ReachResult{0, 111, 110, 0}), (ReachResult{0, 111, 110, 0}));
    EXPECT_EQ(through(ReachResult()), ReachResult());
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
            agreement.ranks = RankShare{4, 2, 7};
            agreement.left_out = {"mlx5_3:1", "mlx5_4:2"};
            agreement.strict_fault = "n[02-03]: 7 HCA ports in use";
        }
        const auto again = through(agreement);
        EXPECT_EQ(again.head_node, agreement.head_node);
        EXPECT_EQ(again.head, agreement.head);
        EXPECT_EQ(again.head_why, agreement.head_why);
        EXPECT_EQ(again.block, agreement.block);
        EXPECT_EQ(again.layout, agreement.layout);
        EXPECT_EQ(again.ranks, agreement.ranks);
        EXPECT_EQ(again.left_out, agreement.left_out);
        EXPECT_EQ(again.strict_fault, agreement.strict_fault);
    }
}

TEST(ExchangeMessage, HostsAndDisagreementsSurvive) {
    const HostsTable hosts = {{"n01", ip("10.0.0.1"), 8}, {"n02", ip("fd00::2"), 0}};
    EXPECT_EQ(through(hosts), hosts);
    EXPECT_EQ(through(HostsTable()), HostsTable());
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

TEST(ExchangeMessage, NoTextEndsItsLine) {
    auto report = full_report();
    report.node = "n01\ngpus 99";
    report.fabric = "none\nlayout node\r\x1b[31m\xff";
    report.plan_head_why = "why\nlistener 1";
    report.block->why = "\nblock 1 2 user x";
    report.block->source = "two words";
    report.warnings = {"one\nwarning two"};
    const auto again = through(report);
    EXPECT_EQ(again.node, "n01?gpus?99");
    EXPECT_EQ(again.fabric, "none?layout node??[31m?");
    EXPECT_EQ(again.plan_head_why, "why?listener 1");
    EXPECT_EQ(again.block->why, "?block 1 2 user x");
    EXPECT_EQ(again.block->source, "two?words");
    EXPECT_EQ(again.warnings, (std::vector<std::string>{"one?warning two"}));
    EXPECT_EQ(again.gpus, 8U);
    EXPECT_EQ(again.listener, 65535);
}

TEST(ExchangeMessage, LongNamesAndTextsAreCut) {
    auto report = full_report();
    report.node.assign(300, 'n');
    report.fabric.assign(5000, 'f');
    report.warnings = {std::string(5000, 'w')};
    const auto again = through(report);
    EXPECT_EQ(again.node.substr(0, 250), std::string(250, 'n'));
    EXPECT_LE(again.node.size(), 255U);
    EXPECT_EQ(again.fabric, std::string(400, 'f') + "...");
    EXPECT_EQ(again.warnings.at(0), std::string(400, 'w') + "...");
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
    EXPECT_EQ(through(ReachResult(100, 1)).size(), 64U);
    EXPECT_EQ(through(ReachTest{std::vector<IpAddress>(100, ip("10.0.0.1")), 1}).addresses.size(), 64U);
}

// A message that is written must be one that the other side takes, whatever a node has to say.
TEST(ExchangeMessage, TheLongestOfANodeIsWithinItsLimit) {
    const std::string name(255, 'x');
    const std::string text(500, 'x');
    auto report = full_report();
    report.node = report.block->source = name;
    report.fabric = report.plan_head_why = report.block->why = text;
    report.ports.assign(64, {name, 4294967295U, LinkLayer::Ethernet, 1.0 / 3, 4294967295U, RoceVersion::V2,
                             ip("1111:2222:3333:4444:5555:6666:7777:8888", 128)});
    report.addresses.assign(64, {name, ip("1111:2222:3333:4444:5555:6666:7777:8888", 128), true});
    report.warnings.assign(64, text);
    EXPECT_EQ(through(report).warnings.size(), 64U);
    auto evidence = full_evidence();
    const Bytes most{std::numeric_limits<std::uint64_t>::max(), std::numeric_limits<std::uint64_t>::max(), true};
    evidence.node = evidence.log->version = name;
    evidence.problem = evidence.qps.unknown_why = text;
    evidence.traffic.ports.assign(2000, {name, ByteSource::None, most, true, text});
    evidence.traffic.netdevs.assign(2000, {name, NetdevRole::Ipoib, most, text});
    evidence.qps.own_ports.assign(2000, name);
    evidence.log->hcas.assign(2000, text);
    for (auto* texts : {&evidence.qps.others, &evidence.log->networks, &evidence.log->causes, &evidence.causes}) {
        texts->assign(2000, text);
    }
    EXPECT_EQ(through(evidence).traffic.ports.size(), 128U);
}

TEST(ExchangeMessage, TheLongestOfSrunIsWithinItsLimit) {
    const std::string name(255, 'x');
    const std::string text(500, 'x');
    Agreement agreement;
    agreement.head_node = name;
    agreement.head = ip("1111:2222:3333:4444:5555:6666:7777:8888");
    agreement.head_why = text;
    agreement.block = PortBlock{65535, 65535, name, text, {}};
    agreement.left_out.assign(64, name);
    agreement.strict_fault = text;
    const auto body = body_of(write_message(ServerMessage(agreement)), most_from_server);
    EXPECT_TRUE(read_server_message(body));
    // Slurm's node names have at most 64 characters (MAX_SLURM_NAME).
    const HostsTable hosts(65536, {std::string(64, 'n'), ip("1111:2222:3333:4444:5555:6666:7777:8888"), 4294967295U});
    EXPECT_EQ(through(hosts).size(), 65536U);
}

// --- Reading what a stranger could have written ---

TEST(ExchangeMessage, UnknownKeysArePassedOver) {
    const auto read = read_node_message("report\nnode n01\nnew-key \x01\x02 anything at all\n\nnode-two x\ngpus 3\n");
    ASSERT_TRUE(read) << read.error().message;
    const auto& report = std::get<NodeReport>(*read);
    EXPECT_EQ(report.node, "n01");
    EXPECT_EQ(report.gpus, 3U);
    EXPECT_TRUE(read_server_message("alone\nwhy none\nmore words\n"));
}

TEST(ExchangeMessage, UnknownMessagesAreRefused) {
    for (const char* bad :
         {"", "\n", "reports\n", "Report\n", " report\n", "report \nnode n01\n", "agreed\n", "try\n"}) {
        EXPECT_FALSE(read_node_message(bad)) << bad;
    }
    for (const char* bad : {"", "\n", "report\n", "reached\n", "evidences\n", "agreed x\n"}) {
        EXPECT_FALSE(read_server_message(bad)) << bad;
    }
    const auto strange = read_node_message("\x1b[31m\x80");
    ASSERT_FALSE(strange);
    EXPECT_EQ(strange.error().message, "a message \"?[31m?\" is not known");
}

TEST(ExchangeMessage, MalformedLinesOfANodeAreRefused) {
    for (const char* bad :
         {"node ", "node", "job -1", "job 4294967296", "job 1x", "job", "job ", "job  1", "first-task 1.0",
          "tasks 99999999999999999999", "gpus 65536", "gpus -1", "layout auto", "layout Rank", "layout", "cpus +1",
          "cpus 0x1", "memlock none", "memlock -1", "memlock 18446744073709551616", "hcas 1", "hcas 1 x",
          // ports: HCA PORT LAYER RATE MTU ROCE ADDRESS
          "port mlx5_0", "port mlx5_0 1 2 100 9000 2", "port mlx5_0 1 3 100 9000 2 -", "port mlx5_0 1 2 -1 9000 2 -",
          "port mlx5_0 1 2 nan 9000 2 -", "port mlx5_0 1 2 inf 9000 2 -", "port mlx5_0 1 2 1e10 9000 2 -",
          "port mlx5_0 1 2 1e999 9000 2 -", "port mlx5_0 1 2 100 9000 3 -", "port mlx5_0 1 2 100 9000 2 10.0.0.1",
          "port mlx5_0 1 2 100 9000 2 10.0.0.1/33", "port mlx5_0 1 2 100 9000 2 fd00::1/129",
          "port mlx5_0 1 2 100 9000 2 x/24", "port mlx5_0 -1 2 100 9000 2 -", "port  1 2 100 9000 2 -",
          // addresses: NETDEV ADDRESS fabric|other
          "address eth0 - fabric", "address eth0 10.0.0.1 fabric", "address eth0 10.0.0.1/24", "address eth0",
          "plan-head ", "plan-head n01 given", "plan-head 10.0.0.1", "plan-head 10.0.0.256 given x",
          // blocks: FIRST SECOND SOURCE WHY
          "block 0 1 derived x", "block 1 0 derived x", "block 65536 1 derived x", "block 1 65536 derived x", "block 1",
          "block 1 2", "block - 2 derived x", "listener -1", "listener 65536", "listener x"}) {
        EXPECT_FALSE(read_node_message(std::string("report\n") + bad + "\n")) << bad;
    }
    for (const char* bad : {"errno ", "errno x", "errno 99999999999", "errno 1x", "errno"}) {
        EXPECT_FALSE(read_node_message(std::string("reached\n") + bad)) << bad;
    }
    for (const char* bad :
         {"rdma 1 2", "rdma 1 -2 all", "rdma 1 18446744073709551616 all", "rdma 1 2 some",
          "port mlx5_0:1 5 1 2 all expected ", "port mlx5_0:1 0 1 2", "netdev eth0 3 1 2 all ",
          "traffic nan counted bytes", "traffic -1 counted bytes", "qps known x", "gpus x", "log 1 2.28.9 1 2 3"}) {
        EXPECT_FALSE(read_node_message(std::string("evidence\n") + bad)) << bad;
    }
}

TEST(ExchangeMessage, MalformedLinesOfSrunAreRefused) {
    for (const char* bad : {"port 65536", "port -1", "port", "address", "address n01", "address 10.0.0.1/24"}) {
        EXPECT_FALSE(read_server_message(std::string("try\n") + bad)) << bad;
    }
    for (const char* bad :
         {"head-node", "layout 1", "head", "head n01 why", "block 0 0 x y", "ranks 0 1", "ranks 0 8 7", "ranks 4 4 7",
          "ranks -1 1 2", "ranks 4294967295 2 4294967295", "ranks 1 4294967295 4294967295", "left-out "}) {
        EXPECT_FALSE(read_server_message(std::string("agreed\n") + bad)) << bad;
    }
    for (const char* bad : {"host n01", "host n01 n01 1", "host n01 10.0.0.1", "host n01 10.0.0.1 -1"}) {
        EXPECT_FALSE(read_server_message(std::string("hosts\n") + bad)) << bad;
    }
    EXPECT_TRUE(read_server_message("agreed\nranks 4 3 7"));
    EXPECT_TRUE(read_server_message("agreed\nranks 0 0 0"));
}

TEST(ExchangeMessage, TooManyItemsAreRefused) {
    const auto many = [](std::string_view name, std::string_view line, unsigned count) {
        std::string text = std::string(name) + "\n";
        for (unsigned i = 0; i < count; ++i) {
            text += std::string(line) + "\n";
        }
        return text;
    };
    for (const auto* line : {"port mlx5_0 1 2 100 9000 2 -", "address eth0 10.0.0.1/24 other", "warning x"}) {
        EXPECT_TRUE(read_node_message(many("report", line, 64))) << line;
        EXPECT_FALSE(read_node_message(many("report", line, 65))) << line;
    }
    EXPECT_TRUE(read_node_message(many("reached", "errno 1", 64)));
    EXPECT_FALSE(read_node_message(many("reached", "errno 1", 65)));
    for (const auto* line :
         {"port mlx5_0:1 0 1 2 all expected ", "netdev eth0 0 1 2 all ", "own-port x", "log-hca x"}) {
        EXPECT_TRUE(read_node_message(many("evidence", line, 128))) << line;
        EXPECT_FALSE(read_node_message(many("evidence", line, 129))) << line;
    }
    for (const auto* line : {"other x", "cause x", "log-cause x", "log-network x"}) {
        EXPECT_TRUE(read_node_message(many("evidence", line, 64))) << line;
        EXPECT_FALSE(read_node_message(many("evidence", line, 65))) << line;
    }
    EXPECT_FALSE(read_server_message(many("try", "address 10.0.0.1", 65)));
    EXPECT_FALSE(read_server_message(many("agreed", "left-out mlx5_0:1", 65)));
    EXPECT_TRUE(read_server_message(many("hosts", "host a ::1 1", 65536)));
    EXPECT_FALSE(read_server_message(many("hosts", "host a ::1 1", 65537)));
}

TEST(ExchangeMessage, TooLongNamesAreRefusedAndTextsCut) {
    const std::string longest(255, 'n');
    EXPECT_TRUE(read_node_message("report\nnode " + longest));
    EXPECT_FALSE(read_node_message("report\nnode " + longest + "n"));
    const auto report = read_node_message("report\nfabric " + std::string(1000, 'f'));
    ASSERT_TRUE(report);
    EXPECT_EQ(std::get<NodeReport>(*report).fabric.size(), 403U);
}

TEST(ExchangeMessage, WhatComesInIsPrintable) {
    const auto read = read_node_message("report\nnode n\x1b[1m\nfabric a\tb\x7f\xc3\xa4\nwarning \x07!\n");
    ASSERT_TRUE(read) << read.error().message;
    const auto& report = std::get<NodeReport>(*read);
    EXPECT_EQ(report.node, "n?[1m");
    EXPECT_EQ(report.fabric, "a?b???");
    EXPECT_EQ(report.warnings.at(0), "?!");
    const auto bad = read_node_message("report\njob \x1b\n");
    ASSERT_FALSE(bad);
    EXPECT_EQ(bad.error().message, "the line \"job ?\" of a message \"report\" is malformed");
}

// --- The stream ---

std::string with_length(std::string_view body) {
    std::string bytes(4, '\0');
    bytes[2] = static_cast<char>(body.size() >> 8U);
    bytes[3] = static_cast<char>(body.size() & 0xffU);
    return bytes + std::string(body);
}

TEST(ExchangeStream, ByteByByte) {
    const std::string first = write_message(NodeMessage(full_report()));
    const std::string bytes = first + write_message(NodeMessage(ReachResult{1, 2, 3}));
    MessageStream stream(most_from_node);
    std::vector<std::string> bodies;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        ASSERT_GT(stream.room(), 0U);
        stream.append(bytes.substr(i, 1));
        const auto body = stream.next();
        ASSERT_TRUE(body);
        ASSERT_EQ(body->has_value(), i + 1 == first.size() || i + 1 == bytes.size()) << i;
        if (*body) {
            bodies.push_back(**body);
        }
    }
    ASSERT_EQ(bodies.size(), 2U);
    expect_equal(std::get<NodeReport>(read_node_message(bodies[0]).value()), full_report());
    EXPECT_EQ(std::get<ReachResult>(read_node_message(bodies[1]).value()), (ReachResult{1, 2, 3}));
}

TEST(ExchangeStream, SeveralAtOnce) {
    MessageStream stream(100);
    stream.append(with_length("one") + with_length("") + with_length("three") + "\0\0\0"s);
    EXPECT_EQ(stream.next().value(), "one");
    EXPECT_EQ(stream.next().value(), "");
    EXPECT_EQ(stream.next().value(), "three");
    EXPECT_EQ(stream.next().value(), std::nullopt);
    stream.append("\1x");
    EXPECT_EQ(stream.next().value(), "x");
}

TEST(ExchangeStream, ALengthBeyondTheLimitFailsAtOnce) {
    for (const std::string& length : {"\0\0\0\x65"s, "\0\0\1\0"s, "\xff\xff\xff\xff"s, "\x80\0\0\0"s, "GET "s}) {
        MessageStream stream(100);
        stream.append(length);
        EXPECT_FALSE(stream.next());
    }
    MessageStream stream(100);
    stream.append("\0\0\0\x64"s);
    EXPECT_EQ(stream.next().value(), std::nullopt);
    EXPECT_EQ(stream.room(), 100U);
    stream.append(std::string(100, 'x'));
    EXPECT_EQ(stream.room(), 0U);
    EXPECT_EQ(stream.next().value(), std::string(100, 'x'));
    EXPECT_EQ(stream.room(), 104U);
}

// A stream that was cut gives no message, and what is cut off a body is no crash.
TEST(ExchangeStream, TruncatedAnywhere) {
    const std::string bytes = write_message(NodeMessage(full_report()));
    for (std::size_t length = 0; length < bytes.size(); ++length) {
        MessageStream stream(most_from_node);
        stream.append(bytes.substr(0, length));
        EXPECT_EQ(stream.next().value(), std::nullopt) << length;
        (void)read_node_message(bytes.substr(std::min<std::size_t>(4, length), length));
    }
}

} // namespace
} // namespace rdma_nccl
