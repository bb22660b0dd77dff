// SPDX-License-Identifier: Apache-2.0
#include "tools/run/control/control.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/net/coordinator.h"
#include "lib/net/listeners.h"
#include "lib/net/tcp.h"
#include "tools/run/failure/hang.h"

#include <map>
#include <set>
#include <unordered_map>

namespace rdma_nccl::run {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds sample_interval(1); ///< of the hang watch
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

long in_seconds(Clock::duration time) {
    return std::chrono::duration_cast<std::chrono::seconds>(time).count();
}

class CoordinatorControl final : public Control {
public:
    CoordinatorControl(ControlSettings settings, const ArbiterRules& rules)
        : Control(std::move(settings), rules), nodes_(rules.nodes) {
        if (settings_.hang_timeout) {
            hang_judge_.emplace(nodes_, *settings_.hang_timeout, sample_interval, start_);
        }
        if (nodes_ == 1) {
            return;
        }
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
        return std::min(heartbeat_.deadline(), coordinator_->deadline().value_or(heartbeat_.deadline()));
    }

    void report_activity(bool moved) override { judge_hang(0, moved); }
    bool take_hang_suspicion() override {
        const bool asks = suspicion_ && !suspicion_->moved_since && !arbiter_.is_ending() &&
                          !std::exchange(suspicion_->asks_ras, true);
        if (asks && settings_.ends_hanging_job) { // said now: after a crash there is only a rank that was killed
            warnings_.push_back(suspicion_->quiet + "; asking NCCL's RAS, which before NCCL 2.29.2 may crash a rank");
        }
        return asks;
    }
    void report_ras(RasAnswer answer) override {
        if (!suspicion_ || !suspicion_->asks_ras) {
            return; // of the attempt before
        }
        const auto [quiet, asks_ras, moved_since] = *std::exchange(suspicion_, std::nullopt);
        if (answer.moved) {
            judge_hang(0, true); // RAS is asked again if nothing moves for another timeout
        }
        if (arbiter_.is_ending() || (moved_since && !answer.blames)) {
            return;
        }
        const auto hang = "the job hangs: " + quiet;
        const bool hangs = !answer.moved || answer.blames;
        warnings_.push_back((hangs ? hang : quiet) + "\n  " + answer.text);
        if (hangs) {
            const bool ends = settings_.ends_hanging_job && !answer.moved && !moved_since;
            arbiter_.on_hang(std::move(answer.laggards), ends ? std::optional(hang) : std::nullopt);
        }
    }
    [[nodiscard]] const Arbiter* arbiter() const override { return &arbiter_; }

    std::vector<Order> process(Time now) override {
        if (coordinator_) {
            if (heartbeat_.was_stopped(now)) {
                for (auto& [worker, peer] : peers_) {
                    peer.heard = now;
                }
            }
            for (const auto& event : coordinator_->work()) {
                take_event(event, now);
            }
            if (heartbeat_.take_due(now)) {
                send_all(Alive{});
                find_unresponsive(now);
                find_absent(now);
            }
        }
        auto orders = arbiter_.take_orders();
        for (const auto& order : orders) {
            send_all(order);
            if (std::holds_alternative<Restart>(order)) {
                suspicion_.reset();
            }
        }
        if (workers_.size() == nodes_ - 1 || absent_left_out_ || arbiter_.finished()) {
            warn_of_refused();
        }
        return orders;
    }

private:
    [[nodiscard]] Result<Coordinator> make_coordinator() const {
        if (!settings_.key) {
            return tl::unexpected(settings_.key.error());
        }
        auto listener = listen_on(settings_.port, PortSharing::Reuse);
        if (!listener) {
            const auto who = format_listeners(settings_.port);
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
            if (duplicates_.insert(hello->node_rank).second) {
                warnings_.push_back(format_text("two launchers say that they are node rank {}, the second on {}: check "
                                                "--node-rank there",
                                                hello->node_rank, hello->host));
            }
            return;
        }
        known->second = worker;
        if (!is_understood(hello->release)) {
            refused_.insert_or_assign(hello->node_rank, std::pair(hello->host, hello->release));
            arbiter_.on_absent(hello->node_rank);
            coordinator_->send(worker, write_message(Refused{}));
            return;
        }
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
        } else if (const auto* const dump = std::get_if<DumpNotice>(&message)) {
            arbiter_.on_dump(node, dump->dump);
        } else if (const auto* const end = std::get_if<Ended>(&message)) {
            arbiter_.on_ended(node, *end);
        } else if (const auto* const count = std::get_if<SignalCount>(&message)) {
            arbiter_.on_signal(node, *count);
        } else if (const auto* const alive = std::get_if<Alive>(&message)) {
            judge_hang(node, alive->moved);
        }
    }

