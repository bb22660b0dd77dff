// SPDX-License-Identifier: Apache-2.0
#include "tools/run/control/control.h"

#include "lib/base/format.h"
#include "lib/net/dialer.h"

#include <concepts>
#include <map>
#include <sys/epoll.h>

namespace rdma_nccl::run {

namespace {

using Clock = std::chrono::steady_clock;
using Time = Control::Time;

constexpr std::chrono::milliseconds retry_after(200);

/// The connection to the coordinator, or the attempts to get one.
class CoordinatorLink {
public:
    explicit CoordinatorLink(const ControlSettings& settings)
        : settings_(settings), events_(::epoll_create1(EPOLL_CLOEXEC)) {
        if (!events_ || settings_.addresses.empty()) {
            problem_ = events_ ? "its address is not known" : "no descriptor is left (epoll)";
        }
    }

    [[nodiscard]] int fd() const { return events_.get(); }
    [[nodiscard]] bool can_dial() const { return events_ && !settings_.addresses.empty(); }
    [[nodiscard]] bool is_open() const { return connection_.has_value(); }
    /// Returns the time by which dial() must be called.
    [[nodiscard]] Time deadline() const { return dialer_ ? dialer_->deadline() : next_try_; }
    [[nodiscard]] std::string problem() const {
        return "no connection to the launcher of rank 0: " + (dialer_ ? dialer_->problem() : problem_);
    }

    /// Returns true once there is a connection.
    bool dial(Time now) {
        if (!dialer_ && now < next_try_) {
            return false;
        }
        if (!dialer_) {
            dialer_.emplace(DialTarget{settings_.addresses, settings_.port, *settings_.key, settings_.context,
                                       most_control_line, true});
            watch(dialer_->fd(), EPOLL_CTL_ADD, EPOLLIN);
        }
        connection_ = dialer_->work();
        if (connection_) {
            hang_up_dialer();
            problem_ = "it does not take this launcher";
            watch(connection_->fd(), EPOLL_CTL_ADD, EPOLLIN);
        }
        return is_open();
    }

    /// Calls `take` with each message that has arrived, nullptr for one that is not valid. Returns why the connection
    /// is over; nullopt if it is not.
    template<typename Take>
    std::optional<std::string> read(Take take) {
        const bool open = connection_->read();
        while (const auto body = connection_->next_message()) {
            const auto message = read_message<ControlMessage>(*body);
            take(message ? &*message : nullptr);
        }
        if (!open) {
            return connection_->why_over();
        }
        flush();
        return std::nullopt;
    }

    void send(const ControlMessage& message) {
        if (connection_) {
            connection_->send(std::make_shared<const std::string>(write_message(message)));
            flush();
        }
    }

    /// Closes everything; the next attempt may follow at `next_try`.
    void close(Time next_try) {
        hang_up_dialer();
        if (connection_) {
            watch(connection_->fd(), EPOLL_CTL_DEL);
            connection_.reset();
        }
        next_try_ = next_try;
    }

private:
    void watch(int fd, int operation, std::uint32_t what = 0) const {
        epoll_event event{};
        event.events = what;
        (void)::epoll_ctl(events_.get(), operation, fd, &event);
    }

    void hang_up_dialer() {
        if (dialer_) {
            watch(dialer_->fd(), EPOLL_CTL_DEL);
            dialer_.reset();
        }
    }

    void flush() {
        connection_->write(); // if it fails, read() finds out, after the last messages of the coordinator
        watch(connection_->fd(), EPOLL_CTL_MOD, connection_->wants_to_write() ? EPOLLIN | EPOLLOUT : EPOLLIN);
    }

    const ControlSettings& settings_;
    UniqueFd events_; ///< epoll instance with the dialer or the connection
    std::optional<Dialer> dialer_;
    std::optional<Connection> connection_;
    std::string problem_;
    Time next_try_ = Clock::now();
};

class WorkerControl final : public Control {
public:
    WorkerControl(ControlSettings settings, ArbiterRules own)
        : Control(std::move(settings), std::move(own)), link_(settings_) {
        if (!settings_.key || !link_.can_dial()) {
            decide_alone(settings_.key ? link_.problem() : settings_.key.error().message);
        }
    }

    [[nodiscard]] int fd() const override { return link_.fd(); }

    [[nodiscard]] std::optional<Time> deadline() const override {
        if (is_over()) {
            return std::nullopt;
        }
        if (state_ == State::Joined) {
            return heartbeat_.deadline();
        }
        return state_ == State::Greeting ? join_deadline_ : std::min(join_deadline_, link_.deadline());
    }

    void report_failure(const RankFailure& failure, Time when) override {
        Control::report_failure(failure, when);
        failures_[{failure.attempt, failure.rank}] = {failure, when};
        send_failure(failure, when);
    }
    void report_dump(const RankDump& dump) override {
        Control::report_dump(dump);
        dumps_.push_back(dump);
        send_if_joined(DumpNotice{dump});
    }
    void report_ended(const Ended& what) override {
        Control::report_ended(what);
        ended_ = what;
        send_if_joined(what);
    }
    void report_signal(const SignalCount& count) override {
        Control::report_signal(count);
        signals_[count.signal] = count.count;
        send_if_joined(count);
    }
    void report_activity(bool moved) override { moved_ = moved_ || moved; }
    /// Returns this node's own arbiter if there is no coordinator, or if it was lost before it restarted or finished
    /// the job. Otherwise the coordinator decided.
    [[nodiscard]] const Arbiter* arbiter() const override {
        return is_over() && attempt_ == 0 && !finished_ ? &arbiter_ : nullptr;
    }

