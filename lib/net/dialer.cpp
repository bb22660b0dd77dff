// SPDX-License-Identifier: Apache-2.0
#include "lib/net/dialer.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/net/tcp.h"

#include <cerrno>
#include <cstring>
#include <poll.h>
#include <sys/epoll.h>

namespace rdma_nccl {

namespace {

using std::chrono::milliseconds;
using Clock = Dialer::Clock;

constexpr milliseconds stagger(250);
constexpr milliseconds first_pause(10); // the coordinator of a step starts when we do, and listens a moment later
constexpr milliseconds longest_pause(200);
constexpr unsigned most_failures = 3; // for an address that accepts connections and closes them

/// Returns when to try an address again that has refused this often: ever later, as thousands of nodes may wait.
milliseconds pause_after(unsigned refusals) {
    constexpr unsigned most_doublings = 5;
    return std::min(first_pause * (1U << std::min(refusals, most_doublings)), longest_pause);
}

} // namespace

DialAttempt::DialAttempt(const IpAddress& address, std::uint16_t port, Session session) {
    if (auto socket = start_connection(address, port)) {
        connection_.emplace(std::move(*socket), std::move(session));
    } else {
        error_ = socket.error().os_error;
    }
}

void DialAttempt::go_on() {
    if (!connected_) {
        error_ = connection_error(fd());
        connected_ = error_ == 0;
        if (connected_) {
            watch_connection(fd());
        }
    } else if (!connection_->read()) {
        error_ = EPROTO;
    }
    // This also sends our proof after the coordinator's.
    if (error_ == 0 && !connection_->write()) {
        error_ = EPROTO;
    }
    if (error_ != 0) {
        connection_.reset();
    }
}

Dialer::Dialer(DialTarget target)
    : target_(std::move(target)), events_(::epoll_create1(EPOLL_CLOEXEC)), tries_(target_.addresses.size()),
      next_start_(Clock::now()) {}

void Dialer::watch(std::size_t i, int operation) const {
    static_assert(EPOLLIN == POLLIN && EPOLLOUT == POLLOUT);
    epoll_event event{};
    event.events = static_cast<std::uint32_t>(tries_[i].attempt->events());
    event.data.u64 = i;
    (void)::epoll_ctl(events_.get(), operation, tries_[i].attempt->fd(), &event);
}

void Dialer::start_due() {
    const auto now = Clock::now();
    for (std::size_t i = 0; i < tries_.size() && now >= next_start_; ++i) {
        auto& one = tries_[i];
        if (one.attempt || !one.next || now < *one.next) {
            continue;
        }
        one.attempt.emplace(target_.addresses[i], target_.port,
                            Session(Session::Role::Worker, target_.key, target_.context, target_.longest_message));
        next_start_ = now + stagger;
        if (one.attempt->error() != 0) {
            note_failure(one);
        } else {
            watch(i, EPOLL_CTL_ADD);
        }
    }
}

void Dialer::note_failure(Try& one) {
    const int code = one.attempt->error();
    one.failures += code == EPROTO ? 1 : most_failures;
    one.problem = code == EPROTO ? "what listens there has closed the connection, or does not have the key of this step"
                                 : std::strerror(code); // NOLINT(concurrency-mt-unsafe): glibc's is safe
    one.attempt.reset();
    const auto pause = code == EPROTO ? longest_pause : pause_after(one.refusals++);
    one.next =
        target_.waits_for_listener || one.failures < most_failures ? std::optional(Clock::now() + pause) : std::nullopt;
    next_start_ = Clock::now(); // the other addresses need not wait after this failure
}

std::optional<Connection> Dialer::work() {
    start_due();
    std::array<epoll_event, 16> ready{};
    const int count = ::epoll_wait(events_.get(), ready.data(), static_cast<int>(ready.size()), 0);
    for (int n = 0; n < count; ++n) {
        const auto i = static_cast<std::size_t>(ready.at(static_cast<std::size_t>(n)).data.u64);
        auto& one = tries_[i];
        watch(i, EPOLL_CTL_DEL); // go_on() may close it, and epoll(7) would keep watching a child's copy
        one.attempt->go_on();
        if (one.attempt->error() != 0) {
            note_failure(one);
        } else if (one.attempt->is_proven()) {
            auto connection = one.attempt->take();
            one.attempt.reset();
            return connection;
        } else {
            watch(i, EPOLL_CTL_ADD);
        }
    }
    return std::nullopt;
}

Clock::time_point Dialer::deadline() const {
    auto next = Clock::now() + std::chrono::hours(1);
    for (const auto& one : tries_) {
        if (!one.attempt && one.next) {
            next = std::min(next, std::max(*one.next, next_start_));
        }
    }
    return next;
}

std::string Dialer::problem() const {
    std::string text;
    for (std::size_t i = 0; i < tries_.size(); ++i) {
        const auto& why = tries_[i].problem;
        text += format_text("{}{} port {}: {}", text.empty() ? "" : "; ", target_.addresses[i].text(), target_.port,
                            why.empty() ? "no answer" : why);
    }
    return text.empty() ? "no address" : text;
}

Result<Connection> dial(DialTarget target, Clock::time_point connected, Clock::time_point deadline) {
    Dialer dialer(std::move(target));
    while (!dialer.is_hopeless()) {
        const auto limit = dialer.is_connected() ? deadline : std::min(connected, deadline);
        if (Clock::now() >= limit) {
            break;
        }
        if (auto connection = dialer.work()) {
            return std::move(*connection);
        }
        pollfd event{dialer.fd(), POLLIN, 0};
        (void)poll_until({&event, 1}, std::min(limit, dialer.deadline()));
    }
    return fail(dialer.problem(), ETIMEDOUT);
}

std::vector<IpAddress> without_own(std::vector<IpAddress> all, const std::vector<IpAddress>& own) {
    const auto is_own = [&own](const IpAddress& one) { return contains(own, one); };
    if (!std::ranges::all_of(all, is_own)) {
        std::erase_if(all, is_own);
    }
    return all;
}

} // namespace rdma_nccl
