// SPDX-License-Identifier: Apache-2.0
#include "lib/format.h"
#include "lib/net/listeners.h"
#include "lib/tcp.h"
#include "tools/measure_control.h"
#include "tools/measure_greeting.h"
#include "tools/print.h"
#include "tools/run_secret.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <deque>
#include <set>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unordered_map>
#include <utility>

namespace rdma_nccl {

namespace {

using std::chrono::milliseconds;

/// Who connects must say who it is in this time, and in so many bytes.
constexpr std::chrono::seconds greeting_time(5);
constexpr std::size_t longest_greeting = 256;
/// Strangers that may be connected at the same time, beside members that come all at once.
constexpr std::size_t most_strangers = 64;
/// Without descriptors nobody is accepted for so long: the listener would be ready all the time.
constexpr std::chrono::milliseconds accept_pause(500);
/// What may wait for a member that takes nothing, in bytes.
constexpr std::size_t most_unsent = std::size_t{16} << 20;

struct Connection {
    UniqueFd socket;
    MeasureClock::time_point since;
    std::optional<unsigned> member; ///< once it has greeted
    bool joined = false;            ///< has said what it is
    MessageStream in{longest_greeting};
    std::string unsent;
    std::string lost; ///< why it is to be closed; empty: it is not
};

/// Every member keeps its connection to the end: 1,000 nodes of 8 tasks need 8,000, and the soft limit is often 1,024.
void raise_descriptor_limit() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        (void)::setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/// INT, TERM and HUP blocked, and read from a descriptor.
class EndSignals {
public:
    EndSignals() {
        (void)::sigemptyset(&set_);
        for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
            (void)::sigaddset(&set_, number);
        }
        (void)::pthread_sigmask(SIG_BLOCK, &set_, &before_);
        fd_.reset(::signalfd(-1, &set_, SFD_NONBLOCK | SFD_CLOEXEC));
    }
    ~EndSignals() { (void)::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    EndSignals(const EndSignals&) = delete;
    EndSignals& operator=(const EndSignals&) = delete;

    [[nodiscard]] int fd() const { return fd_.get(); }
    /// "SIGINT"; nullopt when none has come.
    [[nodiscard]] std::optional<std::string> next() const {
        signalfd_siginfo info{};
        if (::read(fd_.get(), &info, sizeof info) != static_cast<ssize_t>(sizeof info)) {
            return std::nullopt;
        }
        const char* const name = ::sigabbrev_np(static_cast<int>(info.ssi_signo));
        return format_text("SIG{}", name != nullptr ? name : "?");
    }

private:
    sigset_t set_{}, before_{};
    UniqueFd fd_;
};

class Head final : public MeasureHead {
public:
    Head(MeasureWorld world, UniqueFd listener, UniqueFd epoll)
        : world_(std::move(world)), listener_(std::move(listener)), epoll_(std::move(epoll)),
          members_(world_.members, nullptr), have_joined_(world_.members, false) {
        watch(listener_.get(), EPOLL_CTL_ADD, EPOLLIN);
        watch(signals_.fd(), EPOLL_CTL_ADD, EPOLLIN);
    }

    MeasureEvent next(MeasureClock::time_point deadline) override {
        for (bool waited = false;; waited = true) {
            if (!events_.empty()) {
                auto event = std::move(events_.front());
                events_.pop_front();
                return event;
            }
            const auto now = MeasureClock::now();
            if (waited && now >= deadline) {
                return {};
            }
            wait(
                std::clamp(deadline - now, MeasureClock::duration(0), MeasureClock::duration(std::chrono::seconds(1))));
            close_lost();
        }
    }

    void send(unsigned member, const nlohmann::json& message) override {
        if (has(member)) {
            auto& connection = *members_[member];
            connection.unsent += with_length(measure_text(message));
            flush(connection);
        }
    }

    [[nodiscard]] bool has(unsigned member) const override {
        return member < members_.size() && members_[member] != nullptr && members_[member]->joined &&
               members_[member]->lost.empty();
    }

