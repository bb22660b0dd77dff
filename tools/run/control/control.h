// SPDX-License-Identifier: Apache-2.0
// Connects the launchers of a world, so that an event on one node reaches all others in well under a second. The
// launcher of node rank 0 is the coordinator: the others, its workers, connect to it, and it decides (arbiter.h). A
// node that becomes unresponsive is detected. Nothing here blocks, and ranks do not wait for it. Without a key or a
// connection, each node ends only its own ranks and prints a warning.
#pragma once

#include "lib/base/result.h"
#include "lib/net/ip.h"
#include "lib/net/key.h"
#include "tools/run/control/arbiter.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace rdma_nccl::run {

struct ControlSettings {
    unsigned node_rank = 0;
    std::string host;                                      ///< name of this node, for messages
    std::vector<IpAddress> addresses;                      ///< of the coordinator, in the order to try them
    std::uint16_t port = 0;                                ///< port on which the coordinator listens
    Result<Key> key = fail("no key");                      ///< the same on all nodes; or the reason why there is none
    std::string context;                                   ///< identifies this world; the same on all nodes
    std::chrono::milliseconds node_timeout{15000};         ///< a node that is unresponsive for longer counts as lost
    std::chrono::milliseconds join_timeout{60000};         ///< how long to wait for a missing launcher, from the start
    std::optional<std::chrono::milliseconds> hang_timeout; ///< for the coordinator; absent: no hang watch
    bool ends_hanging_job = false;
};

/// The regular messages in both directions that show that a launcher is alive.
class Heartbeat {
public:
    using Time = std::chrono::steady_clock::time_point;

    explicit Heartbeat(std::chrono::milliseconds node_timeout)
        : timeout_(node_timeout),
          interval_(std::clamp(node_timeout / 5, std::chrono::milliseconds(50), std::chrono::milliseconds(1000))) {}

    /// Returns the time of the next message.
    [[nodiscard]] Time deadline() const { return last_ + interval_; }
    void start(Time now) { last_ = now; }
    /// Returns true if a message is due, and counts it as sent.
    bool take_due(Time now) {
        const bool due = now >= deadline();
        last_ = due ? now : last_;
        return due;
    }
    /// To be called regularly. Returns true if this process was stopped itself (Ctrl-Z, scontrol suspend): then it
    /// cannot know whether the others were unresponsive.
    bool was_stopped(Time now) {
        const auto gap = now - std::exchange(last_call_, now);
        return gap > timeout_ / 2 && gap > 3 * interval_;
    }

    [[nodiscard]] bool is_overdue(Time heard, Time now) const { return now - heard > timeout_; }
    [[nodiscard]] std::string overdue_text() const;

private:
    std::chrono::milliseconds timeout_;
    std::chrono::milliseconds interval_;
    Time last_ = std::chrono::steady_clock::now();
    Time last_call_ = last_;
};

/// What NCCL's RAS says of a job in which nothing moves.
struct RasAnswer {
    bool moved = false;  ///< while it was asked: the job may only be slow
    bool blames = false; ///< some of `laggards`; the others are only not in a communicator
    std::string text;    ///< lines for the user
    std::vector<Laggard> laggards;
};

class Control {
public:
    using Time = Heartbeat::Time;

    Control(ControlSettings settings, ArbiterRules rules)
        : settings_(std::move(settings)), arbiter_(std::move(rules)), heartbeat_(settings_.node_timeout) {}
    Control(const Control&) = delete;
    Control& operator=(const Control&) = delete;
    virtual ~Control() = default;

    /// Returns a descriptor to poll for input, which never changes. It is readable when process() has something to do.
    /// -1: none.
    [[nodiscard]] virtual int fd() const = 0;
    /// Returns the time by which process() must be called.
    [[nodiscard]] virtual std::optional<Time> deadline() const = 0;

    // Events on this node.
    virtual void report_failure(const RankFailure& failure, Time when) { arbiter_.on_failure(0, failure, when); }
    virtual void report_dump(const RankDump& dump) { arbiter_.on_dump(0, dump); }
    virtual void report_ended(const Ended& what) { arbiter_.on_ended(0, what); }
    virtual void report_signal(const SignalCount& count) { arbiter_.on_signal(0, count); }
    /// For the hang watch: whether something moved since the last call.
    virtual void report_activity(bool moved) = 0;
    /// On node 0: returns true once when nothing has moved for the hang timeout. The caller asks NCCL's RAS, and calls
    /// report_ras().
    virtual bool take_hang_suspicion() { return false; }
    /// Reports that the job hangs, and ends it with --hang-action kill. If anything has moved meanwhile, does not end
    /// it, and says that it hangs only if ranks lag: what moved may be output of RAS itself.
    virtual void report_ras(RasAnswer /*answer*/) {}
    /// This node cannot continue. Informs the others before this launcher exits.
    void report_node_lost(const std::string& why) { arbiter_.on_lost(0, why); }

    /// Returns the orders for this node, in order. Never waits.
    virtual std::vector<Order> process(Time now) = 0;
    /// Returns the warnings to print, each once.
    std::vector<std::string> take_warnings() { return std::exchange(warnings_, {}); }

    /// Returns the arbiter that decides for this node: nullptr for a worker, unless the node is on its own.
    [[nodiscard]] virtual const Arbiter* arbiter() const = 0;

protected:
    ControlSettings settings_;
    Arbiter arbiter_; ///< of a worker: decides for its node alone if there is no coordinator
    Heartbeat heartbeat_;
    std::vector<std::string> warnings_;
};

/// Returns the control of node rank 0, which may be the only node. If it cannot listen for the others, it works alone
/// and gives a warning.
std::unique_ptr<Control> make_coordinator_control(ControlSettings settings, const ArbiterRules& rules);

/// Returns the control of another node. `own`: the rules for the case that there is no coordinator.
std::unique_ptr<Control> make_worker_control(ControlSettings settings, ArbiterRules own);

/// Returns the warning of a launcher that is not connected to the others.
std::string only_through_slurm(const std::string& why);

} // namespace rdma_nccl::run
