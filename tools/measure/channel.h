// SPDX-License-Identifier: Apache-2.0
// The processes that measure together: their numbers, where they connect, and what they say. All workers connect to the
// coordinator; it sends orders, and they answer, with JSON objects over lib/net's channel. The coordinator never waits
// without a limit: a worker that is dead, slow or gone is an event.
#pragma once

#include "lib/base/json.h"
#include "lib/base/result.h"
#include "lib/net/ip.h"
#include "lib/net/key.h"
#include "lib/net/session.h"
#include "lib/sys/environment.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl::measure {

using Clock = std::chrono::steady_clock;

/// The processes of a measurement.
struct World {
    unsigned worker = 0;                  ///< from 0; the coordinator is 0
    unsigned workers = 1;                 ///< processes: the step's tasks, or one per node if launchers start the ranks
    unsigned local = 0;                   ///< index among the workers of this node
    bool ranks = false;                   ///< one process per GPU (rank layout); else this one has all GPUs of its node
    std::string node;                     ///< this host's name
    std::optional<IpAddress> coordinator; ///< worker 0's address; may be absent in a world of one, which uses loopback
    std::uint16_t port = 0;               ///< 0: any, in a world of one
    Key key;                              ///< the same for all workers
    std::vector<std::string> nodes;       ///< of each worker, by its number; empty: unknown

    /// Returns the worker's node, or "member 3" if that is unknown.
    [[nodiscard]] std::string name_of(unsigned number) const;
};

/// Determines the world from the variables that the plugin sets (RANK and WORLD_SIZE, or NODE_RANK and NNODES;
/// MASTER_ADDR and MASTER_PORT), or that a user sets instead. Without them, outside a step, the process is alone. Fails
/// in a step of several tasks without the plugin, and names `srun --rdma-nccl`; also fails for several processes
/// without the step's key. `subcommand` is for the message.
Result<World> find_world(const Environment& environment, std::string node, std::string_view subcommand,
                         KeyPurpose purpose);

/// Waits for `events` of poll(2). Returns false if none happens before the deadline.
bool wait_for(int fd, short events, Clock::time_point deadline);

/// Limit of a message in bytes.
inline constexpr std::size_t max_message_bytes = std::size_t{4} << 20;

struct Event {
    enum class Kind {
        Joined,      ///< `message` is the worker's hello
        Message,     ///< an answer
        Lost,        ///< its connection has ended; `why`. A lost worker does not come back.
        Interrupted, ///< a signal asks to end; `why` names it. Sent once for each signal.
        Deadline,    ///< none of these happened before the deadline
    };
    Kind kind = Kind::Deadline;
    unsigned worker = 0;
    Json message; ///< always an object
    std::string why;
};

/// Runs in worker 0.
class Coordinator {
public:
    /// Listens on the world's port. From then on, INT, TERM and HUP are events.
    static Result<std::unique_ptr<Coordinator>> listen(const World& world);
    Coordinator(const Coordinator&) = delete;
    Coordinator& operator=(const Coordinator&) = delete;
    virtual ~Coordinator() = default;

    /// Returns the next event; Deadline if none comes in time.
    virtual Event next(Clock::time_point deadline) = 0;
    /// Does not wait for the worker. Does nothing if it is lost or has not joined.
    virtual void send(unsigned worker, const Json& message) = 0;
    /// Returns whether the worker is connected.
    [[nodiscard]] virtual bool has(unsigned worker) const = 0;
    /// Returns the port it listens on; in a world of one, any free port.
    [[nodiscard]] virtual std::uint16_t port() const = 0;

protected:
    Coordinator() = default;
};

/// A worker's end of the connection. INT and TERM do not end it: they reach the coordinator, too, whose end does.
class Worker {
public:
    /// Connects, and retries until the coordinator listens or the deadline is over. `hello` becomes the message of
    /// Joined. A coordinator that does not want this worker closes the connection.
    static Result<Worker> join(const World& world, const Json& hello, Clock::time_point deadline);

    /// Returns the next order, or nullopt if none comes in time. Fails if the coordinator is gone.
    Result<std::optional<Json>> receive(Clock::time_point deadline);
    /// Fails if the coordinator is gone.
    Result<void> send(const Json& message);
    /// Returns whether there is an order to receive, or the coordinator is gone: a reason to stop measuring.
    [[nodiscard]] bool has_input() const;
    /// For poll() together with other descriptors. After it, call receive() until there is no more order.
    [[nodiscard]] int fd() const { return connection_.fd(); }

private:
    explicit Worker(Connection connection) : connection_(std::move(connection)), waiting_(connection_.next_message()) {}

    Connection connection_;
    std::optional<std::string> waiting_; ///< the next message, if it has arrived
};

/// Sends {"do": "end"} to all workers, also to those that join meanwhile, and waits until they are gone, for at most
/// `limit`, or until a signal. `absent`: also waits for those of the `workers` that have not joined, except worker 0.
/// They would wait for the coordinator, and each report its own error.
void shutdown_workers(Coordinator& coordinator, unsigned workers, std::chrono::milliseconds limit, bool absent);

} // namespace rdma_nccl::measure
