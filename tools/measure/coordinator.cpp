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

namespace rdma_nccl {

namespace {

/// Limit in bytes of unsent messages for a member that does not read.
constexpr std::size_t most_unsent = std::size_t{16} << 20;

/// Each member stays connected to the end. 1,000 nodes with 8 tasks need 8,000 descriptors, but the soft limit is often
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

class Head final : public MeasureHead {
public:
    Head(MeasureWorld world, Coordinator coordinator)
        : world_(std::move(world)), coordinator_(std::move(coordinator)), workers_(world_.members, nobody) {}

    MeasureEvent next(MeasureClock::time_point deadline) override {
        for (bool waited = false; events_.empty(); waited = true) {
            if (waited && MeasureClock::now() >= deadline) {
                return {};
            }
            wait(std::min(deadline, coordinator_.deadline().value_or(deadline)));
            take_signals();
            for (auto& event : coordinator_.work()) {
                take(event);
            }
            tell_of_descriptors();
        }
        auto event = std::move(events_.front());
        events_.pop_front();
        return event;
    }

    void send(unsigned member, const Json& message) override {
        if (has(member)) {
            coordinator_.send(workers_[member], measure_text(message));
        }
    }

    [[nodiscard]] bool has(unsigned member) const override {
        return member < workers_.size() && coordinator_.has(workers_[member]);
    }

    [[nodiscard]] std::uint16_t port() const override { return coordinator_.port(); }

private:
    static constexpr int nobody = -1;

    void wait(MeasureClock::time_point until) const {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - MeasureClock::now()).count();
        std::array<pollfd, 2> items{{{signals_.fd(), POLLIN, 0}, {coordinator_.fd(), POLLIN, 0}}};
        (void)::poll(items.data(), items.size(), static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000)));
    }

    void take_signals() {
        while (auto name = signals_.next()) {
            events_.push_back({MeasureEvent::Kind::Interrupted, 0, {}, std::move(*name)});
        }
    }

    void take(CoordinatorEvent& event) {
        if (event.kind == CoordinatorEvent::Kind::Joined) {
            members_[event.worker]; // its first message will hold its number
            return;
        }
        const auto found = members_.find(event.worker);
        if (found == members_.end()) {
            return; // its hello was refused
        }
        auto& member = found->second;
        if (event.kind == CoordinatorEvent::Kind::Lost) {
            lose(event.worker, member, std::move(event.why));
            return;
        }
        auto message = read_measure_text(event.body);
        if (message && member) {
            events_.push_back({MeasureEvent::Kind::Message, *member, std::move(*message), {}});
        } else if (!message || !greet(event.worker, member, *message)) {
            coordinator_.close(event.worker);
            lose(event.worker, member, "it says what is no answer");
        }
    }

    void lose(int worker, std::optional<unsigned> member, std::string why) {
        if (member) {
            events_.push_back({MeasureEvent::Kind::Lost, *member, {}, std::move(why)});
        }
        members_.erase(worker);
    }

    /// Returns false for a number that the world does not have, or that is already taken: a lost member does not come
    /// back.
    bool greet(int worker, std::optional<unsigned>& member, Json& message) {
        const auto number = message.value("member", Json()).integer<unsigned>();
        if (!number || *number >= workers_.size() || !message.value("hello", Json()).is_object()) {
            return false;
        }
        auto& known = workers_[*number];
        if (known != nobody) {
            return false;
        }
        known = worker;
        member = number;
        events_.push_back({MeasureEvent::Kind::Joined, *member, std::move(message["hello"]), {}});
        return true;
    }

    void tell_of_descriptors() {
        if (const int error = coordinator_.accept_error(); error != 0 && !std::exchange(told_, true)) {
            print_error(format_text(
                "{}: warning: with {} connections no more can be accepted: {}; {} members are to connect: raise the "
                "hard limit of open files (ulimit -Hn, LimitNOFILE of slurmd), or start one task on each node",
                world_.node, coordinator_.connections(), std::strerror(error), // NOLINT(concurrency-mt-unsafe)
                world_.members));
        }
    }

    MeasureWorld world_;
    EndSignals signals_;
    Coordinator coordinator_;
    std::vector<int> workers_;                                 ///< the coordinator's worker of each member
    std::unordered_map<int, std::optional<unsigned>> members_; ///< by worker; absent until it has sent its number
    bool told_ = false;                                        ///< whether it has reported that descriptors ran out
    std::deque<MeasureEvent> events_;
};

} // namespace

Result<std::unique_ptr<MeasureHead>> MeasureHead::listen(const MeasureWorld& world) {
    raise_descriptor_limit();
    // The step holds this port without listening, so it is shared (lib/plan/port_block.h).
    auto listener = listen_on(world.port, PortSharing::Reuse);
    if (!listener) {
        const auto who = listening_text(world.port);
        return fail(format_text("{}: cannot listen on port {}: {}; {}", world.node, world.port,
                                listener.error().message,
                                who.empty() ? "is another program of this step using MASTER_PORT?" : who),
                    listener.error().os_error);
    }
    return Coordinator::make(std::move(*listener), {.key = world.key,
                                                    .context = {},
                                                    .longest_message = most_measure_message,
                                                    .most_unsent = most_unsent,
                                                    .expected_workers = world.members})
        .map([&world](Coordinator&& coordinator) -> std::unique_ptr<MeasureHead> {
            return std::make_unique<Head>(world, std::move(coordinator));
        });
}

void shutdown_workers(MeasureHead& head, unsigned members, std::chrono::milliseconds limit, bool absent) {
    const Json end = {{"do", "end"}};
    const auto until = MeasureClock::now() + limit;
    std::set<unsigned> awaited;
    for (unsigned member = 0; member < members; ++member) {
        head.send(member, end);
        if (head.has(member) || (absent && member != 0)) {
            awaited.insert(awaited.end(), member);
        }
    }
    while (!awaited.empty() && MeasureClock::now() < until) {
        const auto event = head.next(until);
        if (event.kind == MeasureEvent::Kind::Interrupted) {
            return;
        }
        if (event.kind == MeasureEvent::Kind::Lost) {
            awaited.erase(event.member);
        } else if (event.kind == MeasureEvent::Kind::Joined) {
            awaited.insert(event.member);
            head.send(event.member, end);
        }
    }
}

} // namespace rdma_nccl