    [[nodiscard]] std::uint16_t port() const override { return local_port(listener_.get()); }

private:
    void watch(int fd, int operation, std::uint32_t what) const {
        epoll_event event{};
        event.events = what;
        event.data.fd = fd;
        (void)::epoll_ctl(epoll_.get(), operation, fd, &event);
    }

    void wait(MeasureClock::duration time) {
        std::array<epoll_event, 64> ready{};
        const auto pause = accept_after_ - MeasureClock::now();
        const bool paused = pause > MeasureClock::duration(0);
        const bool accepts = !paused && strangers_.size() < most_strangers;
        watch(listener_.get(), EPOLL_CTL_MOD, accepts ? std::uint32_t{EPOLLIN} : 0U);
        const auto left = std::chrono::ceil<milliseconds>(paused ? std::min(time, pause) : time).count();
        const int count =
            ::epoll_wait(epoll_.get(), ready.data(), static_cast<int>(ready.size()), static_cast<int>(left));
        for (int i = 0; i < count; ++i) {
            const auto& event = ready[static_cast<std::size_t>(i)];
            if (event.data.fd == listener_.get()) {
                accept_all();
            } else if (event.data.fd == signals_.fd()) {
                take_signals();
            } else if (const auto found = connections_.find(event.data.fd); found != connections_.end()) {
                serve(found->second, event.events);
            }
        }
        drop_silent_strangers();
    }

    void take_signals() {
        while (auto name = signals_.next()) {
            events_.push_back({MeasureEvent::Kind::Interrupted, 0, {}, std::move(*name)});
        }
    }

    void accept_all() {
        while (strangers_.size() < most_strangers) {
            UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
            if (!socket) {
                if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
                    pause_accepting(errno);
                }
                return;
            }
            watch_connection(socket.get());
            const int fd = socket.get();
            auto& connection = connections_[fd];
            connection.socket = std::move(socket);
            connection.since = MeasureClock::now();
            strangers_.insert(fd);
            watch(fd, EPOLL_CTL_ADD, EPOLLIN);
        }
    }

    void pause_accepting(int error) {
        accept_after_ = MeasureClock::now() + accept_pause;
        if (!std::exchange(told_of_pause_, true)) {
            print_error(format_text(
                "{}: warning: with {} connections no more can be accepted: {}; {} members are to connect: raise the "
                "hard limit of open files (ulimit -Hn, LimitNOFILE of slurmd), or start one task on each node",
                world_.node, connections_.size(), std::strerror(error), // NOLINT(concurrency-mt-unsafe): one thread
                world_.members));
        }
    }

    void lose(Connection& connection, std::string why) {
        connection.lost = std::move(why);
        lost_.insert(connection.socket.get());
    }

    void serve(Connection& connection, std::uint32_t events) {
        if ((events & EPOLLOUT) != 0) {
            flush(connection);
        }
        if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) {
            receive(connection);
        }
    }

    void receive(Connection& connection) {
        std::array<char, 65536> bytes{};
        // What has come is read before its end is noticed.
        while (connection.lost.empty()) {
            const auto room = std::min(bytes.size(), connection.in.room());
            const ssize_t size = ::recv(connection.socket.get(), bytes.data(), room, 0);
            if (size < 0 && errno == EINTR) {
                continue;
            }
            if (size < 0 && errno == EAGAIN) {
                return;
            }
            if (size <= 0) {
                lose(connection, size == 0 ? "its process has ended"
                                           : format_text("its connection broke: {}",
                                                         std::strerror(errno))); // NOLINT(concurrency-mt-unsafe)
                return;
            }
            connection.in.append({bytes.data(), static_cast<std::size_t>(size)});
            take_messages(connection);
        }
    }

    void take_messages(Connection& connection) {
        while (connection.lost.empty()) {
            auto body = connection.in.next();
            if (!body) {
                lose(connection, body.error().message);
            } else if (!*body) {
                return;
            } else if (!connection.member) {
                greet(connection, **body);
            } else {
                take(connection, **body);
            }
        }
    }

