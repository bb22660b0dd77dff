// SPDX-License-Identifier: Apache-2.0
#include "lib/net/coordinator.h"
#include "lib/base/format.h"
#include "lib/base/json.h"
#include "lib/net/listeners.h"
#include "lib/net/tcp.h"
#include "tools/common/print.h"
#include "tools/measure/channel.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <deque>
#include <poll.h>
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

/// Each worker stays connected to the end. 1,000 nodes with 8 tasks need 8,000 descriptors, but the soft limit is often
/// 1,024.
void raise_descriptor_limit() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        (void)::setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/// Blocks INT, TERM and HUP and reads them from a descriptor.
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
    /// Returns "SIGINT", or nullopt if no signal has come.
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

/// The workers' connections; lib/net calls their listening side the coordinator, too.
using Connections = rdma_nccl::Coordinator;

class ListeningCoordinator final : public Coordinator {
public:
    ListeningCoordinator(World world, Connections connections)
        : world_(std::move(world)), connections_(std::move(connections)), ids_(world_.workers, not_joined) {}

    Event next(Clock::time_point deadline) override {
        for (bool waited = false; events_.empty(); waited = true) {
            if (waited && Clock::now() >= deadline) {
                return {};
            }
            wait(std::min(deadline, connections_.deadline().value_or(deadline)));
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
            connections_.send(ids_[worker], format_message(message));
        }
    }

    [[nodiscard]] bool has(unsigned worker) const override {
        return worker < ids_.size() && connections_.has(ids_[worker]);
    }

    [[nodiscard]] std::uint16_t port() const override { return connections_.port(); }

private:
    static constexpr int not_joined = -1;

    void wait(Clock::time_point until) const {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
        std::array<pollfd, 2> items{{{signals_.fd(), POLLIN, 0}, {connections_.fd(), POLLIN, 0}}};
        (void)::poll(items.data(), items.size(), static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000)));
    }

    void take_signals() {
        while (auto name = signals_.next()) {
            events_.push_back({Event::Kind::Interrupted, 0, {}, std::move(*name)});
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
            lose(event.worker, worker, std::move(event.why));
            return;
        }
        auto message = parse_message(event.body);
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

    /// Returns false for a number that the world does not have, or that is already taken: a lost worker does not come
    /// back.
    bool greet(int id, std::optional<unsigned>& worker, Json& message) {
        const auto number = message.value("member", Json()).integer<unsigned>();
        if (!number || *number >= ids_.size() || !message.value("hello", Json()).is_object()) {
            return false;
        }
        auto& known_id = ids_[*number];
        if (known_id != not_joined) {
            return false;
        }
        known_id = id;
        worker = number;
        events_.push_back({Event::Kind::Joined, *worker, std::move(message["hello"]), {}});
        return true;
    }

    void report_descriptors() {
        if (const int error = connections_.accept_error(); error != 0 && !std::exchange(reported_, true)) {
            print_error(format_text(
                "{}: warning: with {} connections no more can be accepted: {}; {} members are to connect: raise the "
                "hard limit of open files (ulimit -Hn, LimitNOFILE of slurmd), or start one task on each node",
                world_.node, connections_.connections(), std::strerror(error), // NOLINT(concurrency-mt-unsafe)
                world_.workers));
        }
    }

    World world_;
    EndSignals signals_;
    Connections connections_;
    std::vector<int> ids_;                                     ///< the connection of each worker
    std::unordered_map<int, std::optional<unsigned>> numbers_; ///< by connection; absent until it has sent its number
    bool reported_ = false;                                    ///< whether it has reported that descriptors ran out
    std::deque<Event> events_;
};

} // namespace

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

} // namespace rdma_nccl::measure
