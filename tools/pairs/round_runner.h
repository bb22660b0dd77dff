// SPDX-License-Identifier: Apache-2.0
// Carries out rounds of pairings on the members; all pairings of a round run at the same time.
#pragma once

#include "tools/measure/channel.h"
#include "tools/measure/progress.h"
#include "tools/pairs/model.h"
#include "tools/pairs/nodes.h"
#include "tools/pairs/pair_run.h"

#include <map>
#include <optional>
#include <vector>

namespace rdma_nccl {

class PairsRounds {
public:
    using Time = MeasureClock::time_point;

    /// `report` holds the nodes and the measurement, and receives the results. `deadline`: of all rounds; absent: none.
    PairsRounds(MeasureHead& head, NodeRoster& crew, PairsReport& report, PairsProgress& progress,
                std::optional<Time> deadline)
        : head_(head), crew_(crew), report_(report), progress_(progress), deadline_(deadline) {}

    /// Returns false if it ended early; PairsReport::ended_early then says why.
    bool run(const std::vector<Round>& rounds, bool retest);

private:
    struct Place {
        std::size_t run = 0;
        unsigned side = 0;
    };

    void begin(const Round& round, bool retest);
    void send(std::size_t run, const SideOrders& orders);
    void skip(const PairingJob& job, unsigned node, const std::string& why);
    [[nodiscard]] PairingJob job_of(const Pairing& pairing, bool retest) const;
    [[nodiscard]] bool busy() const;
    [[nodiscard]] Time next_deadline() const;
    bool wait();
    void take(const MeasureEvent& event);
    void expire();
    bool end_early(std::string why);
    void collect(bool all);
    void add(PairResult result);
    void show(std::size_t left);

    MeasureHead& head_;
    NodeRoster& crew_;
    PairsReport& report_;
    PairsProgress& progress_;
    std::optional<Time> deadline_;
    std::vector<PairingRun> runs_;     ///< of this round
    std::map<unsigned, Place> places_; ///< by member
    std::uint64_t numbers_ = 0;
    unsigned rounds_done_ = 0;
    std::size_t failed_ = 0;          ///< number of failed results in the report
    MeasureClock::duration spent_{0}; ///< in finished rounds
};

} // namespace rdma_nccl
