// SPDX-License-Identifier: Apache-2.0
#include "tools/run_control.h"

#include "lib/format.h"
#include "lib/net/listeners.h"
#include "lib/tcp.h"
#include "lib/text.h"
#include "tools/run_hang.h"
#include "tools/run_line_socket.h"
#include "tools/run_secret.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <list>
#include <sys/epoll.h>
#include <sys/socket.h>

namespace rdma_nccl {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// A stranger's connection must say who it is in this time.
constexpr std::chrono::seconds hello_time(5);
constexpr std::size_t longest_hello = 4096;
constexpr std::chrono::seconds stop_time(5);
/// Strangers that may be connected at the same time.
constexpr std::size_t most_strangers = 256;

struct Peer {
    LineSocket socket;
    Control::Time heard;
    std::optional<unsigned> node; ///< once it has said who it is
    std::string host;
    bool closed = false;
};

class HeadControl final : public Control {
public:
    HeadControl(ControlSettings settings, ArbiterRules rules, const std::optional<HangRules>& hang)
        : settings_(std::move(settings)), nodes_(rules.nodes), arbiter_(std::move(rules)), hang_(hang) {
        if (hang_) {
            judge_.emplace(nodes_, hang_->after, hang_->interval, Clock::now());
        }
    }

    /// For several nodes.
    void listen() {
        epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
        auto socket = listen_on(settings_.port, PortSharing::Reuse);
        if (!socket || !epoll_ || !watch(socket->get(), EPOLL_CTL_ADD, EPOLLIN)) {
            const auto who = socket ? "" : listening_text(settings_.port);
            warnings_.push_back(format_text(
                "the launchers of the other nodes cannot connect: {}{}: a failure reaches other nodes only through "
                "Slurm (srun --kill-on-bad-exit=1)",
                socket ? "no descriptor is left" : socket.error().message, who.empty() ? "" : ", " + who));
            leave_out_absent();
            return;
        }
        listener_ = std::move(*socket);
    }

    [[nodiscard]] int fd() const override { return epoll_.get(); }

    [[nodiscard]] std::optional<Time> deadline() const override {
        if (!listener_) {
            return std::nullopt;
        }
        return last_beat_ + beat();
    }

    void failed(const RankFailure& failure, Time when) override { arbiter_.on_failure(0, failure, when); }
    void ended(const Ended& what) override { arbiter_.on_ended(0, what); }
    void got_signal(const SignalCount& count) override { arbiter_.on_signal(0, count); }
    void looked(bool moved) override { judge(0, moved); }
    void gave_up(const std::string& why) override { arbiter_.on_lost(0, why); }
    std::vector<std::string> take_warnings() override { return std::exchange(warnings_, {}); }
    [[nodiscard]] const Arbiter* arbiter() const override { return &arbiter_; }

    std::vector<Order> work(Time now) override {
        if (listener_) {
            forgive_own_pause(now);
            take_events(now);
            if (now >= last_beat_ + beat()) {
                last_beat_ = now;
                watch(listener_.get(), EPOLL_CTL_MOD, EPOLLIN);
                send_all(write_control_message(Alive{}));
                judge_silence(now);
            }
        }
        auto orders = arbiter_.take_orders();
        for (const auto& order : orders) {
            send_all(std::visit([](const auto& one) { return write_control_message(one); }, order));
        }
        drop_closed();
        return orders;
    }

private:
    [[nodiscard]] milliseconds beat() const {
        return std::clamp(settings_.node_timeout / 5, milliseconds(50), milliseconds(1000));
    }

    // NOLINTNEXTLINE(modernize-use-nodiscard): where it fails, the next beat sees to it
    bool watch(int fd, int operation, std::uint32_t what) const {
        epoll_event event{};
        event.events = what;
        event.data.fd = fd;
        return ::epoll_ctl(epoll_.get(), operation, fd, &event) == 0;
    }

