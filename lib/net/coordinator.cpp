// SPDX-License-Identifier: Apache-2.0
#include "lib/net/coordinator.h"

#include "lib/net/tcp.h"

#include <algorithm>
#include <cerrno>
#include <sys/epoll.h>

namespace rdma_nccl {

namespace {

using std::chrono::milliseconds;

constexpr int listener_id = 0; // in epoll's data; connections have higher numbers
constexpr std::chrono::seconds time_to_prove(5);
constexpr milliseconds accept_pause(50);

} // namespace

Result<Coordinator> Coordinator::make(UniqueFd listener, CoordinatorRules rules) {
    UniqueFd events(::epoll_create1(EPOLL_CLOEXEC));
    if (!events) {
        return fail("no descriptor is left (epoll)", errno);
    }
    Coordinator coordinator(std::move(listener), std::move(events), std::move(rules));
    if (!coordinator.watch(coordinator.listener_.get(), EPOLL_CTL_ADD, listener_id, EPOLLIN)) {
        return fail("the port cannot be watched (epoll)", errno);
    }
    return coordinator;
}

Coordinator::Coordinator(UniqueFd listener, UniqueFd events, CoordinatorRules rules)
    : listener_(std::move(listener)), events_(std::move(events)), rules_(std::move(rules)), next_id_(listener_id + 1) {
    watch_connection(listener_.get()); // connections inherit its options (tcp(7), accept(2))
}

bool Coordinator::watch(int fd, int operation, int id, unsigned wanted) const {
    epoll_event event{};
    event.events = wanted;
    event.data.fd = id;
    return ::epoll_ctl(events_.get(), operation, fd, &event) == 0;
}

std::uint16_t Coordinator::port() const {
    return local_port(listener_.get());
}

std::optional<Coordinator::Clock::time_point> Coordinator::deadline() const {
    if (!happened_.empty()) {
        return Clock::now();
    }
    auto next = accepts_again_;
    if (!strangers_.empty()) {
        const auto end = connections_.at(*strangers_.begin()).since + time_to_prove;
        next = next ? std::min(*next, end) : end;
    }
    return next;
}

std::vector<CoordinatorEvent> Coordinator::work() {
    if (accepts_again_ && Clock::now() >= *accepts_again_ &&
        watch(listener_.get(), EPOLL_CTL_MOD, listener_id, EPOLLIN)) {
        accepts_again_.reset();
    }
    std::array<epoll_event, 256> ready{};
    const int count = ::epoll_wait(events_.get(), ready.data(), static_cast<int>(ready.size()), 0);
    for (int i = 0; i < count; ++i) {
        const auto& event = ready[static_cast<std::size_t>(i)];
        if (event.data.fd == listener_id) {
            accept_some();
        } else {
            serve(event.data.fd, event.events);
        }
    }
    drop_strangers();
    return std::exchange(happened_, {});
}

void Coordinator::accept_some() {
    constexpr int most_at_a_time = 256; // then the connections get their turn
    for (int i = 0; i < most_at_a_time; ++i) {
        if (strangers_.size() >= rules_.expected_workers + rules_.most_strangers) {
            close(*strangers_.begin());
        }
        UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (!socket) {
            if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
                pause_accepting(errno);
            }
            return;
        }
        if (rules_.ends_with_reset) {
            end_with_reset(socket.get());
        }
        const int id = next_id_++;
        if (!watch(socket.get(), EPOLL_CTL_ADD, id, EPOLLIN)) {
            continue;
        }
        const auto local = rules_.adds_local_address ? local_address(socket.get()) : std::nullopt;
        const auto context = rules_.context + (local ? local->text() : "");
        Session session(Session::Role::Coordinator, rules_.key, context, rules_.longest_message);
        connections_.emplace(id, Peer{Connection(std::move(socket), std::move(session)), Clock::now()});
        strangers_.insert(id);
    }
}

/// Descriptors have run out: closes the oldest unproven connection, and leaves new ones in the kernel's queue.
void Coordinator::pause_accepting(int error) {
    accept_error_ = error;
    if (!strangers_.empty()) {
        close(*strangers_.begin());
    }
    if (watch(listener_.get(), EPOLL_CTL_MOD, listener_id, 0)) {
        accepts_again_ = Clock::now() + accept_pause;
    }
}

void Coordinator::drop_strangers() {
    const auto oldest = Clock::now() - time_to_prove;
    while (!strangers_.empty() && connections_.at(*strangers_.begin()).since <= oldest) {
        close(*strangers_.begin());
    }
}

void Coordinator::serve(int id, unsigned events) {
    const auto found = connections_.find(id);
    if (found == connections_.end()) {
        return; // an earlier event in this batch closed it
    }
    Peer& peer = found->second;
    if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) {
        const bool open = peer.connection.read();
        take_messages(id, peer);
        if (!open) {
            lose(id, peer.connection.why_over());
            return;
        }
    }
    flush(id, peer);
}

void Coordinator::take_messages(int id, Peer& peer) {
    if (!peer.joined && peer.connection.is_proven()) {
        peer.joined = true;
        strangers_.erase(id);
        happened_.push_back({CoordinatorEvent::Kind::Joined, id, {}, {}});
    }
    while (auto body = peer.connection.next_message()) {
        happened_.push_back({CoordinatorEvent::Kind::Message, id, std::move(*body), {}});
    }
}

void Coordinator::flush(int id, Peer& peer) {
    if (!peer.connection.write()) {
        lose(id, peer.connection.why_over());
        return;
    }
    if (peer.connection.unsent() > rules_.most_unsent) {
        lose(id, "it takes no messages");
        return;
    }
    const bool wanted = peer.connection.wants_to_write();
    if (wanted != peer.watches_output) {
        peer.watches_output = wanted;
        (void)watch(peer.connection.fd(), EPOLL_CTL_MOD, id, wanted ? EPOLLIN | EPOLLOUT : EPOLLIN);
    }
}

void Coordinator::lose(int id, std::string why) {
    const auto found = connections_.find(id);
    if (found->second.joined) {
        happened_.push_back({CoordinatorEvent::Kind::Lost, id, {}, std::move(why)});
    }
    close(id);
}

void Coordinator::send(int worker, SharedBody body) {
    const auto found = connections_.find(worker);
    if (found == connections_.end()) {
        return;
    }
    auto& peer = found->second;
    peer.connection.send(std::move(body));
    if (!peer.watches_output) { // otherwise the socket accepts nothing now
        flush(worker, peer);
    } else if (peer.connection.unsent() > rules_.most_unsent) {
        lose(worker, "it takes no messages");
    }
}

void Coordinator::close(int worker) {
    strangers_.erase(worker);
    const auto found = connections_.find(worker);
    if (found != connections_.end()) {
        // A child process may have a copy of the socket, which epoll(7) would keep watching.
        (void)watch(found->second.connection.fd(), EPOLL_CTL_DEL, worker, 0);
        connections_.erase(found);
    }
}

} // namespace rdma_nccl
