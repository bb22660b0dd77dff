// SPDX-License-Identifier: Apache-2.0
#include "tools/run_control.h"

#include "lib/format.h"
#include "lib/tcp.h"
#include "tools/run_line_socket.h"
#include "tools/run_secret.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <sys/epoll.h>

namespace rdma_nccl {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds retry_after(200);

class MemberControl final : public Control {
public:
    MemberControl(ControlSettings settings, ArbiterRules own)
        : settings_(std::move(settings)), epoll_(::epoll_create1(EPOLL_CLOEXEC)), arbiter_(std::move(own)) {
        if (!epoll_ || settings_.addresses.empty()) {
            problem_ = settings_.addresses.empty() ? "its address is not known" : "no descriptor is left";
            go_alone();
        }
    }

    [[nodiscard]] int fd() const override { return epoll_.get(); }

    [[nodiscard]] std::optional<Time> deadline() const override {
        switch (state_) {
        case State::Alone:
        case State::Lost:
            return std::nullopt;
        case State::Member:
            return last_beat_ + beat();
        case State::Apart:
        case State::Connecting:
        case State::Greeting:
            break;
        }
        return next_try_;
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
    void looked(bool moved) override { moved_ = moved_ || moved; }
    void gave_up(const std::string& why) override { arbiter_.on_lost(0, why); }
    std::vector<std::string> take_warnings() override { return std::exchange(warnings_, {}); }
    /// The head decided all, where it came to an end.
    [[nodiscard]] const Arbiter* arbiter() const override {
        return is_over() && attempt_ == 0 && !finished_ ? &arbiter_ : nullptr;
    }

    std::vector<Order> work(Time now) override {
        advance(now);
        // Alone, this node's own arbiter decides; else the head does.
        return state_ == State::Alone ? arbiter_.take_orders() : std::exchange(orders_, {});
    }

private:
    enum class State {
        Apart, ///< no connection; the next try is due at next_try_
        Connecting,
        Greeting, ///< said hello
        Member,
        Alone, ///< for good: there never was a head
        Lost,  ///< it is gone
    };

    [[nodiscard]] milliseconds beat() const {
        return std::clamp(settings_.node_timeout / 5, milliseconds(50), milliseconds(1000));
    }

    [[nodiscard]] bool is_over() const { return state_ == State::Alone || state_ == State::Lost; }

    void advance(Time now) {
        if (is_over()) {
            return;
        }
        if (now - last_work_ > settings_.node_timeout / 2 && now - last_work_ > 3 * beat()) {
            heard_ = now; // this process was stopped: it knows nothing about the head
        }
        last_work_ = now;
        epoll_event event{};
        const bool ready = ::epoll_wait(epoll_.get(), &event, 1, 0) > 0;
        if (state_ == State::Connecting && ready) {
            say_hello(now);
        } else if (ready && socket_) {
            listen_to_head(now);
        }
        if (state_ == State::Member) {
            keep_alive(now);
        } else if (!is_over() && now >= next_try_) {
            try_again(now);
        }
    }

    void watch(std::uint32_t what) {
        epoll_event event{};
        event.events = what;
        if (::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, socket_->fd(), &event) != 0) {
            ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, socket_->fd(), &event);
        }
    }

    void try_again(Time now) {
        if (now - start_ > settings_.patience) {
            go_alone();
            return;
        }
        socket_.reset();
        state_ = State::Apart;
        const auto& address = settings_.addresses[tries_++ % settings_.addresses.size()];
        // An address that swallows packets must not take all the time.
        next_try_ = now + (tries_ > settings_.addresses.size() ? std::chrono::seconds(2) : retry_after);
        auto socket = start_connection(address, settings_.port);
        if (!socket) {
            problem_ = socket.error().message;
            next_try_ = now + retry_after;
            return;
        }
        problem_ = address.text();
        socket_.emplace(std::move(*socket), most_control_line);
        state_ = State::Connecting;
        watch(EPOLLOUT);
    }

