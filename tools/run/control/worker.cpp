// SPDX-License-Identifier: Apache-2.0
#include "tools/run/control/control.h"

#include "lib/base/format.h"
#include "lib/net/dialer.h"

#include <algorithm>
#include <map>
#include <sys/epoll.h>

namespace rdma_nccl::run {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds retry_after(200);

class MemberControl final : public Control {
public:
    MemberControl(ControlSettings settings, ArbiterRules own)
        : settings_(std::move(settings)), events_(::epoll_create1(EPOLL_CLOEXEC)), arbiter_(std::move(own)) {
        if (!settings_.key) {
            go_alone(settings_.key.error().message);
        } else if (!events_ || settings_.addresses.empty()) {
            problem_ = events_ ? "its address is not known" : "no descriptor is left (epoll)";
            go_alone(no_connection());
        }
    }

    [[nodiscard]] int fd() const override { return events_.get(); }

    [[nodiscard]] std::optional<Time> deadline() const override {
        switch (state_) {
        case State::Alone:
        case State::Lost:
            return std::nullopt;
        case State::Member:
            return last_beat_ + beat();
        case State::Greeting:
            return join_deadline();
        case State::Apart:
            break;
        }
        return std::min(join_deadline(), dialer_ ? dialer_->deadline() : next_try_);
    }

    void failed(const RankFailure& failure, Time when) override {
        arbiter_.on_failure(0, failure, when);
        failures_[{failure.attempt, failure.rank}] = {failure, when};
        tell_failure(failure, when);
    }
    void ended(const Ended& what) override {
        arbiter_.on_ended(0, what);
        ended_ = what;
        tell(what);
    }
    void got_signal(const SignalCount& count) override {
        arbiter_.on_signal(0, count);
        signals_[count.signal] = count.count;
        tell(count);
    }
    void report_activity(bool moved) override { moved_ = moved_ || moved; }
    void gave_up(const std::string& why) override { arbiter_.on_lost(0, why); }
    std::vector<std::string> take_warnings() override { return std::exchange(warnings_, {}); }
    /// Returns this node's own arbiter if there is no head, or if the head was lost before it restarted or finished the
    /// job. Otherwise the head decided.
    [[nodiscard]] const Arbiter* arbiter() const override {
        return is_over() && attempt_ == 0 && !finished_ ? &arbiter_ : nullptr;
    }

    std::vector<Order> work(Time now) override {
        advance(now);
        // Without a head, this node's own arbiter decides.
        return state_ == State::Alone ? arbiter_.take_orders() : std::exchange(orders_, {});
    }

private:
    enum class State {
        Apart,    ///< no connection yet
        Greeting, ///< has sent Hello
        Member,
        Alone, ///< there never was a head; final
        Lost,  ///< the head is lost; final
    };

    [[nodiscard]] milliseconds beat() const {
        return std::clamp(settings_.node_timeout / 5, milliseconds(50), milliseconds(1000));
    }

    [[nodiscard]] bool is_over() const { return state_ == State::Alone || state_ == State::Lost; }

    [[nodiscard]] Time join_deadline() const { return start_ + settings_.join_timeout; }

    void advance(Time now) {
        if (is_over()) {
            return;
        }
        if (now - last_work_ > settings_.node_timeout / 2 && now - last_work_ > 3 * beat()) {
            heard_ = now; // this process was stopped, so it does not know whether the head was silent
        }
        last_work_ = now;
        if (connection_) {
            listen_to_head(now);
        } else {
            dial(now);
        }
        if (state_ == State::Member) {
            keep_alive(now);
        } else if (!is_over() && now >= join_deadline()) { // the head may answer late if it is busy
            go_alone(no_connection());
        }
    }

    void watch(int fd, int operation, std::uint32_t what = 0) const {
        epoll_event event{};
        event.events = what;
        (void)::epoll_ctl(events_.get(), operation, fd, &event);
    }

    void dial(Time now) {
        if (!dialer_) {
            if (now < next_try_) {
                return;
            }
            dialer_.emplace(DialTarget{settings_.addresses, settings_.port, *settings_.key, settings_.context,
                                       most_control_line, true});
            watch(dialer_->fd(), EPOLL_CTL_ADD, EPOLLIN);
        }
        connection_ = dialer_->work();
        if (connection_) {
            hang_up_dialer();
            problem_ = "it does not take this launcher";
            watch(connection_->fd(), EPOLL_CTL_ADD, EPOLLIN);
            state_ = State::Greeting;
            send(Hello{settings_.node_rank, settings_.host});
        }
    }

    void hang_up_dialer() {
        if (dialer_) {
            watch(dialer_->fd(), EPOLL_CTL_DEL);
            dialer_.reset();
        }
    }

    void listen_to_head(Time now) {
        const bool open = connection_->read();
        while (const auto body = connection_->next_message()) {
            heard_ = now;
            if (const auto message = read_message<ControlMessage>(*body)) {
                take(*message, now);
            }
        }
        if (open) {
            flush();
        } else {
            part(now, "its launcher is gone: " + connection_->why_over());
        }
    }