    void greet(Connection& connection, std::string_view greeting) {
        const auto member = member_of(greeting, world_);
        if (!member || members_[*member] != nullptr || have_joined_[*member]) {
            lose(connection, "a stranger");
            return;
        }
        connection.member = member;
        strangers_.erase(connection.socket.get());
        connection.in = MessageStream(most_measure_message);
        members_[*member] = &connection;
        connection.unsent += with_length(answer_of(world_.secret));
        flush(connection);
    }

    void take(Connection& connection, std::string_view body) {
        auto message = nlohmann::json::parse(body, nullptr, false);
        if (!message.is_object()) {
            lose(connection, "it says what is no JSON object");
            return;
        }
        const auto kind = connection.joined ? MeasureEvent::Kind::Message : MeasureEvent::Kind::Joined;
        connection.joined = true;
        have_joined_[*connection.member] = true;
        events_.push_back({kind, *connection.member, std::move(message), {}});
    }

    void flush(Connection& connection) {
        std::size_t sent = 0;
        while (sent < connection.unsent.size() && connection.lost.empty()) {
            const ssize_t size = ::send(connection.socket.get(), connection.unsent.data() + sent,
                                        connection.unsent.size() - sent, MSG_NOSIGNAL);
            if (size > 0) {
                sent += static_cast<std::size_t>(size);
            } else if (errno == EAGAIN) {
                break;
            } else if (errno != EINTR) {
                lose(connection, "its process has ended");
            }
        }
        connection.unsent.erase(0, sent);
        if (connection.unsent.size() > most_unsent) {
            lose(connection, "it takes no messages");
        }
        watch(connection.socket.get(), EPOLL_CTL_MOD, connection.unsent.empty() ? EPOLLIN : EPOLLIN | EPOLLOUT);
    }

    void drop_silent_strangers() {
        const auto now = MeasureClock::now();
        for (const int fd : strangers_) {
            auto& connection = connections_.at(fd);
            if (now - connection.since > greeting_time) {
                lose(connection, "a stranger");
            }
        }
    }

    void close_lost() {
        for (const int fd : lost_) {
            const auto item = connections_.find(fd);
            const auto& connection = item->second;
            if (connection.member) {
                members_[*connection.member] = nullptr;
                if (connection.joined) {
                    events_.push_back({MeasureEvent::Kind::Lost, *connection.member, {}, connection.lost});
                }
            }
            strangers_.erase(fd);
            connections_.erase(item);
        }
        lost_.clear();
    }

    MeasureWorld world_;
    EndSignals signals_;
    UniqueFd listener_, epoll_;
    std::unordered_map<int, Connection> connections_; ///< by descriptor; their addresses stay
    std::set<int> strangers_, lost_;                  ///< descriptors: who has not greeted, who is to be closed
    MeasureClock::time_point accept_after_;
    bool told_of_pause_ = false;
    std::vector<Connection*> members_;
    std::vector<bool> have_joined_; ///< who is lost does not come back
    std::deque<MeasureEvent> events_;
};

} // namespace

Result<std::unique_ptr<MeasureHead>> MeasureHead::listen(const MeasureWorld& world) {
    raise_descriptor_limit();
    // A port that the step holds without listening is shared (lib/port_hold.h).
    auto listener = listen_on(world.port, PortSharing::Reuse);
    if (!listener) {
        const auto who = listening_text(world.port);
        return fail(format_text("{}: cannot listen on port {}: {}; {}", world.node, world.port,
                                listener.error().message,
                                who.empty() ? "is another program of this step using MASTER_PORT?" : who),
                    listener.error().os_error);
    }
    UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
    if (!epoll) {
        return fail("no epoll descriptor", errno);
    }
    return std::make_unique<Head>(world, std::move(*listener), std::move(epoll));
}

} // namespace rdma_nccl
