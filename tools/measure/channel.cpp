// SPDX-License-Identifier: Apache-2.0
#include "tools/measure/channel.h"

#include "lib/base/format.h"
#include "lib/net/coordinator.h"
#include "lib/net/dialer.h"
#include "lib/net/listeners.h"
#include "lib/net/message.h"
#include "lib/net/tcp.h"
#include "tools/common/print.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <deque>
#include <set>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>
#include <unordered_map>
#include <utility>

namespace rdma_nccl::measure {

namespace {

/// Limit in bytes of unsent messages for a worker that does not read.
constexpr std::size_t most_unsent = std::size_t{16} << 20;
/// The longest time that the coordinator may accept no byte of an answer.
constexpr std::chrono::seconds send_time(10);

/// 1,000 nodes with 8 tasks, which stay connected, need 8,000 descriptors; the soft limit is often 1,024.
void raise_descriptor_limit() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        (void)::setrlimit(RLIMIT_NOFILE, &limit);
    }
}

sigset_t block_signals(std::initializer_list<int> numbers, sigset_t* before) {
    sigset_t set{};
    (void)::sigemptyset(&set);
    for (const int number : numbers) {
        (void)::sigaddset(&set, number);
    }
    (void)::pthread_sigmask(SIG_BLOCK, &set, before);
    return set;
}

/// The workers' connections; lib/net calls their listening side the coordinator, too.
using Connections = rdma_nccl::Coordinator;

class ListeningCoordinator final : public Coordinator {
public:
    ListeningCoordinator(const World& world, Connections connections)
        : node_(world.node), connections_(std::move(connections)), ids_(world.workers, not_joined) {
        const auto set = block_signals({SIGINT, SIGTERM, SIGHUP}, &mask_before_);
        signals_.reset(::signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
    }
    ListeningCoordinator(const ListeningCoordinator&) = delete;
    ListeningCoordinator& operator=(const ListeningCoordinator&) = delete;
    ~ListeningCoordinator() override { (void)::pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr); }

    Event next(Clock::time_point deadline) override {
        for (bool waited = false; events_.empty(); waited = true) {
            if (waited && Clock::now() >= deadline) {
                return {};
            }
            std::array<pollfd, 2> items{{{signals_.get(), POLLIN, 0}, {connections_.fd(), POLLIN, 0}}};
            (void)poll_until(items, std::min(deadline, connections_.deadline().value_or(deadline)));
            take_signals();
            for (auto& event : connections_.work()) {
                take(event);
            }
            report_descriptors();
        }
        auto event = std::move(events_.front());
        events_.pop_front();
        return event;
    }

    void send(unsigned worker, const Json& message) override {
        if (has(worker)) {
            connections_.send(ids_[worker], message.dump());
        }
    }

    [[nodiscard]] bool has(unsigned worker) const override {
        return worker < ids_.size() && connections_.has(ids_[worker]);
    }

    [[nodiscard]] std::uint16_t port() const override { return connections_.port(); }

private:
    static constexpr int not_joined = -1;

    void take_signals() {
        signalfd_siginfo info{};
        while (::read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
            const char* const name = ::sigabbrev_np(static_cast<int>(info.ssi_signo));
            events_.push_back({Event::Kind::Interrupted, 0, {}, format_text("SIG{}", name != nullptr ? name : "?")});
        }
    }

    void take(CoordinatorEvent& event) {
        if (event.kind == CoordinatorEvent::Kind::Joined) {
            numbers_[event.worker]; // its first message will hold its number
            return;
        }
        const auto found = numbers_.find(event.worker);
        if (found == numbers_.end()) {
            return; // its hello was refused
        }
        auto& worker = found->second;
        if (event.kind == CoordinatorEvent::Kind::Lost) {
            return lose(event.worker, worker, std::move(event.why));
        }
        auto message = parse_json_object(event.body);
        if (message && worker) {
            events_.push_back({Event::Kind::Message, *worker, std::move(*message), {}});
        } else if (!message || !greet(event.worker, worker, *message)) {
            connections_.close(event.worker);
            lose(event.worker, worker, "it says what is no answer");
        }
    }

    void lose(int id, std::optional<unsigned> worker, std::string why) {
        if (worker) {
            events_.push_back({Event::Kind::Lost, *worker, {}, std::move(why)});
        }
        numbers_.erase(id);
    }

