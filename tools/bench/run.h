// SPDX-License-Identifier: Apache-2.0
// One run as the head sees it: all its ranks from start to end, and the counters of their nodes.
#pragma once

#include "lib/base/json.h"
#include "tools/bench/bench.h"
#include "tools/bench/rank_layout.h"
#include "tools/measure/channel.h"

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace rdma_nccl {

/// A member as the head knows it.
struct BenchPeer {
    BenchOffer offer;
    unsigned local = 0;
    std::vector<unsigned> gpus; ///< GPUs that its ranks use, by CUDA's numbers in its process; empty with `host`
    unsigned rails = 0;         ///< HCA ports that rings in host memory can use
};

enum class RunEnd { Done, Interrupted, TimeLimit };

/// What all runs share.
struct BenchContext {
    MeasureHead& head;
    std::map<unsigned, BenchPeer>& peers; ///< lost members are removed
    std::vector<std::string>& losses;     ///< "n02 is gone: its process has ended"
};

class BenchRunLead {
public:
    using Time = MeasureClock::time_point;

    BenchRunLead(BenchContext crew, const BenchOptions& options, std::vector<GpuSlot> places, BenchRun run, int number,
                 unsigned rings);

    /// Returns when all ranks have ended and their nodes have sent their counters. Calls `row` for each result.
    RunEnd carry_out(std::optional<Time> deadline, const std::function<void(const BenchRow&)>& row);
    [[nodiscard]] BenchRun take() { return std::move(run_); }

private:
    struct Rank {
        GpuSlot place;
        unsigned gpu = 0; ///< CUDA's number
        bool ended = false;
        bool done = false; ///< it has measured everything and waits for the others
        std::optional<Json> offer;
        std::string at;
    };
    struct Failure {
        unsigned rank = 0;
        std::string words;
        bool consequence = false; ///< caused by another rank's failure
    };

    void start();
    void stop();
    [[nodiscard]] bool all_ended() const;
    void take_event(const MeasureEvent& event, const std::function<void(const BenchRow&)>& row);
    void take_words(unsigned rank, const Json& says, const std::function<void(const BenchRow&)>& row);
    void take_done(unsigned rank, const Json& done);
    void take_row(unsigned rank, const Json& text, const std::function<void(const BenchRow&)>& row);
    void take_end(unsigned rank, const Json& message);
    void lose(unsigned member, const std::string& why);
    void end_all_of(unsigned member, const std::string& words);
    void send_go();
    void fail_rank(unsigned rank, std::string words, bool consequence);
    /// `interrupted`: an interrupt came before. Returns false if one came before or while gathering.
    bool gather_evidence(bool interrupted);
    [[nodiscard]] unsigned gpu_of(const GpuSlot& place) const;
    [[nodiscard]] std::string name_of_member(unsigned member) const;
    [[nodiscard]] std::string name_of(unsigned rank) const;
    [[nodiscard]] std::string describe_hang() const;
    [[nodiscard]] std::string words_of_failures() const;
    [[nodiscard]] std::set<unsigned> watchers() const;

    BenchContext crew_;
    const BenchOptions& options_;
    std::vector<Rank> ranks_;
    BenchRun run_;
    int number_;
    unsigned rings_; ///< with `host`
    std::vector<Failure> failures_;
    std::map<unsigned, NodeEvidence> evidence_; ///< by member
    Time last_news_;
    bool stopped_ = false, gone_ = false;
    std::string hang_;
};

/// Returns what a rank must know of the others, from their offers. NCCL: the id from rank 0. A ring in host memory: its
/// neighbours.
Json start_payload(bool host, const std::vector<Json>& offers, std::size_t rank);

} // namespace rdma_nccl