    void judge_hang(unsigned node, bool moved) {
        const auto now = Clock::now();
        if (moved && suspicion_) {
            suspicion_->moved_since = true;
        }
        if (hang_judge_ && hang_judge_->on_sample(node, moved, now)) {
            suspicion_ = {
                format_text("nothing has moved on any node for {} s", in_seconds(hang_judge_->idle_time(now))), false,
                false};
        }
    }

    void find_unresponsive(Time now) {
        for (const auto& [worker, peer] : std::unordered_map(peers_)) { // a copy, because lose() erases the peer
            if (heartbeat_.is_overdue(peer.heard, now)) {
                coordinator_->close(worker);
                lose(worker, heartbeat_.overdue_text());
            }
        }
    }

    void find_absent(Time now) {
        if (arbiter_.stopped() && !stopped_since_) {
            stopped_since_ = now;
        }
        // Slurm gives a job that it ends KillWait seconds, 30 by default: too short to wait for launchers that have not
        // connected.
        const bool hurry = stopped_since_ && now - *stopped_since_ > stop_time;
        if (!absent_left_out_ && (hurry || now - start_ > settings_.join_timeout)) {
            leave_out_absent();
        }
    }

    void leave_out_absent() {
        absent_left_out_ = true;
        unsigned missing = 0;
        for (unsigned node = 1; node < nodes_; ++node) {
            if (!workers_.contains(node)) {
                ++missing;
                arbiter_.on_absent(node);
            }
        }
        if (missing > 0) {
            end_hang_watch();
        }
        if (missing > 0 && coordinator_) {
            warnings_.push_back(format_text(
                "{} of {} launchers did not connect to port {} here within {} s: a failure reaches their ranks only "
                "through Slurm (srun --kill-on-bad-exit=1)",
                missing, nodes_ - 1, settings_.port, in_seconds(settings_.join_timeout)));
        }
    }

    void warn_of_refused() {
        if (refused_.empty() || std::exchange(warned_of_refused_, true)) {
            return;
        }
        const auto others = mapped(refused_, [](const auto& entry) { return entry.second; });
        warnings_.push_back(only_through_slurm(describe_others(others, settings_.host)));
        end_hang_watch();
    }

    void end_hang_watch() {
        if (hang_judge_) {
            hang_judge_.reset();
            warnings_.emplace_back("the hang watch is off: it needs the launchers of all nodes");
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

    Time start_ = Clock::now();
    unsigned nodes_;
    std::optional<HangJudge> hang_judge_;
    /// Nothing has moved for the timeout.
    struct Suspicion {
        std::string quiet;        ///< in words
        bool asks_ras = false;    ///< NCCL's RAS is being asked
        bool moved_since = false; ///< something has moved again
    };
    std::optional<Suspicion> suspicion_;
    std::optional<Coordinator> coordinator_; ///< absent: this node is not connected to others
    std::unordered_map<int, Peer> peers_;    ///< by worker
    std::map<unsigned, int> workers_;        ///< by node: the last one that connected; it may be lost
    std::map<unsigned, std::pair<std::string, Release>> refused_; ///< by node: hosts whose version is not understood
    bool warned_of_refused_ = false;
    std::set<unsigned> duplicates_; ///< nodes for which two launchers have connected
    std::optional<Time> stopped_since_;
    bool absent_left_out_ = false;
};

} // namespace

std::string Heartbeat::overdue_text() const {
    return format_text("nothing heard from it for {:g} s", std::chrono::duration<double>(timeout_).count());
}

std::string only_through_slurm(const std::string& why) {
    return "a failure here reaches other nodes only through Slurm (srun --kill-on-bad-exit=1): " + why;
}

std::unique_ptr<Control> make_coordinator_control(ControlSettings settings, const ArbiterRules& rules) {
    return std::make_unique<CoordinatorControl>(std::move(settings), rules);
}

} // namespace rdma_nccl::run
