// SPDX-License-Identifier: Apache-2.0
// The side that listens: one event loop (epoll) for any number of workers. It never waits by itself: its owner polls
// fd() and calls work(). What comes over the network costs little and ends nothing: a connection that does not prove
// within five seconds that it has the key is closed without a word, and of those the oldest make room for new ones.
#pragma once

#include "lib/net/connection.h"
#include "lib/result.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

namespace rdma_nccl {

struct CoordinatorEvent {
    enum class Kind {
        Joined,  ///< a worker has proved that it has the key
        Message, ///< `body`
        Lost,    ///< a worker that had joined is gone; `why`. Comes once, and nothing of it comes afterwards.
    };
    Kind kind = Kind::Joined;
    int worker = 0; ///< a number that is never used twice
    std::string body;
    std::string why;
};

struct CoordinatorRules {
    Key key;
    std::string context;             ///< workers give the same one
    bool adds_local_address = false; ///< to the context, as text: the one that the worker has to have dialled
    bool ends_with_reset = false;    ///< connections leave no TIME_WAIT, in which the listening port could not be bound
    std::size_t longest_message = 0; ///< from a worker
    std::size_t most_unsent = SIZE_MAX; ///< for a worker that takes nothing: beyond, it is lost
    std::size_t expected_workers = 0;   ///< so many may connect at the same time before one has proved anything,
    std::size_t most_strangers = 1024;  ///< and so many more; then the oldest make room
};

class Coordinator {
public:
    using Clock = std::chrono::steady_clock;

    /// `listener` listens, and is non-blocking.
    static Result<Coordinator> make(UniqueFd listener, CoordinatorRules rules);

    /// Readable when work() has something to do.
    [[nodiscard]] int fd() const { return events_.get(); }
    /// When work() has to be called at the latest; absent: only when fd() is readable.
    [[nodiscard]] std::optional<Clock::time_point> deadline() const;
    /// Does what can be done now.
    std::vector<CoordinatorEvent> work();

    /// Never waits. Does nothing for a worker that is gone.
    void send(int worker, SharedBody body);
    void send(int worker, std::string body) { send(worker, std::make_shared<const std::string>(std::move(body))); }
    /// Ends its connection; no event tells of it.
    void close(int worker);
    [[nodiscard]] bool has(int worker) const;
    /// Of those who have not proved anything yet too.
    [[nodiscard]] std::size_t connections() const { return connections_.size(); }
    [[nodiscard]] std::uint16_t port() const;
    /// The descriptor that listens; -1 of one that was moved.
    [[nodiscard]] int listener() const { return listener_.get(); }
    /// What the last accept(2) failed with for want of descriptors or memory; 0: it did not.
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
    std::unordered_map<int, Peer> connections_; ///< by number
    std::set<int> strangers_;                   ///< those who have proved nothing yet, the oldest first
    std::vector<CoordinatorEvent> happened_;
    int next_id_;
    std::optional<Clock::time_point> accepts_again_; ///< descriptors have run out: the listener rests until then
    int accept_error_ = 0;
};

} // namespace rdma_nccl
