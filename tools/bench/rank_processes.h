// SPDX-License-Identifier: Apache-2.0
// The ranks of a worker. Each run starts new processes, because NCCL reads its environment only once.
#pragma once

#include "lib/base/json.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"
#include "tools/bench/rank_layout.h"

#include <list>
#include <poll.h>
#include <string>
#include <sys/types.h>
#include <vector>

namespace rdma_nccl::bench {

struct RankStart {
    std::vector<std::string> command;
    int run = 0;         ///< run that it belongs to
    Variables variables; ///< added to this process's environment
    Json order;          ///< first message to the rank
};

/// A message of a rank, or its end.
struct RankEvent {
    int run = 0; ///< needed because a process stuck in a driver cannot be killed at once and may outlast its run
    unsigned rank = 0;
    Json message; ///< an object; null if the rank has ended
    bool ended_well = false;
    std::string end{}; ///< how it ended: "killed by signal 9 (Killed)"
};

class RankProcesses {
public:
    RankProcesses() = default;
    RankProcesses(const RankProcesses&) = delete;
    RankProcesses& operator=(const RankProcesses&) = delete;
    ~RankProcesses() { kill(); } ///< no rank outlives this object

    /// Starts a rank, whose stdout is this process's stderr. It inherits the blocked signals, so only kill() ends it.
    Result<void> start(unsigned rank, const RankStart& start);
    void send(int run, unsigned rank, const Json& message); ///< does nothing if the rank has ended
    void kill();                                            ///< all ranks

    [[nodiscard]] bool empty() const { return ranks_.empty(); }
    void add_to(std::vector<pollfd>& list) const; ///< the descriptors to poll for input
    /// Returns whether a rank has closed its descriptor but not yet ended: call take() again soon.
    [[nodiscard]] bool some_are_ending() const;
    /// Returns the events since the last call; never waits.
    std::vector<RankEvent> take();

private:
    struct Process {
        int run;
        unsigned rank;
        pid_t pid;
        UniqueFd socket;
        std::string received{}; ///< an unfinished line
        std::string unsent{};
        bool closed = false;

        void send(const Json& message);
        void flush();
        /// Returns the objects received since the last call.
        std::vector<Json> receive();
    };
    std::list<Process> ranks_;
};

} // namespace rdma_nccl::bench
