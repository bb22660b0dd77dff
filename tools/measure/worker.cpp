// SPDX-License-Identifier: Apache-2.0
#include "lib/base/format.h"
#include "lib/base/json.h"
#include "lib/net/dialer.h"
#include "lib/net/message.h"
#include "tools/measure/channel.h"

#include <algorithm>
#include <csignal>
#include <poll.h>
#include <utility>

namespace rdma_nccl {

namespace {

using std::chrono::milliseconds;

/// The longest time that the head may accept no byte of an answer.
constexpr std::chrono::seconds send_time(10);

/// Waits for `events`. Returns false if none happens before the deadline.
bool wait_for(int fd, short events, MeasureClock::time_point deadline) {
    pollfd item{fd, events, 0};
    for (;;) {
        const auto left = std::chrono::ceil<milliseconds>(deadline - MeasureClock::now()).count();
        if (::poll(&item, 1, static_cast<int>(std::clamp<std::int64_t>(left, 0, 3'600'000))) > 0) {
            return true;
        }
        if (MeasureClock::now() >= deadline) {
            return false;
        }
    }
}

void block_end_signals() {
    sigset_t set{};
    (void)::sigemptyset(&set);
    for (const int number : {SIGINT, SIGTERM}) {
        (void)::sigaddset(&set, number);
    }
    (void)::pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

} // namespace

std::string measure_text(const Json& message) {
    return message.dump();
}

std::optional<Json> read_measure_text(std::string_view text) {
    return parse_json_object(text);
}

Result<MeasureMember> MeasureMember::join(const MeasureWorld& world, const Json& hello,
                                          MeasureClock::time_point deadline) {
    block_end_signals();
    const auto address = world.head ? *world.head : *IpAddress::parse("127.0.0.1");
    auto connection = dial({{address}, world.port, world.key, {}, most_measure_message, true}, deadline, deadline);
    if (!connection) {
        return fail(format_text("{}: the head cannot be reached: {}; is its process running, and does a firewall let "
                                "TCP through?",
                                world.node, connection.error().message));
    }
    MeasureMember member(std::move(*connection));
    if (auto sent = member.send({{"member", world.member}, {"hello", hello}}); !sent) {
        return tl::unexpected(sent.error());
    }
    return member;
}

Result<std::optional<Json>> MeasureMember::receive(MeasureClock::time_point deadline) {
    while (!waiting_) {
        if (!connection_.why_over().empty()) {
            return fail("the head is gone: " + connection_.why_over());
        }
        if (!wait_for(fd(), POLLIN, deadline)) {
            return std::optional<Json>();
        }
        (void)connection_.read(); // why_over() reports errors
        waiting_ = connection_.next_message();
    }
    auto order = read_measure_text(*std::exchange(waiting_, connection_.next_message()));
    if (!order) {
        return fail("the head says what is no order");
    }
    return order;
}

Result<void> MeasureMember::send(const Json& message) {
    connection_.send(std::make_shared<const std::string>(measure_text(message)));
    while (connection_.write()) {
        if (!connection_.wants_to_write()) {
            return {};
        }
        if (!wait_for(fd(), POLLOUT, MeasureClock::now() + send_time)) {
            return fail("the head takes nothing");
        }
    }
    return fail("the head is gone: " + connection_.why_over());
}

bool MeasureMember::has_input() const {
    pollfd item{fd(), POLLIN, 0};
    return waiting_ || ::poll(&item, 1, 0) > 0;
}

} // namespace rdma_nccl
