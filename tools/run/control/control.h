// SPDX-License-Identifier: Apache-2.0
// Connects the launchers of a world, so that an event on one node reaches all others in well under a second. The
// launcher of node rank 0, the head, is the coordinator: the others connect to it, and it decides (run_arbiter.h). A
// node that becomes unresponsive is detected. Nothing here blocks, and ranks do not wait for it. Without a key or a
// connection, each node ends only its own ranks and prints a warning.
#pragma once

#include "lib/base/result.h"
#include "lib/net/ip.h"
#include "lib/net/key.h"
#include "tools/run/control/arbiter.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl::run {

struct ControlSettings {
    unsigned node_rank = 0;
    std::string host;                              ///< name of this node, for messages
    std::vector<IpAddress> addresses;              ///< of the head, in the order to try them
    std::uint16_t port = 0;                        ///< port on which the head listens
    Result<Key> key = fail("no key");              ///< the same on all nodes; or the reason why there is none
    std::string context;                           ///< identifies this world; the same on all nodes
    std::chrono::milliseconds node_timeout{15000}; ///< a node that is silent for longer counts as lost
    std::chrono::milliseconds join_timeout{60000}; ///< how long to wait for a missing launcher, from the start
};

class Control {
public:
    using Time = std::chrono::steady_clock::time_point;

    Control() = default;
    Control(const Control&) = delete;
    Control& operator=(const Control&) = delete;
    virtual ~Control() = default;

    /// Returns a descriptor to poll for input, which never changes. It is readable when work() has something to do. -1:
    /// none.
    [[nodiscard]] virtual int fd() const = 0;
    /// Returns the time by which work() must be called.
    [[nodiscard]] virtual std::optional<Time> deadline() const = 0;

    // Events on this node.
    virtual void failed(const RankFailure& failure, Time when) = 0;
    virtual void ended(const Ended& what) = 0;
    virtual void got_signal(const SignalCount& count) = 0;
    /// Reports for the hang watch whether something moved since the last call.
    virtual void report_activity(bool moved) = 0;
    /// This node cannot continue. Informs the others before this launcher exits.
    virtual void gave_up(const std::string& why) = 0;

    /// Returns the orders for this node, in order. Never waits.
    virtual std::vector<Order> work(Time now) = 0;
    /// Returns the warnings to print, each once.
    virtual std::vector<std::string> take_warnings() = 0;

    /// Returns the arbiter that decides for this node: nullptr on nodes other than the head, unless the node is on its
    /// own.
    [[nodiscard]] virtual const Arbiter* arbiter() const = 0;
};

/// The head's rules for detecting hangs. Absent: no hang watch.
struct HangRules {
    std::chrono::milliseconds after{};
    std::chrono::milliseconds interval{1000};
    bool end = false; ///< end a job that hangs
};

/// Returns the warning of a launcher that is not connected to the others.
std::string only_through_slurm(const std::string& why);

/// Returns the control of a world of one node.
std::unique_ptr<Control> control_alone(ArbiterRules rules, const std::optional<HangRules>& hang);

/// Returns the control of node rank 0. If it cannot listen, it works alone and gives a warning.
std::unique_ptr<Control> control_head(ControlSettings settings, ArbiterRules rules,
                                      const std::optional<HangRules>& hang);

/// Returns the control of another node. `own`: the rules for the case that there is no head.
std::unique_ptr<Control> control_member(ControlSettings settings, ArbiterRules own);

} // namespace rdma_nccl::run
