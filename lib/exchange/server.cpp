// SPDX-License-Identifier: Apache-2.0
#include "lib/exchange/server.h"

#include "lib/base/format.h"
#include "lib/net/coordinator.h"
#include "lib/net/tcp.h"
#include "lib/sys/signal_fd.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <poll.h>
#include <set>
#include <stop_token>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <system_error>
#include <unistd.h>

namespace rdma_nccl {

namespace {

using std::chrono::milliseconds;
using Clock = Coordinator::Clock;

/// Binds a port of the range. Starts at a random port, so that many sruns on a login node do not try the same ones.
Result<UniqueFd> bind_in(const PortRange& range) {
    const unsigned count = range.last - range.first + 1U;
    unsigned random = 0;
    (void)!::getrandom(&random, sizeof random, 0);
    for (unsigned i = 0; i < count; ++i) {
        auto socket =
            bind_port(static_cast<std::uint16_t>(range.first + (random % count + i) % count), PortSharing::Alone);
        if (socket || socket.error().os_error != EADDRINUSE) {
            return socket;
        }
    }
    return fail(format_text("no port of SrunPortRange {}-{} is free", range.first, range.last), EADDRINUSE);
}

/// Asks whether the step is cancelled, because nothing else tells: slurmstepd is not told before it has started the
/// tasks (_wait_for_job_running(), slurmstepd/req.c), and srun itself waits for the launch. Uses its own thread, as
/// slurmctld may answer slowly.
class CancelPoll {
public:
    explicit CancelPoll(const std::function<bool()>& is_cancelled)
        : thread_([this, &is_cancelled](const std::stop_token& stop) { run(stop, is_cancelled); }) {}

    [[nodiscard]] bool is_cancelled() const { return cancelled_; }
    void stop() { thread_.request_stop(); }

private:
    void run(const std::stop_token& stop, const std::function<bool()>& is_cancelled) {
        constexpr milliseconds pause(500);
        std::mutex mutex;
        std::condition_variable_any never; // wakes for `stop` only
        std::unique_lock lock(mutex);
        while (!cancelled_) {
            never.wait_for(lock, stop, pause, [] { return false; });
            if (stop.stop_requested()) {
                return;
            }
            try {
                cancelled_ = is_cancelled();
            } catch (const std::exception&) { // must not end srun
            }
        }
    }

    std::atomic<bool> cancelled_ = false;
    std::jthread thread_; // the last member, as it uses the other
};

/// The loop that runs in the thread: passes the coordinator's events to the rounds, and the rounds' messages back.
class Loop {
public:
    Loop(Coordinator coordinator, int stop, ExchangeStep step, ExchangeRounds::Report report,
         ExchangeRounds::EndStep end_step, const std::function<bool()>& is_cancelled)
        : coordinator_(std::move(coordinator)), stop_(stop), is_cancelled_(is_cancelled),
          rounds_(
              std::move(step), std::move(report), std::move(end_step),
              [this](int worker, SharedBody body) { coordinator_.send(worker, std::move(body)); }, Clock::now()) {}

    /// Runs until `stop` is written to, and then until all nodes are done or the timeout written there has passed.
    StepEvidence run() {
        while (!(end_ && (rounds_.still_running() == 0 || Clock::now() >= *end_))) {
            wait();
            for (const auto& event : coordinator_.work()) {
                take(event);
            }
            rounds_.pass_time(Clock::now());
            poll_for_cancel();
        }
        return rounds_.take_step_evidence();
    }

private:
    void wait() {
        auto next = rounds_.next_time();
        for (const auto& other : {end_, coordinator_.deadline(), next_cancel_sample()}) {
            next = other ? std::min(next, *other) : next;
        }
        std::array<pollfd, 2> ready = {{{coordinator_.fd(), POLLIN, 0}, {stop_, POLLIN, 0}}};
        (void)poll_until(ready, next);
        std::uint64_t timeout = 0;
        if (ready[1].revents != 0 && ::read(stop_, &timeout, sizeof timeout) == sizeof timeout) {
            end_ = Clock::now() + milliseconds(timeout - 1);
        }
    }

    [[nodiscard]] std::optional<Clock::time_point> next_cancel_sample() const {
        constexpr milliseconds between_samples(100);
        if (!rounds_.holds_nodes() || !may_poll_) {
            return std::nullopt;
        }
        return cancel_ ? Clock::now() + between_samples : start_ + before_polling;
    }

    /// Asks only once nodes have been missing for longer than a launch takes.
    void poll_for_cancel() {
        if (rounds_.answered()) {
            if (cancel_) {
                cancel_->stop();
            }
        } else if (cancel_) {
            if (cancel_->is_cancelled()) {
                rounds_.cancel();
            }
        } else if (may_poll_ && rounds_.holds_nodes() && Clock::now() >= start_ + before_polling) {
            try {
                cancel_.emplace(is_cancelled_);
            } catch (const std::system_error&) { // no thread can be created: do without
                may_poll_ = false;
            }
        }
    }

