// SPDX-License-Identifier: Apache-2.0
#include "tools/run/control/control.h"

#include "lib/base/format.h"
#include "lib/net/coordinator.h"
#include "lib/net/listeners.h"
#include "lib/net/tcp.h"
#include "tools/run/failure/hang.h"

#include <algorithm>
#include <map>
#include <unordered_map>

namespace rdma_nccl::run {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::chrono::seconds stop_time(5);
/// Limit of unsent bytes per worker: more than the launchers of a world send in the time that a connection may be
/// silent.
constexpr std::size_t most_unsent = std::size_t{16} << 20;

/// A launcher that has sent its hello.
struct Peer {
    unsigned node = 0;
    std::string host;
    Control::Time heard;
};

class HeadControl final : public Control {
public:
    HeadControl(ControlSettings settings, ArbiterRules rules, const std::optional<HangRules>& hang)
        : settings_(std::move(settings)), nodes_(rules.nodes), arbiter_(std::move(rules)), hang_(hang) {
        if (hang_) {
            judge_.emplace(nodes_, hang_->after, hang_->interval, Clock::now());
        }
    }

    /// To be called only in a world of several nodes.
    void listen() {
        if (auto coordinator = make_coordinator()) {
            coordinator_.emplace(std::move(*coordinator));
        } else {
            warnings_.push_back(only_through_slurm(coordinator.error().message));
            leave_out_absent();
        }
    }

    [[nodiscard]] int fd() const override { return coordinator_ ? coordinator_->fd() : -1; }

    [[nodiscard]] std::optional<Time> deadline() const override {
        if (!coordinator_) {
            return std::nullopt;
        }
        const auto beat_due = last_beat_ + beat();
        return std::min(beat_due, coordinator_->deadline().value_or(beat_due));
    }

    void failed(const RankFailure& failure, Time when) override { arbiter_.on_failure(0, failure, when); }
    void ended(const Ended& what) override { arbiter_.on_ended(0, what); }
    void got_signal(const SignalCount& count) override { arbiter_.on_signal(0, count); }
    void report_activity(bool moved) override { judge(0, moved); }
    void gave_up(const std::string& why) override { arbiter_.on_lost(0, why); }
    std::vector<std::string> take_warnings() override { return std::exchange(warnings_, {}); }
    [[nodiscard]] const Arbiter* arbiter() const override { return &arbiter_; }

    std::vector<Order> work(Time now) override {
        if (coordinator_) {
            forgive_own_pause(now);
            for (const auto& event : coordinator_->work()) {
                take_event(event, now);
            }
            if (now >= last_beat_ + beat()) {
                last_beat_ = now;
                send_all(Alive{});
                judge_silence(now);
            }
        }
        auto orders = arbiter_.take_orders();
        for (const auto& order : orders) {
            send_all(order);
        }
        return orders;
    }

private:
    [[nodiscard]] milliseconds beat() const {
        return std::clamp(settings_.node_timeout / 5, milliseconds(50), milliseconds(1000));
    }

    [[nodiscard]] Result<Coordinator> make_coordinator() const {
        if (!settings_.key) {
            return tl::unexpected(settings_.key.error());
        }
        auto listener = listen_on(settings_.port, PortSharing::Reuse);
        if (!listener) {
            const auto who = listening_text(settings_.port);
            return fail(format_text("the launchers of the other nodes cannot connect: {}{}{}", listener.error().message,
                                    who.empty() ? "" : ": ", who));
        }
        CoordinatorRules rules;
        rules.key = *settings_.key;
        rules.context = settings_.context;
        rules.longest_message = most_control_line;
        rules.most_unsent = most_unsent;
        rules.expected_workers = nodes_ - 1;
        return Coordinator::make(std::move(*listener), std::move(rules));
    }

    /// If this process was stopped itself (Ctrl-Z, scontrol suspend), it cannot know whether the others were silent.
    void forgive_own_pause(Time now) {
        if (now - last_work_ > settings_.node_timeout / 2 && now - last_work_ > 3 * beat()) {
            for (auto& [worker, peer] : peers_) {
                peer.heard = now;
            }
        }
        last_work_ = now;
    }

    void take_event(const CoordinatorEvent& event, Time now) {
        const auto peer = peers_.find(event.worker);
        if (event.kind == CoordinatorEvent::Kind::Lost && peer != peers_.end()) {
            lose(event.worker, format_text("its launcher is gone: {}", event.why));
        } else if (event.kind == CoordinatorEvent::Kind::Message) {
            const auto message = read_message<ControlMessage>(event.body);
            if (peer == peers_.end()) {
                greet(event.worker, message ? std::get_if<Hello>(&*message) : nullptr, now);
            } else {
                peer->second.heard = now;
                if (message) {
                    take(peer->second.node, *message, now);
                }
            }
        }
    }

