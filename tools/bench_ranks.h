// SPDX-License-Identifier: Apache-2.0
// The ranks of a member: processes of their own, started anew for each run, as NCCL reads its environment once.
#pragma once

#include "lib/json.h"
#include "lib/result.h"
#include "lib/unique_fd.h"
#include "tools/bench_layout.h"

#include <cstddef>
#include <list>
#include <string>
#include <sys/types.h>
#include <vector>

namespace rdma_nccl {

struct BenchRankStart {
    std::vector<std::string> command;
    int run = 0;              ///< that it belongs to
    BenchVariables variables; ///< beside the environment of this process
    Json order;               ///< the first that it hears
};

/// What a rank said, or how it ended.
struct BenchRankEvent {
    int run = 0; ///< a process that cannot be killed at once, as it is in a driver, may outlast its run
    unsigned rank = 0;
    Json says; ///< an object; null when it has ended
    bool ended_well = false;
    std::string end; ///< "killed by signal 9 (Killed)"; of one that has ended
};

class BenchRanks {
public:
    BenchRanks() = default;
    BenchRanks(const BenchRanks&) = delete;
    BenchRanks& operator=(const BenchRanks&) = delete;
    ~BenchRanks() { kill(); } ///< none outlives it

    /// Its standard output goes where this process's errors go. Signals that are blocked here are so in the rank, too:
    /// it is ended by kill() alone.
    Result<void> start(unsigned rank, const BenchRankStart& start);
    /// To one of them; one that has ended hears nothing.
    void tell(int run, unsigned rank, const Json& message);
    /// All that run.
    void kill();

    [[nodiscard]] bool empty() const { return ranks_.empty(); }
    /// Descriptors that have something to read when something has happened.
    [[nodiscard]] std::vector<int> fds() const;
    /// Whether one has closed its descriptor, and its end is yet to be seen: look again soon.
    [[nodiscard]] bool some_are_ending() const;
    /// What has happened since the last call; never waits.
    std::vector<BenchRankEvent> take();

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
        /// The objects that have come since the last call.
        std::vector<Json> receive();
    };
    std::list<Process> ranks_;
};

} // namespace rdma_nccl