    /// Who was stopped itself (Ctrl-Z, scontrol suspend) knows nothing about the others.
    void forgive_own_pause(Time now) {
        if (now - last_work_ > settings_.node_timeout / 2 && now - last_work_ > 3 * beat()) {
            for (auto& peer : peers_) {
                peer.heard = now;
            }
        }
        last_work_ = now;
    }

    void take_events(Time now) {
        std::array<epoll_event, 64> ready{};
        const int count = ::epoll_wait(epoll_.get(), ready.data(), static_cast<int>(ready.size()), 0);
        for (int i = 0; i < count; ++i) {
            const int fd = ready.at(static_cast<std::size_t>(i)).data.fd;
            if (fd == listener_.get()) {
                accept_all(now);
                continue;
            }
            const auto peer =
                std::find_if(peers_.begin(), peers_.end(), [fd](const Peer& p) { return p.socket.fd() == fd; });
            if (peer != peers_.end()) {
                hear(*peer, now);
            }
        }
    }

    void accept_all(Time now) {
        while (true) {
            UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
            if (!socket) {
                if (errno != EAGAIN && errno != ECONNABORTED) { // no descriptors: again at the next beat
                    watch(listener_.get(), EPOLL_CTL_MOD, 0);
                }
                return;
            }
            const auto strangers = std::count_if(peers_.begin(), peers_.end(), [](const Peer& p) { return !p.node; });
            if (static_cast<std::size_t>(strangers) >= most_strangers || !watch(socket.get(), EPOLL_CTL_ADD, EPOLLIN)) {
                continue; // closed again; a launcher tries once more
            }
            watch_connection(socket.get());
            peers_.push_back({LineSocket(std::move(socket), most_control_line), now, {}, {}});
        }
    }

    void hear(Peer& peer, Time now) {
        const bool open = peer.socket.receive() && peer.socket.flush();
        if (!open && !peer.node) { // one that has tried again since, or a stranger
            peer.closed = true;
            return;
        }
        while (const auto line = peer.socket.next_line()) {
            if (!peer.node && (line->size() > longest_hello || !greet(peer, *line))) {
                peer.closed = true; // a stranger: not worth a word
                return;
            }
            if (const auto message = read_control_message(*line)) {
                take(*peer.node, *message, now);
            }
        }
        if (peer.node) {
            peer.heard = now;
        }
        if (!open) {
            close(peer, "its launcher is gone");
        } else {
            watch(peer.socket.fd(), EPOLL_CTL_MOD, peer.socket.has_unsent() ? EPOLLIN | EPOLLOUT : EPOLLIN);
        }
    }

    bool greet(Peer& peer, std::string_view line) {
        const auto message = read_control_message(line);
        const auto* const hello = message ? std::get_if<Hello>(&*message) : nullptr;
        if (hello == nullptr || !same_secret(hello->secret, question_of(settings_.secret)) || hello->node_rank == 0 ||
            hello->node_rank >= nodes_) {
            return false;
        }
        const bool twice = std::any_of(peers_.begin(), peers_.end(), [hello](const Peer& other) {
            return !other.closed && other.node == hello->node_rank;
        });
        if (twice) {
            warnings_.push_back(format_text("two launchers say that they are node rank {}, the second on {}: check "
                                            "--node-rank there",
                                            hello->node_rank, printable(hello->host)));
            return false;
        }
        peer.node = hello->node_rank;
        peer.host = printable(hello->host);
        peer.heard = Clock::now();
        come_.insert(hello->node_rank);
        arbiter_.on_absent(hello->node_rank, false);
        std::string answer = write_control_message(Welcome{answer_of(settings_.secret)});
        for (const auto& order : arbiter_.standing_orders()) {
            answer += std::visit([](const auto& one) { return write_control_message(one); }, order);
        }
        send(peer, answer);
        return true;
    }

