// SPDX-License-Identifier: Apache-2.0
#include "lib/base/lists.h"
#include "lib/base/unique_fd.h"
#include "lib/nccl_ras/client.h"
#include "lib/net/tcp.h"
#include "tests/unit/ras_reports.h"

#include <algorithm>
#include <array>
#include <gtest/gtest.h>
#include <map>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <utility>
#include <vector>

namespace rdma_nccl::ras {
namespace {

using namespace std::chrono_literals;

/// What a version of NCCL answers. A command that is not there is unknown to it.
using Answers = std::map<std::string, std::string>;

const std::string status = "VERBOSE STATUS";

Answers nccl_2_24(std::string report) {
    return {{"CLIENT PROTOCOL 2", "SERVER PROTOCOL 2\n"}, {"TIMEOUT 5", "OK\n"}, {status, std::move(report)}};
}
Answers nccl_2_28(std::string report) {
    auto answers = nccl_2_24(std::move(report));
    answers["SET FORMAT json"] = "OK\n";
    return answers;
}
Answers nccl_2_29(std::string report) {
    auto answers = nccl_2_28(std::move(report));
    answers["MONITOR no-such-group"] = "ERROR: Invalid event group 'no-such-group'\n";
    return answers;
}

/// Plays RAS: one connection for each of `conversations`, in order. Ends a connection after a status, as RAS does.
class FakeRas {
public:
    explicit FakeRas(std::vector<Answers> conversations)
        : listener_(listen_on(0, PortSharing::Alone).value()), thread_([this, all = std::move(conversations)] {
              for (const auto& answers : all) {
                  play(answers);
              }
          }) {}
    ~FakeRas() {
        stop_listening(listener_.get()); // for a connection that did not come
        thread_.join();
    }
    FakeRas(const FakeRas&) = delete;
    FakeRas& operator=(const FakeRas&) = delete;

    [[nodiscard]] Endpoint endpoint(const char* host = "localhost") const {
        return parse_endpoint(format_text("{}:{}", host, local_port(listener_.get()))).value();
    }
    /// The commands that it got, to be read after the client's end.
    [[nodiscard]] const std::vector<std::string>& commands() {
        if (thread_.joinable()) {
            thread_.join();
            thread_ = std::thread([] {});
        }
        return commands_;
    }

private:
    void play(const Answers& answers) {
        pollfd waited{listener_.get(), POLLIN, 0};
        ::poll(&waited, 1, -1);
        const UniqueFd peer(::accept(listener_.get(), nullptr, nullptr));
        std::string received;
        std::array<char, 1024> part{};
        ssize_t count = 0;
        while ((count = ::read(peer.get(), part.data(), part.size())) > 0) {
            received.append(part.data(), static_cast<std::size_t>(count));
            const auto end = received.find('\n');
            if (end == std::string::npos) {
                continue;
            }
            const auto command = std::exchange(received, {}).substr(0, end);
            commands_.push_back(command);
            const auto answer = answers.find(command);
            (void)write_all(peer.get(),
                            answer == answers.end() ? "ERROR: Unknown command " + command + "\n" : answer->second);
            if (command == status) {
                return;
            }
        }
    }

