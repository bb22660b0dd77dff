// SPDX-License-Identifier: Apache-2.0
// The listening side: one event loop (epoll) for any number of workers. It never waits: its owner polls fd() and calls
// work(). Input from strangers costs little and stops nothing: a connection that does not prove within five seconds
// that it has the key is closed without an answer, and the oldest of these make room for new ones.
#pragma once

#include "lib/net/session.h"

#include <chrono>
#include <set>
#include <unordered_map>
#include <vector>

namespace rdma_nccl {

struct CoordinatorEvent {
    enum class Kind {
        Joined,  ///< a worker has proved that it has the key
        Message, ///< `body` has arrived
        Lost,    ///< a joined worker is gone; `why` says why. Its last event.
    };
    Kind kind = Kind::Joined;
    int worker = 0; ///< never reused
    std::string body;
    std::string why;
};

struct CoordinatorRules {
    Key key;
    std::string context;                ///< must be the same as the workers'
    bool adds_local_address = false;    ///< to the context, as text: workers must have dialled it
    bool ends_with_reset = false;       ///< no connection leaves a TIME_WAIT that keeps the port from being bound
    std::size_t longest_message = 0;    ///< from a worker
    std::size_t most_unsent = SIZE_MAX; ///< bytes; a worker that falls behind by more is lost
    std::size_t expected_workers = 0;   ///< this many connections may be unproven at the same time,
    std::size_t most_strangers = 1024;  ///< plus this many; then the oldest make room
};

class Coordinator {
public:
    using Clock = std::chrono::steady_clock;

    /// `listener` must be listening and non-blocking.
    static Result<Coordinator> make(UniqueFd listener, CoordinatorRules rules);

    /// Returns the descriptor to poll: readable when work() has something to do.
    [[nodiscard]] int fd() const { return events_.get(); }
    /// Returns the latest time for the next call of work(); nullopt: not before fd() is readable.
    [[nodiscard]] std::optional<Clock::time_point> deadline() const;
    /// Does what can be done without waiting and returns what has happened.
    std::vector<CoordinatorEvent> work();

    /// Never waits. Does nothing if the worker is gone.
    void send(int worker, SharedBody body);
    void send(int worker, std::string body) { send(worker, std::make_shared<const std::string>(std::move(body))); }
    /// Ends the worker's connection, without an event.
    void close(int worker);
    [[nodiscard]] bool has(int worker) const {
        const auto found = connections_.find(worker);
        return found != connections_.end() && found->second.joined;
    }
    /// Returns the number of connections, including unproven ones.
    [[nodiscard]] std::size_t connections() const { return connections_.size(); }
    [[nodiscard]] std::uint16_t port() const;
    /// Returns the listening descriptor, or -1 if this object was moved from.
    [[nodiscard]] int listener() const { return listener_.get(); }
    /// Returns the errno of the last accept(2) that failed for lack of descriptors or memory; 0 if none did.
    [[nodiscard]] int accept_error() const { return accept_error_; }

private:
    struct Peer {
        Connection connection;
        Clock::time_point since;
        bool joined = false;
        bool watches_output = false;
    };

    Coordinator(UniqueFd listener, UniqueFd events, CoordinatorRules rules);
    void accept_some();
    void pause_accepting(int error);
    void drop_strangers();
    void serve(int id, unsigned events);
    void take_messages(int id, Peer& peer);
    void flush(int id, Peer& peer);
    void lose(int id, std::string why);
    bool watch(int fd, int operation, int id, unsigned wanted) const;

    UniqueFd listener_;
    UniqueFd events_;
    CoordinatorRules rules_;
    std::unordered_map<int, Peer> connections_; ///< by worker number
    std::set<int> strangers_;                   ///< workers without a proof, the oldest first
    std::vector<CoordinatorEvent> happened_;
    int next_id_;
    std::optional<Clock::time_point> accepts_again_; ///< descriptors have run out: accepts nothing until then
    int accept_error_ = 0;
};

} // namespace rdma_nccl
