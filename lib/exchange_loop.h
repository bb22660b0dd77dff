// SPDX-License-Identifier: Apache-2.0
// The event loop of srun's exchange server: connections in, whole messages out.
#pragma once

#include "lib/exchange_endpoint.h"
#include "lib/exchange_message.h"
#include "lib/exchange_rounds.h"
#include "lib/result.h"
#include "lib/unique_fd.h"

#include <chrono>
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

namespace rdma_nccl {

class ExchangeLoop {
public:
    using Clock = std::chrono::steady_clock;

    /// `listener` and `stop` (an eventfd) must outlive this.
    static Result<std::unique_ptr<ExchangeLoop>> make(int listener, int stop, const Secret& secret, ExchangeStep step,
                                                      ExchangeRounds::Tell tell);

    /// Until `stop` is written to, and then until all nodes are done or the milliseconds written are over.
    void run();
    /// Afterwards.
    [[nodiscard]] StepEvidence take_step_evidence() { return rounds_.take_step_evidence(); }

private:
    struct Connection {
        UniqueFd socket;
        Clock::time_point since;
        bool trusted = false;
        std::string heard; ///< of the question
        MessageStream in{most_from_node};
        std::deque<std::shared_ptr<const std::string>> out;
        std::size_t written = 0; ///< of out.front()
        bool wants_to_write = false;
    };

    ExchangeLoop(int listener, int stop, const Secret& secret, UniqueFd events, ExchangeStep step,
                 ExchangeRounds::Tell tell);

    void turn();
    [[nodiscard]] bool done() const;
    [[nodiscard]] int time_to_wait() const;
    void read_stop();
    void take_connections();
    void listen_again();
    void pause_listening();
    void make_room();
    void close_strangers();
    void handle(int id, unsigned events);
    bool read(int id, Connection& connection);
    bool read_question(Connection& connection, std::string_view bytes) const;
    bool read_messages(int id, Connection& connection);
    static bool write(Connection& connection);
    void watch_writing(int id, Connection& connection);
    void send(int id, std::shared_ptr<const std::string> message);
    void close(int id);

    int listener_;
    int stop_;
    Secret secret_;
    UniqueFd events_;
    std::size_t most_strangers_;
    ExchangeRounds rounds_;
    std::map<int, Connection> connections_; ///< by number, never used twice
    std::set<int> strangers_;               ///< who has not asked the question yet, the oldest first
    std::set<int> unsent_;                  ///< who has something to be written
    int next_id_;
    bool listening_ = true;
    std::optional<Clock::time_point> end_;
};

} // namespace rdma_nccl