    std::vector<Order> process(Time now) override {
        if (!is_over()) {
            advance(now);
        }
        return state_ == State::WithoutCoordinator ? arbiter_.take_orders() : std::exchange(orders_, {});
    }

private:
    enum class State {
        Connecting,
        Greeting, ///< has sent Hello
        Joined,
        WithoutCoordinator, ///< there never was one: this node's own arbiter decides; final
        CoordinatorLost,    ///< final
    };

    [[nodiscard]] bool is_over() const {
        return state_ == State::WithoutCoordinator || state_ == State::CoordinatorLost;
    }

    void advance(Time now) {
        if (heartbeat_.was_stopped(now)) {
            heard_ = now;
        }
        if (link_.is_open()) {
            const auto over = link_.read([&](const ControlMessage* message) {
                heard_ = now;
                if (message != nullptr) {
                    take(*message, now);
                }
            });
            if (refused_) { // the coordinator has warned of it
                state_ = State::WithoutCoordinator;
                link_.close({});
            } else if (over) {
                on_disconnect(now, "its launcher is gone: " + *over);
            }
        } else if (link_.dial(now)) {
            state_ = State::Greeting;
            link_.send(Hello{settings_.node_rank, settings_.host, own_release()});
        }
        if (state_ == State::Joined) {
            keep_alive(now);
        } else if (!is_over() && now >= join_deadline_) { // the coordinator may answer late if it is busy
            decide_alone(link_.problem());
        }
    }

    void take(const ControlMessage& message, Time now) {
        if (state_ == State::Greeting) {
            if (std::holds_alternative<Welcome>(message)) {
                join(now);
            } else if (std::holds_alternative<Refused>(message)) {
                refused_ = true;
            }
            return;
        }
        if (const auto* const restart = std::get_if<Restart>(&message)) {
            ended_.reset();
            dumps_.clear();
            attempt_ = restart->attempt;
        }
        finished_ = finished_ || std::holds_alternative<Finish>(message);
        std::visit(
            [this]<typename T>(const T& one) {
                if constexpr (std::constructible_from<Order, T>) {
                    orders_.emplace_back(one);
                }
            },
            message);
    }

    /// Sends the coordinator everything that happened before the connection.
    void join(Time now) {
        state_ = State::Joined;
        heartbeat_.start(now);
        for (const auto& [key, known] : failures_) {
            send_failure(known.first, known.second);
        }
        for (const auto& [number, count] : signals_) {
            link_.send(SignalCount{number, count});
        }
        for (const auto& dump : dumps_) {
            link_.send(DumpNotice{dump});
        }
        if (ended_) {
            link_.send(*ended_);
        }
    }

    void keep_alive(Time now) {
        if (heartbeat_.take_due(now)) {
            link_.send(Alive{std::exchange(moved_, false)});
        }
        if (heartbeat_.is_overdue(heard_, now)) {
            on_disconnect(now, heartbeat_.overdue_text());
        }
    }

    void on_disconnect(Time now, const std::string& why) {
        link_.close(now + retry_after);
        if (state_ != State::Joined) {
            state_ = State::Connecting;
            return;
        }
        state_ = State::CoordinatorLost;
        if (!finished_) { // the coordinator's node has rank 0, so the job cannot continue without it
            warnings_.push_back(format_text("the head node, which has rank 0, is lost: {}", why));
            orders_.emplace_back(EndRanks{attempt_, why});
            // The exit code of a rank that failed here in this attempt, or 1.
            const auto failed = failures_.lower_bound({attempt_, 0});
            const bool known = failed != failures_.end() && failed->first.first == attempt_;
            orders_.emplace_back(Finish{known ? failed->second.first.code : 1});
        }
    }

    void decide_alone(const std::string& why) {
        state_ = State::WithoutCoordinator;
        link_.close({});
        warnings_.push_back(only_through_slurm(why));
    }

    void send_if_joined(const ControlMessage& message) {
        if (state_ == State::Joined) {
            link_.send(message);
        }
    }

    void send_failure(const RankFailure& failure, Time when) {
        const auto age = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - when).count();
        send_if_joined(FailureNotice{shortened(failure), static_cast<std::uint64_t>(std::max<decltype(age)>(age, 0))});
    }

    CoordinatorLink link_;
    State state_ = State::Connecting;
    unsigned attempt_ = 0;
    Time join_deadline_ = Clock::now() + settings_.join_timeout;
    Time heard_ = Clock::now();
    bool moved_ = false;
    bool refused_ = false;
    bool finished_ = false;
    std::map<std::pair<unsigned, unsigned>, std::pair<RankFailure, Time>> failures_; ///< by attempt and rank
    std::map<int, unsigned> signals_;
    std::vector<RankDump> dumps_; ///< of the current attempt
    std::optional<Ended> ended_;
    std::vector<Order> orders_;
};

} // namespace

std::unique_ptr<Control> make_worker_control(ControlSettings settings, ArbiterRules own) {
    own.nodes = 1;
    own.max_restarts = 0; // because the other nodes would not restart
    return std::make_unique<WorkerControl>(std::move(settings), std::move(own));
}

} // namespace rdma_nccl::run