    void flush() {
        connection_->write(); // if it fails, read() finds out, after the last messages of the head
        watch(connection_->fd(), EPOLL_CTL_MOD, connection_->wants_to_write() ? EPOLLIN | EPOLLOUT : EPOLLIN);
    }

    void take(const ControlMessage& message, Time now) {
        if (state_ == State::Greeting) {
            if (std::holds_alternative<Welcome>(message)) {
                join(now);
            }
            return;
        }
        const auto keep = [this](const auto& order) { orders_.emplace_back(order); };
        if (const auto* const end = std::get_if<EndRanks>(&message)) {
            keep(*end);
        } else if (const auto* const count = std::get_if<SignalCount>(&message)) {
            keep(*count);
        } else if (const auto* const restart = std::get_if<Restart>(&message)) {
            ended_.reset();
            attempt_ = restart->attempt;
            keep(*restart);
        } else if (const auto* const finish = std::get_if<Finish>(&message)) {
            finished_ = true;
            keep(*finish);
        } else if (std::holds_alternative<ShowStacks>(message)) {
            keep(ShowStacks{});
        }
    }

    /// Sends the head everything that happened before the connection.
    void join(Time now) {
        state_ = State::Member;
        last_beat_ = now;
        for (const auto& [key, known] : failures_) {
            tell_failure(known.first, known.second);
        }
        for (const auto& [number, count] : signals_) {
            tell(SignalCount{number, count});
        }
        if (ended_) {
            tell(*ended_);
        }
    }

    void keep_alive(Time now) {
        if (now >= last_beat_ + beat()) {
            last_beat_ = now;
            tell(Alive{std::exchange(moved_, false)});
        }
        if (now - heard_ > settings_.node_timeout) {
            part(now, format_text("nothing heard from it for {:g} s",
                                  std::chrono::duration<double>(settings_.node_timeout).count()));
        }
    }

    /// Returns the exit code of a rank that failed here in this attempt, or 1.
    [[nodiscard]] int code_without_head() const {
        for (const auto& [key, known] : failures_) {
            if (key.first == attempt_) {
                return known.first.code;
            }
        }
        return 1;
    }

    /// Handles the end of the connection.
    void part(Time now, const std::string& why) {
        const bool was_member = state_ == State::Member;
        watch(connection_->fd(), EPOLL_CTL_DEL);
        connection_.reset();
        state_ = State::Apart;
        next_try_ = now + retry_after;
        if (!was_member) {
            return;
        }
        state_ = State::Lost;
        if (!finished_) { // the head has rank 0, so the job cannot continue without it
            warnings_.push_back(format_text("the head node, which has rank 0, is lost: {}", why));
            orders_.emplace_back(EndRanks{attempt_, why});
            orders_.emplace_back(Finish{code_without_head()});
        }
    }

    [[nodiscard]] std::string no_connection() const {
        return "no connection to the launcher of rank 0: " + (dialer_ ? dialer_->problem() : problem_);
    }

    void go_alone(const std::string& why) {
        state_ = State::Alone;
        hang_up_dialer();
        if (connection_) {
            watch(connection_->fd(), EPOLL_CTL_DEL);
        }
        connection_.reset();
        warnings_.push_back(only_through_slurm(why));
    }

    void send(const ControlMessage& message) {
        if (connection_) {
            connection_->send(std::make_shared<const std::string>(write_message(message)));
            flush();
        }
    }

    void tell(const ControlMessage& message) {
        if (state_ == State::Member) {
            send(message);
        }
    }

    void tell_failure(const RankFailure& failure, Time when) {
        const auto age = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - when).count();
        tell(FailureNotice{shortened(failure), static_cast<std::uint64_t>(std::max<decltype(age)>(age, 0))});
    }

    ControlSettings settings_;
    UniqueFd events_; ///< epoll instance with the dialer or the connection
    Arbiter arbiter_; ///< decides for this node if there is no head
    std::optional<Dialer> dialer_;
    std::optional<Connection> connection_;
    State state_ = State::Apart;
    unsigned attempt_ = 0;
    std::string problem_;
    Time start_ = Clock::now();
    Time next_try_ = start_;
    Time heard_ = start_;
    Time last_work_ = start_;
    Time last_beat_ = start_;
    bool moved_ = false;
    bool finished_ = false;
    std::map<std::pair<unsigned, unsigned>, std::pair<RankFailure, Time>> failures_;
    std::map<int, unsigned> signals_;
    std::optional<Ended> ended_;
    std::vector<Order> orders_;
    std::vector<std::string> warnings_;
};

} // namespace

std::unique_ptr<Control> control_member(ControlSettings settings, ArbiterRules own) {
    own.nodes = 1;
    own.max_restarts = 0; // because the other nodes would not restart
    return std::make_unique<MemberControl>(std::move(settings), std::move(own));
}

} // namespace rdma_nccl::run