    void take(const CoordinatorEvent& event) {
        if (event.kind == CoordinatorEvent::Kind::Lost) {
            rounds_.lose(event.worker);
        }
        // A worker that has joined has not said yet which node it is.
        if (event.kind != CoordinatorEvent::Kind::Message || refused_.contains(event.worker)) {
            return;
        }
        auto message = read_node_message(event.body);
        if (!message && message.error().os_error == ENOMSG) {
            return;
        }
        if (!message || !rounds_.take(event.worker, std::move(*message), Clock::now())) {
            refused_.insert(event.worker);
            coordinator_.close(event.worker);
            rounds_.lose(event.worker);
        }
    }

    static constexpr milliseconds before_polling{1000};

    Coordinator coordinator_;
    int stop_;
    const std::function<bool()>& is_cancelled_;
    ExchangeRounds rounds_;
    Clock::time_point start_ = Clock::now();
    std::optional<CancelPoll> cancel_;
    bool may_poll_ = true;
    std::set<int> refused_; ///< refused connections: more messages of them may be in the same batch of events
    std::optional<Clock::time_point> end_;
};

/// Returns the limit for unauthenticated connections: they must leave srun the descriptors that it needs for its nodes.
std::size_t strangers_beside(std::size_t nodes) {
    constexpr rlim_t least = 64;
    constexpr rlim_t most = 1024;
    rlimit limit{};
    const rlim_t needed = 2 * rlim_t{nodes} + 256;
    const bool known = ::getrlimit(RLIMIT_NOFILE, &limit) == 0;
    return known ? std::clamp(limit.rlim_cur - std::min(limit.rlim_cur, needed), least, most) : least;
}

CoordinatorRules rules_for(const ExchangeStep& step, const Key& key) {
    CoordinatorRules rules;
    rules.key = derive_key(key, KeyPurpose::Exchange);
    rules.longest_message = most_from_node;
    rules.expected_workers = step.node_count;
    rules.most_strangers = strangers_beside(step.node_count);
    return rules;
}

} // namespace

Result<ExchangeServer> ExchangeServer::open(const std::optional<PortRange>& range, unsigned seconds, const Key& key) {
    ExchangeEndpoint endpoint{published_addresses(), 0, seconds};
    if (endpoint.addresses.empty()) {
        return fail("this host has no address that nodes could connect to");
    }
    auto socket = range ? bind_in(*range) : bind_port(0, PortSharing::Alone);
    if (!socket) {
        return tl::unexpected(socket.error());
    }
    endpoint.port = local_port(socket->get());
    UniqueFd stop(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!stop) {
        return os_failure("eventfd");
    }
    return ExchangeServer(std::move(*socket), std::move(stop), std::move(endpoint), key);
}

Result<void> ExchangeServer::start(std::function<ExchangeStep()> know, ExchangeRounds::Report report,
                                   ExchangeRounds::EndStep end_step, std::function<bool()> is_cancelled) {
    if (::listen(socket_.get(), INT_MAX) != 0) {
        return os_failure(format_text("listen on port {}", endpoint_.port));
    }
    evidence_ = std::make_shared<StepEvidence>();
    // The listener is destroyed with the thread, and then nothing listens any more.
    auto thread = thread_without_signals(
        [evidence = evidence_, listener = std::move(socket_), stop = stop_.get(), key = key_, know = std::move(know),
         report = std::move(report), end_step = std::move(end_step), is_cancelled = std::move(is_cancelled)]() mutable {
            try {
                auto step = know();
                auto coordinator = Coordinator::make(std::move(listener), rules_for(step, key));
                if (coordinator) {
                    *evidence =
                        Loop(std::move(*coordinator), stop, std::move(step), report, end_step, is_cancelled).run();
                } else {
                    report(format_text("warning: {}: each node plans alone", coordinator.error().message));
                }
            } catch (const std::exception& fault) {
                listener.reset();
                report(format_text("fault in the exchange: {}; each node plans alone", fault.what()));
            }
        });
    if (!thread) {
        return fail(format_text("the exchange's thread cannot start: {}", thread.error().message),
                    thread.error().os_error);
    }
    thread_ = std::move(*thread);
    return {};
}

std::optional<StepEvidence> ExchangeServer::finish(milliseconds timeout) {
    if (!thread_.joinable()) {
        return std::nullopt;
    }
    const auto value = static_cast<std::uint64_t>(timeout.count()) + 1;
    (void)!::write(stop_.get(), &value, sizeof value);
    thread_.join();
    return std::move(*evidence_);
}

ExchangeServer::~ExchangeServer() {
    (void)finish(milliseconds(0));
}

} // namespace rdma_nccl
