// SPDX-License-Identifier: Apache-2.0
#include "lib/exchange/client.h"

#include "lib/net/dialer.h"
#include "lib/net/tcp.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <poll.h>
#include <sys/socket.h>

namespace rdma_nccl {

namespace {

using std::chrono::milliseconds;
using Clock = ExchangeClient::Clock;

constexpr std::chrono::seconds time_to_send(1); // srun may be serving a thousand nodes

tl::unexpected<Error> timed_out() {
    return fail("srun did not answer in time", ETIMEDOUT);
}

constexpr std::size_t longest_message = 0; // the proof is the only thing that is sent
constexpr std::size_t most_nodes_at_a_time = 4096;

/// Waits until all attempts are done, or until the deadline.
void finish(std::vector<DialAttempt>& attempts, Clock::time_point deadline) {
    for (;;) {
        std::vector<pollfd> waiting;
        std::vector<DialAttempt*> waiters;
        for (auto& attempt : attempts) {
            if (attempt.error() == 0 && !attempt.is_proven()) {
                waiting.push_back({attempt.fd(), attempt.events(), 0});
                waiters.push_back(&attempt);
            }
        }
        if (waiting.empty() || Clock::now() >= deadline || (poll_until(waiting, deadline) < 0 && errno != EINTR)) {
            return;
        }
        for (std::size_t i = 0; i < waiting.size(); ++i) {
            if (waiting[i].revents != 0) {
                waiters[i]->go_on();
            }
        }
    }
}

} // namespace

Result<ReachListener> ReachListener::open(std::uint16_t port, const Key& key, int held) {
    auto listener = held >= 0 ? listen_on_bound(held) : listen_on(port, PortSharing::Reuse);
    if (!listener && port != 0) {
        listener = listen_on(0, PortSharing::Reuse);
    }
    if (!listener) {
        return tl::unexpected(listener.error());
    }
    CoordinatorRules rules;
    rules.key = derive_key(key, KeyPurpose::Reachability);
    rules.adds_local_address = true;
    rules.ends_with_reset = true;
    rules.longest_message = longest_message;
    rules.expected_workers = most_nodes_at_a_time;
    auto coordinator = Coordinator::make(std::move(*listener), std::move(rules));
    if (!coordinator) {
        if (held >= 0) {
            stop_listening(held);
        }
        return tl::unexpected(coordinator.error());
    }
    return ReachListener(std::move(*coordinator));
}

ReachListener::~ReachListener() {
    if (coordinator_.listener() >= 0) {
        stop_listening(coordinator_.listener()); // closing is not enough for a held socket: another descriptor has it
    }
}

ReachResult try_to_reach(const ReachTest& test, const Key& key, std::chrono::milliseconds timeout) {
    const auto deadline = Clock::now() + timeout;
    const auto reach_key = derive_key(key, KeyPurpose::Reachability);
    const auto others = without_own(test.addresses, own_addresses());
    std::vector<DialAttempt> attempts;
    attempts.reserve(others.size());
    for (const auto& address : others) {
        attempts.emplace_back(address, test.port,
                              Session(Session::Role::Worker, reach_key, address.text(), longest_message));
    }
    finish(attempts, deadline);
    ReachResult results(test.addresses.size(), EADDRNOTAVAIL);
    for (std::size_t i = 0; i < results.size(); ++i) {
        const auto tried = std::ranges::find(others, test.addresses[i]);
        if (tried != others.end()) {
            const auto& attempt = attempts.at(static_cast<std::size_t>(tried - others.begin()));
            results[i] = attempt.error() == 0 && !attempt.is_proven() ? ETIMEDOUT : attempt.error();
        }
    }
    return results;
}

Result<ExchangeClient> ExchangeClient::connect(const ExchangeEndpoint& endpoint, const Key& key, std::size_t most,
                                               Clock::time_point connected, Clock::time_point deadline) {
    DialTarget target;
    target.addresses = without_own(endpoint.addresses, own_addresses());
    target.port = endpoint.port;
    target.key = derive_key(key, KeyPurpose::Exchange);
    target.longest_message = most;
    return dial(std::move(target), connected, deadline).map([&key](Connection connection) {
        return ExchangeClient(std::move(connection), key);
    });
}

bool ExchangeClient::send(const NodeMessage& message, Clock::time_point deadline) {
    connection_.send(std::make_shared<const std::string>(write_message(message)));
    while (connection_.write()) {
        if (!connection_.wants_to_write()) {
            return true;
        }
        pollfd waiting{connection_.fd(), POLLOUT, 0};
        if (poll_until({&waiting, 1}, deadline) <= 0) {
            return false;
        }
    }
    return false;
}

Result<ExchangeClient::Answer> ExchangeClient::agree(const NodeReport& report, std::optional<ReachListener> listener,
                                                     Clock::time_point deadline) {
    HostsTable hosts;
    bool open = send(report, deadline);
    while (open) {
        if (auto waited = wait(listener, deadline); !waited) {
            return tl::unexpected(waited.error());
        }
        open = connection_.read();
        while (const auto body = connection_.next_message()) {
            auto answer = obey(*body, hosts, deadline);
            if (!answer) {
                return tl::unexpected(answer.error());
            }
            if (*answer) {
                return std::move(**answer);
            }
        }
    }
    return Clock::now() >= deadline ? timed_out() : fail("srun has ended, or closed the connection", ECONNRESET);
}

Result<void> ExchangeClient::wait(std::optional<ReachListener>& listener, Clock::time_point deadline) {
    for (;;) {
        std::array<pollfd, 2> waiting = {
            {{connection_.fd(), POLLIN, 0}, {listener ? listener->descriptor() : -1, POLLIN, 0}}};
        const auto until = listener ? std::min(deadline, listener->deadline().value_or(deadline)) : deadline;
        if (poll_until(waiting, until) < 0 && errno != EINTR) {
            return os_failure("poll");
        }
        if (Clock::now() >= deadline) { // check here too: there may always be something to serve
            return timed_out();
        }
        if (listener) {
            listener->serve();
        }
        if (waiting[0].revents != 0) {
            return {};
        }
    }
}

Result<std::optional<ExchangeClient::Answer>> ExchangeClient::obey(const std::string& body, HostsTable& hosts,
                                                                   Clock::time_point deadline) {
    auto message = read_server_message(body);
    if (!message && message.error().os_error == ENOMSG) {
        return std::nullopt;
    }
    if (!message) {
        return tl::unexpected(message.error());
    }
    if (const auto* const test = std::get_if<ReachTest>(&*message)) {
        const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
        if (!send(Reached{try_to_reach(*test, key_, std::min(left, reach_timeout))}, deadline)) {
            return timed_out();
        }
    } else if (auto* const table = std::get_if<Hosts>(&*message)) {
        hosts = std::move(table->table);
    } else if (auto* const agreement = std::get_if<Agreement>(&*message)) {
        return Answer(ExchangeAnswer{std::move(*agreement), std::move(hosts)});
    } else {
        return Answer(std::get<Disagreement>(std::move(*message)));
    }
    return std::nullopt;
}

bool ExchangeClient::send_alarm(const std::string& text) {
    return send(NodeAlarm{text}, Clock::now() + time_to_send);
}

bool ExchangeClient::send_evidence(const NodeEvidence& evidence) {
    return send(evidence, Clock::now() + time_to_send);
}

void ExchangeClient::hang_up() const {
    (void)::shutdown(connection_.fd(), SHUT_RDWR);
}

} // namespace rdma_nccl
