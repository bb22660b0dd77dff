// SPDX-License-Identifier: Apache-2.0
#include "lib/format.h"
#include "lib/tcp.h"
#include "tools/measure_control.h"
#include "tools/measure_greeting.h"
#include "tools/run_secret.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <poll.h>
#include <sys/socket.h>
#include <thread>

namespace rdma_nccl {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds retry_after(100);
/// How long the head may take no byte of an answer.
constexpr std::chrono::seconds send_time(10);

int poll_time(MeasureClock::time_point deadline) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - MeasureClock::now()).count();
    return static_cast<int>(std::clamp<std::int64_t>(left, 0, 3'600'000));
}

/// False when nothing of `events` happens until then.
bool wait_for(int fd, short events, MeasureClock::time_point deadline) {
    pollfd item{fd, events, 0};
    for (;;) {
        const int ready = ::poll(&item, 1, poll_time(deadline));
        if (ready > 0) {
            return true;
        }
        if (ready == 0 || errno != EINTR) {
            if (MeasureClock::now() >= deadline) {
                return false;
            }
        }
    }
}

/// One attempt.
Result<UniqueFd> connect_to(const IpAddress& address, std::uint16_t port, MeasureClock::time_point deadline) {
    auto socket = start_connection(address, port);
    if (!socket) {
        return socket;
    }
    if (!wait_for(socket->get(), POLLOUT, deadline)) {
        return fail("no answer", ETIMEDOUT);
    }
    if (const int error = connection_error(socket->get()); error != 0) {
        return fail(std::strerror(error), error); // NOLINT(concurrency-mt-unsafe): one thread
    }
    watch_connection(socket->get());
    return socket;
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

Result<MeasureMember> MeasureMember::join(const MeasureWorld& world, const nlohmann::json& hello,
                                          MeasureClock::time_point deadline) {
    block_end_signals();
    const auto address = world.head ? *world.head : *IpAddress::parse("127.0.0.1");
    std::string problem = "no time was left";
    while (MeasureClock::now() < deadline) {
        const auto attempt_end = std::min(deadline, MeasureClock::now() + std::chrono::seconds(5));
        auto socket = connect_to(address, world.port, attempt_end);
        if (socket) {
            MeasureMember member(std::move(*socket));
            auto answer =
                member.send_body(greeting_of(world)).and_then([&] { return member.receive_body(attempt_end); });
            if (answer && *answer && same_secret(**answer, answer_of(world.secret))) {
                if (const auto sent = member.send(hello); !sent) {
                    return fail(sent.error().message);
                }
                return member;
            }
            problem =
                answer && *answer ? "something else than this step's head answers there" : "it did not greet back";
        } else {
            problem = socket.error().message;
        }
        std::this_thread::sleep_for(retry_after);
    }
    return fail(format_text("{}: the head at {} port {} cannot be reached: {}; is its process running, and does a "
                            "firewall let TCP through?",
                            world.node, address.text(), world.port, problem));
}

Result<std::optional<std::string>> MeasureMember::receive_body(MeasureClock::time_point deadline) {
    constexpr std::size_t most_at_once = 65536;
    for (;;) {
        auto body = in_.next();
        if (!body || *body) {
            return body;
        }
        if (!wait_for(socket_.get(), POLLIN, deadline)) {
            return std::optional<std::string>();
        }
        std::array<char, most_at_once> bytes{};
        const ssize_t size = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
        if (size == 0) {
            return fail("the head has closed the connection");
        }
        if (size < 0 && errno != EAGAIN && errno != EINTR) {
            return fail("the head is gone", errno);
        }
        in_.append({bytes.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0))});
    }
}

Result<void> MeasureMember::send_body(std::string_view body) {
    const auto frame = with_length(body);
    std::string_view left = frame;
    while (!left.empty()) {
        const ssize_t size = ::send(socket_.get(), left.data(), left.size(), MSG_NOSIGNAL);
        if (size > 0) {
            left.remove_prefix(static_cast<std::size_t>(size));
        } else if (errno == EAGAIN) {
            if (!wait_for(socket_.get(), POLLOUT, MeasureClock::now() + send_time)) {
                return fail("the head takes nothing", ETIMEDOUT);
            }
        } else if (errno != EINTR) {
            return fail("the head is gone", errno);
        }
    }
    return {};
}

Result<std::optional<nlohmann::json>> MeasureMember::receive(MeasureClock::time_point deadline) {
    auto body = receive_body(deadline);
    if (!body) {
        return tl::unexpected(body.error());
    }
    if (!*body) {
        return std::optional<nlohmann::json>();
    }
    auto order = nlohmann::json::parse(**body, nullptr, false);
    if (!order.is_object()) {
        return fail("the head says what is no JSON object");
    }
    return std::optional(std::move(order));
}

Result<void> MeasureMember::send(const nlohmann::json& message) {
    return send_body(measure_text(message));
}

bool MeasureMember::has_input() const {
    pollfd item{socket_.get(), POLLIN, 0};
    return in_.room() < most_measure_message || ::poll(&item, 1, 0) > 0;
}

} // namespace rdma_nccl