    void greet(int worker, const Hello* hello, Time now) {
        if (!coordinator_->has(worker)) {
            return; // closed in the meantime
        }
        if (hello == nullptr || hello->node_rank == 0 || hello->node_rank >= nodes_) {
            coordinator_->close(worker);
            return;
        }
        const auto [known, is_first] = workers_.try_emplace(hello->node_rank, worker);
        if (!is_first && peers_.contains(known->second)) {
            coordinator_->close(worker);
            if (told_twice_.insert(hello->node_rank).second) {
                warnings_.push_back(format_text("two launchers say that they are node rank {}, the second on {}: check "
                                                "--node-rank there",
                                                hello->node_rank, hello->host));
            }
            return;
        }
        known->second = worker;
        peers_[worker] = {hello->node_rank, hello->host, now};
        arbiter_.on_absent(hello->node_rank, false);
        coordinator_->send(worker, write_message(Welcome{}));
        for (const auto& order : arbiter_.standing_orders()) {
            coordinator_->send(worker, write_message(order));
        }
    }

    void take(unsigned node, const ControlMessage& message, Time now) {
        if (const auto* const notice = std::get_if<FailureNotice>(&message)) {
            auto failure = notice->failure;
            failure.node_rank = node; // a node may report only its own ranks
            arbiter_.on_failure(node, std::move(failure), now - std::chrono::microseconds(notice->age_us));
        } else if (const auto* const end = std::get_if<Ended>(&message)) {
            arbiter_.on_ended(node, *end);
        } else if (const auto* const count = std::get_if<SignalCount>(&message)) {
            arbiter_.on_signal(node, *count);
        } else if (const auto* const alive = std::get_if<Alive>(&message)) {
            judge(node, alive->moved);
        }
    }

    void judge(unsigned node, bool moved) {
        const auto now = Clock::now();
        if (judge_ && judge_->on_sample(node, moved, now)) {
            const auto why = format_text("the job hangs: nothing has moved on any node for {} s",
                                         std::chrono::duration_cast<std::chrono::seconds>(judge_->quiet(now)).count());
            warnings_.push_back(why);
            arbiter_.on_hang(why, hang_->end);
        }
    }

    void judge_silence(Time now) {
        std::vector<int> silent;
        for (const auto& [worker, peer] : peers_) {
            if (now - peer.heard > settings_.node_timeout) {
                silent.push_back(worker);
            }
        }
        for (const int worker : silent) {
            coordinator_->close(worker);
            lose(worker, format_text("nothing heard from it for {:g} s",
                                     std::chrono::duration<double>(settings_.node_timeout).count()));
        }
        if (arbiter_.stopped() && !stopped_since_) {
            stopped_since_ = now;
        }
        // Slurm gives a job that it ends KillWait seconds, 30 by default: too short to wait for launchers that have not
        // connected.
        const bool hurry = stopped_since_ && now - *stopped_since_ > stop_time;
        if (!absent_told_ && (hurry || now - start_ > settings_.join_timeout)) {
            absent_told_ = true;
            leave_out_absent();
        }
    }

    void leave_out_absent() {
        unsigned missing = 0;
        for (unsigned node = 1; node < nodes_; ++node) {
            if (!workers_.contains(node)) {
                ++missing;
                arbiter_.on_absent(node);
            }
        }
        if (missing > 0 && hang_) {
            warnings_.emplace_back("the hang watch is off: it needs the launchers of all nodes");
        }
        if (missing > 0 && coordinator_) {
            warnings_.push_back(format_text(
                "{} of {} launchers did not connect to port {} here within {} s: a failure reaches their ranks only "
                "through Slurm (srun --kill-on-bad-exit=1)",
                missing, nodes_ - 1, settings_.port,
                std::chrono::duration_cast<std::chrono::seconds>(settings_.join_timeout).count()));
        }
    }

    template<typename Message>
    void send_all(const Message& message) {
        const auto body = std::make_shared<const std::string>(write_message(message));
        for (const auto& [worker, peer] : peers_) {
            coordinator_->send(worker, body);
        }
    }

    void lose(int worker, const std::string& why) {
        const auto peer = peers_.extract(worker);
        const auto& [node, host, heard] = peer.mapped();
        arbiter_.on_lost(node, format_text("node {} (node rank {}) is lost: {}", host, node, why));
    }

    ControlSettings settings_;
    unsigned nodes_;
    Arbiter arbiter_;
    std::optional<HangRules> hang_;
    std::optional<HangJudge> judge_;
    std::optional<Coordinator> coordinator_; ///< absent: this node is not connected to others
    std::unordered_map<int, Peer> peers_;    ///< by worker
    std::map<unsigned, int> workers_;        ///< by node: the last one that connected; it may be lost
    std::set<unsigned> told_twice_;          ///< nodes for which two launchers have connected
    std::vector<std::string> warnings_;
    Time start_ = Clock::now();
    Time last_work_ = start_;
    Time last_beat_ = start_;
    std::optional<Time> stopped_since_;
    bool absent_told_ = false;
};

} // namespace

std::string only_through_slurm(const std::string& why) {
    return "a failure here reaches other nodes only through Slurm (srun --kill-on-bad-exit=1): " + why;
}

std::unique_ptr<Control> control_alone(ArbiterRules rules, const std::optional<HangRules>& hang) {
    return std::make_unique<HeadControl>(ControlSettings(), std::move(rules), hang);
}

std::unique_ptr<Control> control_head(ControlSettings settings, ArbiterRules rules,
                                      const std::optional<HangRules>& hang) {
    auto control = std::make_unique<HeadControl>(std::move(settings), std::move(rules), hang);
    control->listen();
    return control;
}

} // namespace rdma_nccl::run
