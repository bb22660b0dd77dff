// SPDX-License-Identifier: Apache-2.0
#include "lib/exchange_loop.h"

#include "lib/tcp.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

namespace rdma_nccl {

namespace {

using std::chrono::milliseconds;

// Numbers in epoll's data; those of connections come after.
constexpr int listener_id = 0;
constexpr int stop_id = 1;
constexpr int first_connection_id = 2;

constexpr std::chrono::seconds patience_with_strangers(5);
constexpr milliseconds pause_when_full(50);
constexpr std::size_t more_strangers = 1024; // than nodes, which may all come before one of them has said a word

bool control(int events, int operation, int descriptor, int id, unsigned wanted) {
    epoll_event event{};
    event.events = wanted;
    event.data.fd = id;
    return ::epoll_ctl(events, operation, descriptor, &event) == 0;
}

} // namespace

Result<std::unique_ptr<ExchangeLoop>> ExchangeLoop::make(int listener, int stop, const Secret& secret,
                                                         ExchangeStep step, ExchangeRounds::Tell tell) {
    UniqueFd events(::epoll_create1(EPOLL_CLOEXEC));
    if (!events || !control(events.get(), EPOLL_CTL_ADD, listener, listener_id, EPOLLIN) ||
        !control(events.get(), EPOLL_CTL_ADD, stop, stop_id, EPOLLIN)) {
        return fail("epoll", errno);
    }
    return std::unique_ptr<ExchangeLoop>(
        new ExchangeLoop(listener, stop, secret, std::move(events), std::move(step), std::move(tell)));
}

ExchangeLoop::ExchangeLoop(int listener, int stop, const Secret& secret, UniqueFd events, ExchangeStep step,
                           ExchangeRounds::Tell tell)
    : listener_(listener), stop_(stop), secret_(secret), events_(std::move(events)),
      most_strangers_(step.node_count + more_strangers),
      rounds_(
          std::move(step), std::move(tell),
          [this](int id, std::shared_ptr<const std::string> message) { send(id, std::move(message)); }, Clock::now()),
      next_id_(first_connection_id) {}

void ExchangeLoop::run() {
    while (!done()) {
        turn();
    }
}

bool ExchangeLoop::done() const {
    return end_ && (rounds_.still_running() == 0 || Clock::now() >= *end_);
}

int ExchangeLoop::time_to_wait() const {
    if (!unsent_.empty()) {
        return 0; // a write has failed, and the others were told so
    }
    auto next = rounds_.next_time();
    if (end_) {
        next = std::min(next, *end_);
    }
    if (!strangers_.empty()) {
        next = std::min(next, connections_.at(*strangers_.begin()).since + patience_with_strangers);
    }
    if (!listening_) {
        next = std::min(next, Clock::now() + pause_when_full);
    }
    if (next == Clock::time_point::max()) {
        return -1;
    }
    const auto left = std::chrono::ceil<milliseconds>(next - Clock::now()).count();
    return static_cast<int>(std::clamp<long>(left, 0, 60'000));
}

void ExchangeLoop::turn() {
    std::array<epoll_event, 256> ready{};
    const int count = ::epoll_wait(events_.get(), ready.data(), static_cast<int>(ready.size()), time_to_wait());
    listen_again();
    for (int i = 0; i < count; ++i) {
        const auto& event = ready[static_cast<std::size_t>(i)];
        if (event.data.fd == listener_id) {
            take_connections();
        } else if (event.data.fd == stop_id) {
            read_stop();
        } else {
            handle(event.data.fd, event.events);
        }
    }
    close_strangers();
    rounds_.pass_time(Clock::now());
    for (const int id : std::exchange(unsent_, {})) {
        if (const auto found = connections_.find(id); found != connections_.end()) {
            if (write(found->second)) {
                watch_writing(id, found->second);
            } else {
                close(id);
            }
        }
    }
}

void ExchangeLoop::read_stop() {
    std::uint64_t patience = 0;
    if (::read(stop_, &patience, sizeof patience) == sizeof patience) {
        end_ = Clock::now() + milliseconds(patience - 1);
    }
}

void ExchangeLoop::take_connections() {
    constexpr int most_at_a_time = 256; // then others get their turn
    for (int i = 0; i < most_at_a_time; ++i) {
        make_room();
        UniqueFd socket(::accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (!socket) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
                pause_listening();
            }
            return;
        }
        const int id = next_id_++;
        watch_connection(socket.get());
        if (control(events_.get(), EPOLL_CTL_ADD, socket.get(), id, EPOLLIN)) {
            auto& connection = connections_[id];
            connection.socket = std::move(socket);
            connection.since = Clock::now();
            strangers_.insert(id);
        }
    }
}

/// Descriptors have run out: whoever is not known yet has to go, and the rest waits a moment in the kernel's queue.
void ExchangeLoop::pause_listening() {
    if (!strangers_.empty()) {
        close(*strangers_.begin());
    }
    listening_ = !control(events_.get(), EPOLL_CTL_DEL, listener_, listener_id, 0);
}

void ExchangeLoop::listen_again() {
    if (!listening_) {
        listening_ = control(events_.get(), EPOLL_CTL_ADD, listener_, listener_id, EPOLLIN);
    }
}

void ExchangeLoop::make_room() {
    while (strangers_.size() >= most_strangers_) {
        close(*strangers_.begin());
    }
}

void ExchangeLoop::close_strangers() {
    const auto oldest = Clock::now() - patience_with_strangers;
    while (!strangers_.empty() && connections_.at(*strangers_.begin()).since <= oldest) {
        close(*strangers_.begin());
    }
}

void ExchangeLoop::handle(int id, unsigned events) {
    const auto found = connections_.find(id);
    if (found == connections_.end()) {
        return; // closed by an event before this one
    }
    const bool good = (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) == 0 || read(id, found->second);
    if (!good) {
        close(id);
    } else if ((events & EPOLLOUT) != 0) {
        unsent_.insert(id);
    }
}

bool ExchangeLoop::read(int id, Connection& connection) {
    std::array<char, 16384> buffer;
    const std::size_t room = connection.trusted ? connection.in.room() : sizeof(Token) - connection.heard.size();
    const ssize_t count = ::recv(connection.socket.get(), buffer.data(), std::min(buffer.size(), room), 0);
    if (count < 0) {
        return errno == EAGAIN || errno == EINTR;
    }
    if (count == 0) {
        return false;
    }
    const std::string_view bytes(buffer.data(), static_cast<std::size_t>(count));
    if (!connection.trusted) {
        if (!read_question(connection, bytes)) {
            return false;
        }
        if (connection.trusted) {
            strangers_.erase(id);
            send(id, std::make_shared<const std::string>(bytes_of(secret_.answer)));
        }
        return true;
    }
    connection.in.append(bytes);
    return read_messages(id, connection);
}

bool ExchangeLoop::read_question(Connection& connection, std::string_view bytes) const {
    connection.heard += bytes;
    if (connection.heard.size() < sizeof(Token)) {
        return true;
    }
    connection.trusted = equal_in_constant_time(connection.heard, secret_.question);
    connection.heard = std::string();
    return connection.trusted;
}

bool ExchangeLoop::read_messages(int id, Connection& connection) {
    for (;;) {
        const auto body = connection.in.next();
        if (!body) {
            return false;
        }
        if (!*body) {
            return true;
        }
        auto message = read_node_message(**body);
        if (!message || !rounds_.take(id, std::move(*message), Clock::now())) {
            return false;
        }
    }
}

bool ExchangeLoop::write(Connection& connection) {
    while (!connection.out.empty()) {
        const auto& message = *connection.out.front();
        const ssize_t count = ::send(connection.socket.get(), message.data() + connection.written,
                                     message.size() - connection.written, MSG_NOSIGNAL);
        if (count < 0) {
            return errno == EAGAIN || errno == EINTR;
        }
        connection.written += static_cast<std::size_t>(count);
        if (connection.written == message.size()) {
            connection.out.pop_front();
            connection.written = 0;
        }
    }
    return true;
}

void ExchangeLoop::watch_writing(int id, Connection& connection) {
    const bool wanted = !connection.out.empty();
    if (wanted != connection.wants_to_write) {
        connection.wants_to_write = wanted;
        (void)control(events_.get(), EPOLL_CTL_MOD, connection.socket.get(), id, wanted ? EPOLLIN | EPOLLOUT : EPOLLIN);
    }
}

void ExchangeLoop::send(int id, std::shared_ptr<const std::string> message) {
    if (const auto found = connections_.find(id); found != connections_.end()) {
        found->second.out.push_back(std::move(message));
        unsent_.insert(id);
    }
}

void ExchangeLoop::close(int id) {
    strangers_.erase(id);
    unsent_.erase(id);
    if (connections_.erase(id) > 0) {
        rounds_.lose(id);
    }
}

} // namespace rdma_nccl