    void say_hello(Time now) {
        if (const int error = connection_error(socket_->fd()); error != 0) {
            problem_ = format_text("{}: {}", settings_.addresses[(tries_ - 1) % settings_.addresses.size()].text(),
                                   std::strerror(error));
            socket_.reset();
            state_ = State::Apart;
            next_try_ = now + retry_after;
            return;
        }
        watch_connection(socket_->fd());
        problem_ = "it does not answer as the launcher of this job";
        state_ = State::Greeting;
        next_try_ = start_ + settings_.patience; // a head that is busy answers later
        send(Hello{settings_.node_rank, settings_.host, question_of(settings_.secret)});
    }

    void listen_to_head(Time now) {
        const bool open = socket_->receive() && socket_->flush();
        heard_ = now;
        while (const auto line = socket_ ? socket_->next_line() : std::nullopt) {
            if (const auto message = read_control_message(*line)) {
                take(*message, now);
            }
        }
        if (socket_) {
            watch(socket_->has_unsent() ? EPOLLIN | EPOLLOUT : EPOLLIN);
        }
        if (!open) {
            part(now, "its launcher is gone");
        }
    }

    void take(const ControlMessage& message, Time now) {
        if (state_ == State::Greeting) {
            const auto* const welcome = std::get_if<Welcome>(&message);
            if (welcome != nullptr && same_secret(welcome->secret, answer_of(settings_.secret))) {
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

    /// All that happened before there was a connection.
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
        if (socket_ && now - heard_ > settings_.node_timeout) {
            part(now, format_text("nothing heard from it for {:g} s",
                                  std::chrono::duration<double>(settings_.node_timeout).count()));
        }
    }

    /// That of a rank that failed here before.
    [[nodiscard]] int code_without_head() const {
        for (const auto& [key, known] : failures_) {
            if (key.first == attempt_) {
                return known.first.code;
            }
        }
        return 1;
    }

    /// The connection is no more.
    void part(Time now, const std::string& why) {
        if (is_over()) {
            return;
        }
        const bool was_member = state_ == State::Member;
        socket_.reset();
        state_ = State::Apart;
        next_try_ = now + retry_after;
        if (!was_member) {
            return;
        }
        state_ = State::Lost;
        if (!finished_) { // the head has rank 0: without it there is no job
            warnings_.push_back(format_text("the head node, which has rank 0, is lost: {}", why));
            orders_.emplace_back(EndRanks{attempt_, why});
            orders_.emplace_back(Finish{code_without_head()});
        }
    }

    void go_alone() {
        state_ = State::Alone;
        socket_.reset();
        warnings_.push_back(format_text(
            "no connection to the launcher of rank 0, port {} ({}): a failure here reaches other nodes only through "
            "Slurm (srun --kill-on-bad-exit=1)",
            settings_.port, problem_));
    }

    void send(const ControlMessage& message) {
        if (socket_ && !socket_->send(write_control_message(message))) {
            part(Clock::now(), "its launcher is gone");
        } else if (socket_) {
            watch(socket_->has_unsent() ? EPOLLIN | EPOLLOUT : EPOLLIN);
        }
    }

    void tell(const ControlMessage& message) {
        if (state_ == State::Member) {
            send(message);
        }
    }

    void tell_failure(const RankFailure& failure, Time when) {
        const auto age = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - when).count();
        tell(FailureNotice{failure, static_cast<std::uint64_t>(std::max<decltype(age)>(age, 0))});
    }

    ControlSettings settings_;
    UniqueFd epoll_;
    Arbiter arbiter_; ///< decides for this node alone
    std::optional<LineSocket> socket_;
    State state_ = State::Apart;
    unsigned attempt_ = 0;
    std::size_t tries_ = 0;
    std::string problem_ = "not tried";
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
    own.max_restarts = 0; // the others would not start again
    return std::make_unique<MemberControl>(std::move(settings), std::move(own));
}

} // namespace rdma_nccl
