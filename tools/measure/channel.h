// SPDX-License-Identifier: Apache-2.0
// The processes that measure together: their numbers, where they connect, and what they say. The head of a measurement
// sends orders to its members, and they answer, with JSON objects over lib/net's channel. All members connect to the
// head, which also forwards what two of them must know of each other. The head never waits without a limit: a member
// that is dead, slow or gone is an event.
#pragma once

#include "lib/base/json.h"
#include "lib/base/result.h"
#include "lib/net/connection.h"
#include "lib/net/ip.h"
#include "lib/net/key.h"
#include "lib/sys/environment.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

using MeasureClock = std::chrono::steady_clock;

/// The processes of a measurement.
struct MeasureWorld {
    unsigned member = 0;           ///< from 0; the head is 0
    unsigned members = 1;          ///< processes: the step's tasks, or one per node if launchers start the ranks
    unsigned local = 0;            ///< index among the members of this node
    bool ranks = false;            ///< one process per GPU (rank layout); else this one has all GPUs of its node
    std::string node;              ///< this host's name
    std::optional<IpAddress> head; ///< member 0's address; may be absent in a world of one, which uses loopback
    std::uint16_t port = 0;        ///< 0: any, in a world of one
    Key key;                       ///< the same for all members
};

/// Determines the world from the variables that the plugin sets (RANK and WORLD_SIZE, or NODE_RANK and NNODES;
/// MASTER_ADDR and MASTER_PORT), or that a user sets instead. Without them, outside a step, the process is alone. Fails
/// in a step of several tasks without the plugin, and names `srun --rdma-nccl`; also fails for several processes
/// without the step's key. `subcommand` is for the message.
Result<MeasureWorld> measure_world(const Environment& environment, std::string node, std::string_view subcommand,
                                   KeyPurpose purpose);

/// Limit of a message in bytes.
inline constexpr std::size_t most_measure_message = std::size_t{4} << 20;

/// Writes `message` on one line; replaces bytes that are not UTF-8.
std::string measure_text(const Json& message);
/// Parses an object. Returns nullopt for anything else, and for an object nested deeper than any of ours, because
/// copying or writing it would need as much stack.
std::optional<Json> read_measure_text(std::string_view text);

struct MeasureEvent {
    enum class Kind {
        Joined,      ///< `message` is the member's hello
        Message,     ///< an answer
        Lost,        ///< its connection has ended; `why`. A lost member does not come back.
        Interrupted, ///< a signal asks to end; `why` names it. Sent once for each signal.
        Deadline,    ///< none of these happened before the deadline
    };
    Kind kind = Kind::Deadline;
    unsigned member = 0;
    Json message; ///< always an object
    std::string why;
};

/// Runs in member 0.
class MeasureHead {
public:
    /// Listens on the world's port. From then on, INT, TERM and HUP are events.
    static Result<std::unique_ptr<MeasureHead>> listen(const MeasureWorld& world);
    MeasureHead(const MeasureHead&) = delete;
    MeasureHead& operator=(const MeasureHead&) = delete;
    virtual ~MeasureHead() = default;

    /// Returns the next event; Deadline if none comes in time.
    virtual MeasureEvent next(MeasureClock::time_point deadline) = 0;
    /// Does not wait for the member. Does nothing if it is lost or has not joined.
    virtual void send(unsigned member, const Json& message) = 0;
    /// Returns whether the member is connected.
    [[nodiscard]] virtual bool has(unsigned member) const = 0;
    /// Returns the port it listens on; in a world of one, any free port.
    [[nodiscard]] virtual std::uint16_t port() const = 0;

protected:
    MeasureHead() = default;
};

/// A member's end of the connection. INT and TERM do not end a member: they also reach the head, whose end ends it.
class MeasureMember {
public:
    /// Connects, and retries until the head listens or the deadline is over. `hello` becomes the message of Joined. A
    /// head that does not want this member closes the connection.
    static Result<MeasureMember> join(const MeasureWorld& world, const Json& hello, MeasureClock::time_point deadline);

    /// Returns the next order, or nullopt if none comes in time. Fails if the head is gone.
    Result<std::optional<Json>> receive(MeasureClock::time_point deadline);
    /// Fails if the head is gone.
    Result<void> send(const Json& message);
    /// Returns whether there is an order to receive, or the head is gone. Long measurements check this from time to
    /// time and stop.
    [[nodiscard]] bool has_input() const;
    /// For poll() together with other descriptors. After it, call receive() until there is no more order.
    [[nodiscard]] int fd() const { return connection_.fd(); }

private:
    explicit MeasureMember(Connection connection)
        : connection_(std::move(connection)), waiting_(connection_.next_message()) {}

    Connection connection_;
    std::optional<std::string> waiting_; ///< the next message, if it has arrived
};

/// Lets the members go if the head ends before it has measured; they would wait for it, and each report its own error.
/// Sends {"do": "end"} to all members, also to those that join meanwhile, and waits until they are gone. With `absent`,
/// it also waits for those of the `members` that have not joined, except member 0. Returns after `limit`, or on a
/// signal.
void shutdown_workers(MeasureHead& head, unsigned members, std::chrono::milliseconds limit, bool absent);

} // namespace rdma_nccl
