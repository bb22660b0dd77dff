// SPDX-License-Identifier: Apache-2.0
// The head tells the members of a measurement what to do, and they answer: JSON objects over lib/net's channel. All
// members connect to the head; what two of them have to know of each other goes through it. The head never waits
// without a limit: a member that is dead, slow or gone is an event.
#pragma once

#include "lib/json.h"
#include "lib/net/connection.h"
#include "lib/result.h"
#include "tools/measure_world.h"

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

/// The greatest message, in bytes.
inline constexpr std::size_t most_measure_message = std::size_t{4} << 20;

/// On one line; bytes that are no UTF-8 are replaced.
std::string measure_text(const Json& message);
/// An object; nullopt for anything else, and for one that is nested deeper than any of ours: to copy it and to write
/// it again would take as much stack.
std::optional<Json> read_measure_text(std::string_view text);

struct MeasureEvent {
    enum class Kind {
        Joined,      ///< `message` is what the member said of itself
        Message,     ///< an answer
        Lost,        ///< its connection has ended; `why`. It does not come back.
        Interrupted, ///< a signal asks to end; `why` names it. Comes once for each signal.
        Deadline,    ///< nothing of all this until then
    };
    Kind kind = Kind::Deadline;
    unsigned member = 0;
    Json message; ///< always an object
    std::string why;
};

/// Of member 0.
class MeasureHead {
public:
    /// Listens on the world's port. From now on INT, TERM and HUP are events.
    static Result<std::unique_ptr<MeasureHead>> listen(const MeasureWorld& world);
    MeasureHead(const MeasureHead&) = delete;
    MeasureHead& operator=(const MeasureHead&) = delete;
    virtual ~MeasureHead() = default;

    /// The next that happens; Deadline when nothing does until then.
    virtual MeasureEvent next(MeasureClock::time_point deadline) = 0;
    /// Does not wait for the member; does nothing for one that is lost or has not joined.
    virtual void send(unsigned member, const Json& message) = 0;
    /// Whether it is connected.
    [[nodiscard]] virtual bool has(unsigned member) const = 0;
    /// Where it listens: for who is alone, one that was free.
    [[nodiscard]] virtual std::uint16_t port() const = 0;

protected:
    MeasureHead() = default;
};

/// A member's end of the connection. INT and TERM do not end a member: the head's end does, which they reach too.
class MeasureMember {
public:
    /// Connects, for as long as it takes the head to listen, but not beyond the deadline; `hello` is what Joined
    /// brings. A head that wants no such member closes the connection.
    static Result<MeasureMember> join(const MeasureWorld& world, const Json& hello, MeasureClock::time_point deadline);

    /// The next order; nullopt when none came until then; fails when the head is gone.
    Result<std::optional<Json>> receive(MeasureClock::time_point deadline);
    /// Fails when the head is gone.
    Result<void> send(const Json& message);
    /// Whether there is something to receive, or the head is gone: long measurements look from time to time, and stop.
    [[nodiscard]] bool has_input() const;
    /// To be polled together with others; behind it receive() until there is no more.
    [[nodiscard]] int fd() const { return connection_.fd(); }

private:
    explicit MeasureMember(Connection connection)
        : connection_(std::move(connection)), waiting_(connection_.next_message()) {}

    Connection connection_;
    std::optional<std::string> waiting_; ///< the next message, where it has come
};

/// A head that ends before it has measured must let its members go: they would wait for it, each with its own error.
/// Sends {"do": "end"} to all members and waits until they are gone, also to those that join meanwhile. With `absent`
/// it waits for the others of these `members`, too, all but member 0. Ends when `limit` is over, or by a signal.
void dismiss_members(MeasureHead& head, unsigned members, std::chrono::milliseconds limit, bool absent);

} // namespace rdma_nccl