    /// Returns false for a number that is not in the world, or taken: a lost worker does not come back.
    bool greet(int id, std::optional<unsigned>& worker, Json& message) {
        const auto number = message.value("member", Json()).integer<unsigned>();
        if (!number || *number >= ids_.size() || ids_[*number] != not_joined ||
            !message.value("hello", Json()).is_object()) {
            return false;
        }
        ids_[*number] = id;
        worker = number;
        events_.push_back({Event::Kind::Joined, *worker, std::move(message["hello"]), {}});
        return true;
    }

    void report_descriptors() {
        if (const int error = connections_.accept_error(); error != 0 && !std::exchange(reported_, true)) {
            print_error(format_text(
                "{}: warning: with {} connections no more can be accepted: {}; {} members are to connect: raise the "
                "hard limit of open files (ulimit -Hn, LimitNOFILE of slurmd), or start one task on each node",
                node_, connections_.connections(), std::strerror(error), // NOLINT(concurrency-mt-unsafe)
                ids_.size()));
        }
    }

    std::string node_;
    sigset_t mask_before_{};
    UniqueFd signals_; ///< signalfd(2)
    Connections connections_;
    std::vector<int> ids_;                                     ///< the connection of each worker
    std::unordered_map<int, std::optional<unsigned>> numbers_; ///< by connection; absent until it has sent its number
    bool reported_ = false;                                    ///< whether it has reported that descriptors ran out
    std::deque<Event> events_;
};

} // namespace

bool wait_for(int fd, short events, Clock::time_point deadline) {
    std::array item{pollfd{fd, events, 0}};
    while (poll_until(item, deadline) <= 0) {
        if (Clock::now() >= deadline) {
            return false;
        }
    }
    return true;
}

Result<std::unique_ptr<Coordinator>> Coordinator::listen(const World& world) {
    raise_descriptor_limit();
    // The step holds this port without listening, so it is shared (lib/plan/port_block.h).
    auto listener = listen_on(world.port, PortSharing::Reuse);
    if (!listener) {
        const auto who = format_listeners(world.port);
        return fail(format_text("{}: cannot listen on port {}: {}; {}", world.node, world.port,
                                listener.error().message,
                                who.empty() ? "is another program of this step using MASTER_PORT?" : who),
                    listener.error().os_error);
    }
    return Connections::make(std::move(*listener), {.key = world.key,
                                                    .context = {},
                                                    .longest_message = max_message_bytes,
                                                    .most_unsent = most_unsent,
                                                    .expected_workers = world.workers})
        .map([&world](Connections&& connections) -> std::unique_ptr<Coordinator> {
            return std::make_unique<ListeningCoordinator>(world, std::move(connections));
        });
}

void shutdown_workers(Coordinator& coordinator, unsigned workers, std::chrono::milliseconds limit, bool absent) {
    const Json end = {{"do", "end"}};
    const auto until = Clock::now() + limit;
    std::set<unsigned> awaited;
    for (unsigned worker = 0; worker < workers; ++worker) {
        coordinator.send(worker, end);
        if (coordinator.has(worker) || (absent && worker != 0)) {
            awaited.insert(awaited.end(), worker);
        }
    }
    while (!awaited.empty() && Clock::now() < until) {
        const auto event = coordinator.next(until);
        if (event.kind == Event::Kind::Interrupted) {
            return;
        }
        if (event.kind == Event::Kind::Lost) {
            awaited.erase(event.worker);
        } else if (event.kind == Event::Kind::Joined) {
            awaited.insert(event.worker);
            coordinator.send(event.worker, end);
        }
    }
}

Result<Worker> Worker::join(const World& world, const Json& hello, Clock::time_point deadline) {
    (void)block_signals({SIGINT, SIGTERM}, nullptr);
    const auto address = world.coordinator ? *world.coordinator : *IpAddress::parse("127.0.0.1");
    auto connection = dial({{address}, world.port, world.key, {}, max_message_bytes, true}, deadline, deadline);
    if (!connection) {
        return fail(format_text("{}: the head cannot be reached: {}; is its process running, and does a firewall let "
                                "TCP through?",
                                world.node, connection.error().message));
    }
    Worker worker(std::move(*connection));
    return worker.send({{"member", world.worker}, {"hello", hello}}).map([&] { return std::move(worker); });
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
    auto order = parse_json_object(*std::exchange(waiting_, connection_.next_message()));
    if (!order) {
        return fail("the head says what is no order");
    }
    return order;
}

Result<void> Worker::send(const Json& message) {
    connection_.send(std::make_shared<const std::string>(message.dump()));
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
