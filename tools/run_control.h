// SPDX-License-Identifier: Apache-2.0
// The launchers of a world as one: what happens on a node reaches all others in well under a second. The launcher of
// node rank 0, the head, is the coordinator; the others connect to it, and it decides (run_arbiter.h). A node that
// falls silent is noticed. Nothing here blocks, and ranks wait for none of it: without a key or a connection each node
// ends its own ranks only, and says so.
#pragma once

#include "lib/ip.h"
#include "lib/net/key.h"
#include "lib/result.h"
#include "tools/run_arbiter.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl {

struct ControlSettings {
    unsigned node_rank = 0;
    std::string host;                              ///< this node's name, for messages
    std::vector<IpAddress> addresses;              ///< of the head, in the order to try them
    std::uint16_t port = 0;                        ///< where it listens
    Result<Key> key = fail("no key");              ///< the same on all nodes; or why there is none
    std::string context;                           ///< names this world: the same on all nodes
    std::chrono::milliseconds node_timeout{15000}; ///< silence after which a node counts as lost
    std::chrono::milliseconds patience{60000};     ///< from the start: how long a missing launcher is waited for
};

class Control {
public:
    using Time = std::chrono::steady_clock::time_point;

    Control() = default;
    Control(const Control&) = delete;
    Control& operator=(const Control&) = delete;
    virtual ~Control() = default;

    /// To be watched for input: it is readable when work() has something to do, and stays the same. -1: no such.
    [[nodiscard]] virtual int fd() const = 0;
    /// When work() must be called at the latest.
    [[nodiscard]] virtual std::optional<Time> deadline() const = 0;

    // What happened on this node.
    virtual void failed(const RankFailure& failure, Time when) = 0;
    virtual void ended(const Ended& what) = 0;
    virtual void got_signal(const SignalCount& count) = 0;
    /// Whether something moved since the last call; for the hang watch.
    virtual void looked(bool moved) = 0;
    /// This node can do no more: the others are told, before this launcher is gone.
    virtual void gave_up(const std::string& why) = 0;

    /// What to do here, in this order; never waits.
    virtual std::vector<Order> work(Time now) = 0;
    /// What people should know, each once.
    virtual std::vector<std::string> take_warnings() = 0;

    /// Where all is decided: nullptr on other nodes than the head, unless they are on their own.
    [[nodiscard]] virtual const Arbiter* arbiter() const = 0;
};

/// What the head needs to judge hangs; absent: no watch.
struct HangRules {
    std::chrono::milliseconds after{};
    std::chrono::milliseconds interval{1000};
    bool end = false; ///< end the job that hangs
};

/// The warning of a launcher that works with no other.
std::string only_through_slurm(const std::string& why);

/// For a world of one node.
std::unique_ptr<Control> control_alone(ArbiterRules rules, const std::optional<HangRules>& hang);

/// On node rank 0. Where it cannot listen, it goes on alone and says so.
std::unique_ptr<Control> control_head(ControlSettings settings, ArbiterRules rules,
                                      const std::optional<HangRules>& hang);

/// On the other nodes. `own`: for the case that there is no head.
std::unique_ptr<Control> control_member(ControlSettings settings, ArbiterRules own);

} // namespace rdma_nccl