    void take(unsigned node, const ControlMessage& message, Time now) {
        if (const auto* const notice = std::get_if<FailureNotice>(&message)) {
            auto failure = notice->failure;
            failure.node_rank = node; // of its own ranks only
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
        if (judge_ && judge_->on_look(node, moved, now)) {
            const auto why = format_text("the job hangs: nothing has moved on any node for {} s",
                                         std::chrono::duration_cast<std::chrono::seconds>(judge_->quiet(now)).count());
            warnings_.push_back(why);
            arbiter_.on_hang(why, hang_->end);
        }
    }

    void judge_silence(Time now) {
        for (auto& peer : peers_) {
            if (!peer.node && now - peer.heard > hello_time) {
                peer.closed = true;
            } else if (peer.node && now - peer.heard > settings_.node_timeout) {
                close(peer, format_text("nothing heard from it for {:g} s",
                                        std::chrono::duration<double>(settings_.node_timeout).count()));
            }
        }
        if (arbiter_.stopped() && !stopped_since_) {
            stopped_since_ = now;
        }
        // Slurm gives a job that it ends KillWait seconds, 30 by default: no time to wait for who has not come.
        const bool hurry = stopped_since_ && now - *stopped_since_ > stop_time;
        if (!absent_told_ && (hurry || now - start_ > settings_.patience)) {
            absent_told_ = true;
            leave_out_absent();
        }
    }

    void leave_out_absent() {
        unsigned missing = 0;
        for (unsigned node = 1; node < nodes_; ++node) {
            if (!come_.contains(node)) {
                ++missing;
                arbiter_.on_absent(node);
            }
        }
        if (missing > 0 && hang_) {
            warnings_.emplace_back("the hang watch is off: it needs the launchers of all nodes");
        }
        if (missing > 0 && listener_) {
            warnings_.push_back(format_text(
                "{} of {} launchers did not connect to port {} here within {} s: a failure reaches their ranks only "
                "through Slurm (srun --kill-on-bad-exit=1)",
                missing, nodes_ - 1, settings_.port,
                std::chrono::duration_cast<std::chrono::seconds>(settings_.patience).count()));
        }
    }

    void send(Peer& peer, std::string_view lines) {
        if (!peer.closed && !peer.socket.send(lines)) {
            close(peer, "its launcher is gone");
        }
        if (!peer.closed) {
            watch(peer.socket.fd(), EPOLL_CTL_MOD, peer.socket.has_unsent() ? EPOLLIN | EPOLLOUT : EPOLLIN);
        }
    }

    void send_all(std::string_view lines) {
        for (auto& peer : peers_) {
            if (peer.node) {
                send(peer, lines);
            }
        }
    }

    void close(Peer& peer, const std::string& why) {
        if (!peer.closed && peer.node) {
            arbiter_.on_lost(*peer.node, format_text("node {} (node rank {}) is lost: {}", peer.host, *peer.node, why));
        }
        peer.closed = true;
    }

    void drop_closed() {
        peers_.remove_if([](const Peer& peer) { return peer.closed; });
    }

    ControlSettings settings_;
    unsigned nodes_;
    Arbiter arbiter_;
    std::optional<HangRules> hang_;
    std::optional<HangJudge> judge_;
    UniqueFd epoll_;
    UniqueFd listener_;
    std::list<Peer> peers_;
    std::set<unsigned> come_; ///< nodes that have connected
    std::vector<std::string> warnings_;
    Time start_ = Clock::now();
    Time last_work_ = start_;
    Time last_beat_ = start_;
    std::optional<Time> stopped_since_;
    bool absent_told_ = false;
};

} // namespace

std::unique_ptr<Control> control_alone(ArbiterRules rules, const std::optional<HangRules>& hang) {
    return std::make_unique<HeadControl>(ControlSettings(), std::move(rules), hang);
}

std::unique_ptr<Control> control_head(ControlSettings settings, ArbiterRules rules,
                                      const std::optional<HangRules>& hang) {
    auto control = std::make_unique<HeadControl>(std::move(settings), std::move(rules), hang);
    control->listen();
    return control;
}

} // namespace rdma_nccl
