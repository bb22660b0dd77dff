// SPDX-License-Identifier: Apache-2.0
#include "lib/exchange/client.h"

#include "lib/net/dialer.h"
#include "lib/net/tcp.h"

#include <algorithm>
#include <cerrno>
#include <poll.h>

namespace rdma_nccl {

namespace {

using Clock = std::chrono::steady_clock;

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
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
        if (waiting.empty() || left <= 0 ||
            (::poll(waiting.data(), waiting.size(), static_cast<int>(left)) < 0 && errno != EINTR)) {
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

Result<UniqueFd> ReachListener::listen(std::uint16_t port, int held) {
    auto listener = held >= 0 ? listen_on_bound(held) : listen_on(port, PortSharing::Reuse);
    return listener || port == 0 ? std::move(listener) : listen_on(0, PortSharing::Reuse);
}

Result<ReachListener> ReachListener::open(std::uint16_t port, const Key& key, int held) {
    auto listener = listen(port, held);
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

} // namespace rdma_nccl
