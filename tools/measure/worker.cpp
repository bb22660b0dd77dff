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

namespace rdma_nccl::measure {

namespace {

using std::chrono::milliseconds;

/// The longest time that the coordinator may accept no byte of an answer.
constexpr std::chrono::seconds send_time(10);

/// Waits for `events`. Returns false if none happens before the deadline.
bool wait_for(int fd, short events, Clock::time_point deadline) {
    pollfd item{fd, events, 0};
    for (;;) {
        const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now()).count();
        if (::poll(&item, 1, static_cast<int>(std::clamp<std::int64_t>(left, 0, 3'600'000))) > 0) {
            return true;
        }
        if (Clock::now() >= deadline) {
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

std::string format_message(const Json& message) {
    return message.dump();
}

std::optional<Json> parse_message(std::string_view text) {
    return parse_json_object(text);
}

Result<Worker> Worker::join(const World& world, const Json& hello, Clock::time_point deadline) {
    block_end_signals();
    const auto address = world.coordinator ? *world.coordinator : *IpAddress::parse("127.0.0.1");
    auto connection = dial({{address}, world.port, world.key, {}, max_message_bytes, true}, deadline, deadline);
    if (!connection) {
        return fail(format_text("{}: the head cannot be reached: {}; is its process running, and does a firewall let "
                                "TCP through?",
                                world.node, connection.error().message));
    }
    Worker worker(std::move(*connection));
    if (auto sent = worker.send({{"member", world.worker}, {"hello", hello}}); !sent) {
        return tl::unexpected(sent.error());
    }
    return worker;
}

Result<std::optional<Json>> Worker::receive(Clock::time_point deadline) {
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
    auto order = parse_message(*std::exchange(waiting_, connection_.next_message()));
    if (!order) {
        return fail("the head says what is no order");
    }
    return order;
}

Result<void> Worker::send(const Json& message) {
    connection_.send(std::make_shared<const std::string>(format_message(message)));
    while (connection_.write()) {
        if (!connection_.wants_to_write()) {
            return {};
        }
        if (!wait_for(fd(), POLLOUT, Clock::now() + send_time)) {
            return fail("the head takes nothing");
        }
    }
    return fail("the head is gone: " + connection_.why_over());
}

bool Worker::has_input() const {
    pollfd item{fd(), POLLIN, 0};
    return waiting_ || ::poll(&item, 1, 0) > 0;
}

} // namespace rdma_nccl::measure
