// SPDX-License-Identifier: Apache-2.0
#include "lib/exchange_reach.h"

#include "lib/tcp.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

namespace rdma_nccl {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t most_visitors = 4096; // beyond, they wait in the kernel's queue
constexpr int most_at_a_time = 64;          // then those who are here get their turn
constexpr std::chrono::seconds longest_visit(1);

bool watch(int events, int socket) {
    epoll_event wanted{};
    wanted.events = EPOLLIN;
    wanted.data.fd = socket;
    return ::epoll_ctl(events, EPOLL_CTL_ADD, socket, &wanted) == 0;
}

/// One address of a test.
class Attempt {
public:
    Attempt(const IpAddress& address, std::uint16_t port) {
        auto socket = start_connection(address, port);
        if (socket) {
            socket_ = std::move(*socket);
        } else {
            result_ = socket.error().os_error;
        }
    }

    [[nodiscard]] bool open() const { return static_cast<bool>(socket_); }
    [[nodiscard]] pollfd waiting() const { return {socket_.get(), static_cast<short>(said_ ? POLLIN : POLLOUT), 0}; }
    [[nodiscard]] int result() const { return result_; }

    void go_on(const Secret& secret) {
        if (!said_) {
            say(secret);
        } else {
            hear(secret);
        }
    }

    void give_up() { end(ETIMEDOUT); }

private:
    void say(const Secret& secret) {
        if (const int code = connection_error(socket_.get()); code != 0) {
            end(code);
            return;
        }
        const auto question = bytes_of(secret.question);
        said_ = ::send(socket_.get(), question.data(), question.size(), MSG_NOSIGNAL) ==
                static_cast<ssize_t>(question.size());
        if (!said_) {
            end(errno);
        }
    }

    void hear(const Secret& secret) {
        std::array<char, sizeof(Token)> bytes{};
        const ssize_t count = ::recv(socket_.get(), bytes.data(), bytes.size() - heard_.size(), 0);
        if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
            return;
        }
        if (count <= 0) {
            end(count == 0 ? EPROTO : errno);
            return;
        }
        heard_.append(bytes.data(), static_cast<std::size_t>(count));
        if (heard_.size() == bytes.size()) {
            end(equal_in_constant_time(heard_, secret.answer) ? 0 : EPROTO);
        }
    }

    void end(int result) {
        result_ = result;
        socket_.reset();
    }

    UniqueFd socket_;
    int result_ = 0;
    bool said_ = false;
    std::string heard_;
};

} // namespace

Result<UniqueFd> ReachListener::listen(std::uint16_t port, int held) {
    auto listener = held >= 0 ? listen_on_bound(held) : listen_on(port, PortSharing::Reuse);
    return listener || port == 0 ? std::move(listener) : listen_on(0, PortSharing::Reuse);
}

Result<ReachListener> ReachListener::open(std::uint16_t port, const Secret& secret, int held) {
    auto listener = listen(port, held);
    if (!listener) {
        return tl::unexpected(listener.error());
    }
    UniqueFd events(::epoll_create1(EPOLL_CLOEXEC));
    if (!events || !watch(events.get(), listener->get())) {
        const int code = errno;
        stop_listening(listener->get());
        return fail("epoll", code);
    }
    return ReachListener(std::move(*listener), std::move(events), secret);
}

ReachListener::~ReachListener() {
    for (auto& [number, visitor] : visitors_) {
        close_without_trace(std::move(visitor.socket));
    }
    if (listener_) {
        stop_listening(listener_.get()); // closing would not do for a held socket, which has another descriptor
    }
}

std::uint16_t ReachListener::port() const {
    return local_port(listener_.get());
}

void ReachListener::serve() {
    std::array<epoll_event, 64> ready{};
    const int count = ::epoll_wait(events_.get(), ready.data(), static_cast<int>(ready.size()), 0);
    for (int i = 0; i < count; ++i) {
        const int socket = ready[static_cast<std::size_t>(i)].data.fd;
        if (socket == listener_.get()) {
            take_visitors();
        } else {
            hear(socket);
        }
    }
}

void ReachListener::take_visitors() {
    for (int i = 0; i < most_at_a_time; ++i) {
        if (visitors_.size() >= most_visitors && !make_room()) {
            return;
        }
        UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (!socket) {
            if (errno == EMFILE || errno == ENFILE) {
                (void)make_room();
            }
            return;
        }
        const int number = socket.get();
        if (watch(events_.get(), number)) {
            visitors_[number] = {std::move(socket), {}, Clock::now()};
        } else {
            close_without_trace(std::move(socket));
        }
    }
}

/// Whoever stays long is none of ours.
bool ReachListener::make_room() {
    const auto oldest = std::min_element(visitors_.begin(), visitors_.end(),
                                         [](const auto& a, const auto& b) { return a.second.since < b.second.since; });
    if (oldest == visitors_.end() || Clock::now() < oldest->second.since + longest_visit) {
        return false;
    }
    dismiss(oldest->first);
    return true;
}

void ReachListener::hear(int socket) {
    const auto found = visitors_.find(socket);
    if (found == visitors_.end()) {
        return;
    }
    auto& visitor = found->second;
    std::array<char, sizeof(Token)> bytes{};
    const ssize_t count = ::recv(socket, bytes.data(), bytes.size(), 0);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    const std::size_t wanted = bytes.size() - std::min(bytes.size(), visitor.heard.size());
    if (count <= 0 || static_cast<std::size_t>(count) > wanted) {
        dismiss(socket); // the peer has ended, or says more than the question
        return;
    }
    visitor.heard.append(bytes.data(), static_cast<std::size_t>(count));
    if (visitor.heard.size() < bytes.size()) {
        return;
    }
    const auto answer = bytes_of(secret_.answer);
    if (!equal_in_constant_time(visitor.heard, secret_.question) ||
        ::send(socket, answer.data(), answer.size(), MSG_NOSIGNAL) < 0) {
        dismiss(socket);
    }
    // Else the peer ends the connection, so that TIME_WAIT is on its side.
}

void ReachListener::dismiss(int socket) {
    const auto found = visitors_.find(socket);
    close_without_trace(std::move(found->second.socket));
    visitors_.erase(found);
}

ReachResult try_to_reach(const ReachTest& test, const Secret& secret, std::chrono::milliseconds patience) {
    std::vector<Attempt> attempts;
    attempts.reserve(test.addresses.size());
    for (const auto& address : test.addresses) {
        attempts.emplace_back(address, test.port);
    }
    const auto deadline = Clock::now() + patience;
    for (;;) {
        std::vector<pollfd> waiting;
        std::vector<Attempt*> waiters;
        for (auto& attempt : attempts) {
            if (attempt.open()) {
                waiting.push_back(attempt.waiting());
                waiters.push_back(&attempt);
            }
        }
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
        if (waiting.empty() || left <= 0) {
            break;
        }
        if (::poll(waiting.data(), waiting.size(), static_cast<int>(left)) < 0 && errno != EINTR) {
            break;
        }
        for (std::size_t i = 0; i < waiting.size(); ++i) {
            if (waiting[i].revents != 0) {
                waiters[i]->go_on(secret);
            }
        }
    }
    ReachResult results;
    for (auto& attempt : attempts) {
        if (attempt.open()) {
            attempt.give_up();
        }
        results.push_back(attempt.result());
    }
    return results;
}

} // namespace rdma_nccl