    UniqueFd listener_;
    std::vector<std::string> commands_;
    std::thread thread_;
};

std::string report_with(std::uint64_t of_rank_1) {
    return report_json(
        {communicator_json("0xab", {{.rank = 0, .all_reduce = 5}, {.rank = 1, .all_reduce = of_rank_1}})});
}

Asking asking(Use use) {
    return {.use = use, .interval = 1ms, .limit = 20s, .cancel = -1};
}

TEST(RasClient, ComparesTwoReports) {
    FakeRas server({nccl_2_29(report_with(4)), nccl_2_29(report_with(4))});
    const auto verdict = ask_twice(server.endpoint(), asking(Use::OfLiveJob));
    ASSERT_TRUE(verdict.has_value()) << verdict.error().message;
    ASSERT_EQ(verdict->lags.size(), 1U);
    EXPECT_EQ(verdict->lags[0].members.at(0).rank, 1U);
    const std::vector<std::string> one{"CLIENT PROTOCOL 2", "SET FORMAT json", "MONITOR no-such-group", "TIMEOUT 5",
                                       status};
    auto both = one;
    both.insert(both.end(), one.begin(), one.end());
    EXPECT_EQ(server.commands(), both);
}

TEST(RasClient, ComparesWhatChangesInBetween) {
    FakeRas server({nccl_2_29(report_with(4)), nccl_2_29(report_with(5))});
    EXPECT_EQ(ask_twice(server.endpoint(), asking(Use::OfLiveJob)).value().state, State::Moving);
}

TEST(RasClient, KnowsThatRanksEnd) {
    FakeRas server({nccl_2_29(report_with(4)), nccl_2_29("{\"nccl_ver")});
    const auto verdict = ask_twice(server.endpoint(), asking(Use::OfLiveJob));
    ASSERT_TRUE(verdict.has_value());
    EXPECT_EQ(verdict->state, State::Gone);
    EXPECT_TRUE(verdict->moved);
}

TEST(RasClient, AsksAnIpv6Address) {
    if (!is_local(IpAddress::parse("::1").value())) {
        GTEST_SKIP() << "this machine has no ::1";
    }
    FakeRas server({nccl_2_29(report_with(4))});
    const auto report = ask(server.endpoint("[::1]"), asking(Use::OfLostJob));
    EXPECT_TRUE(report.has_value()) << report.error().message;
}

TEST(RasClient, AsksOlderNcclOnlyForALostJob) {
    const std::string text = "NCCL version 2.24.3 compiled with CUDA 12.8\nWarnings\n";
    for (const auto& answers : {nccl_2_24(text), nccl_2_28(report_with(4))}) {
        FakeRas server({answers, answers});
        const auto report = ask(server.endpoint(), asking(Use::OfLiveJob));
        ASSERT_FALSE(report.has_value());
        EXPECT_NE(report.error().message.find("older than 2.29.2"), std::string::npos) << report.error().message;
        EXPECT_TRUE(ask(server.endpoint(), asking(Use::OfLostJob)).has_value());
        EXPECT_EQ(std::ranges::count(server.commands(), status), 1);
    }
}

TEST(RasClient, SaysThatOlderNcclMayHaveCrashed) {
    const std::string hint = "NCCL before 2.29.2 may crash the rank that is asked";
    FakeRas server({nccl_2_24("NCCL version 2.24.3 compiled"), nccl_2_28(R"({"nccl_ver)"), nccl_2_29(R"({"nccl_ver)")});
    for (const bool may_crash : {true, true, false}) {
        const auto report = ask(server.endpoint(), asking(Use::OfLostJob));
        ASSERT_FALSE(report.has_value());
        EXPECT_EQ(report.error().message.find(hint) != std::string::npos, may_crash) << report.error().message;
    }
    FakeRas later({nccl_2_28(report_with(4)), nccl_2_28(R"({"nccl_ver)")});
    const auto verdict = ask_twice(later.endpoint(), asking(Use::OfLostJob));
    ASSERT_FALSE(verdict.has_value()) << "the job need not be gone";
    EXPECT_NE(verdict.error().message.find(hint), std::string::npos) << verdict.error().message;
}

TEST(RasClient, SaysWhatIsNotRas) {
    FakeRas server(
        {{{"CLIENT PROTOCOL 2", "HTTP/1.1 400 Bad Request\n"}}, {{"CLIENT PROTOCOL 2", std::string(2000, 'x')}}});
    for (int i = 0; i < 2; ++i) {
        const auto report = ask(server.endpoint(), asking(Use::OfLostJob));
        ASSERT_FALSE(report.has_value());
        EXPECT_NE(report.error().message.find("not NCCL's RAS"), std::string::npos) << report.error().message;
    }
}

TEST(RasClient, EndsAtItsLimitAndWhenItIsCancelled) {
    FakeRas server({{{"CLIENT PROTOCOL 2", ""}}, {{"CLIENT PROTOCOL 2", ""}}});
    auto short_asking = asking(Use::OfLostJob);
    short_asking.limit = 50ms;
    EXPECT_EQ(ask(server.endpoint(), short_asking).error().os_error, ETIMEDOUT);
    Pipe pipe = open_pipe().value();
    ASSERT_TRUE(write_all(pipe.writer.get(), "x"));
    auto cancelled = asking(Use::OfLostJob);
    cancelled.cancel = pipe.reader.get();
    EXPECT_EQ(ask(server.endpoint(), cancelled).error().os_error, ECANCELED);
}

TEST(RasClient, AsksAnotherRankWhereOneIsStopped) {
    FakeRas server({{{"CLIENT PROTOCOL 2", ""}}, nccl_2_29(report_with(4))});
    const auto report = ask(server.endpoint(), asking(Use::OfLiveJob));
    EXPECT_TRUE(report.has_value()) << report.error().message;
}

TEST(RasClient, IsCancelledBetweenTheReports) {
    FakeRas server({nccl_2_29(report_with(4))});
    Pipe pipe = open_pipe().value();
    auto cancelled = asking(Use::OfLiveJob);
    cancelled.interval = 1h;
    cancelled.cancel = pipe.reader.get();
    const std::jthread canceller([&] {
        (void)server.commands(); // until the first report is written
        (void)write_all(pipe.writer.get(), "x");
    });
    EXPECT_EQ(ask_twice(server.endpoint(), cancelled).error().os_error, ECANCELED);
}

TEST(RasEndpoint, IsANumericAddressOrLocalhost) {
    EXPECT_EQ(parse_endpoint("127.0.0.1:28028")->addresses, std::vector{*IpAddress::parse("127.0.0.1")});
    EXPECT_EQ(parse_endpoint("[fd00::1]:28029")->addresses, std::vector{*IpAddress::parse("fd00::1")});
    EXPECT_EQ(parse_endpoint("[fd00::1]:28029")->port, 28029);
    EXPECT_EQ(parse_endpoint(default_address)->addresses.size(), 2U);
    for (const char* const bad : {"", ":", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:70000", "n01:28028", "fd00::1:28028",
                                  "[127.0.0.1]:28028", "[::1]"}) {
        EXPECT_FALSE(parse_endpoint(bad).has_value()) << bad;
    }
}

} // namespace
} // namespace rdma_nccl::ras
