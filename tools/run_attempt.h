// SPDX-License-Identifier: Apache-2.0
// The ranks of this node between one start and their end: processes, output, files, and what failed.
#pragma once

#include "tools/run_events.h"
#include "tools/run_job.h"
#include "tools/run_output.h"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl {

class Attempt {
public:
    /// Prepares output and directories; `number` 0 is the first start. `events` may be nullptr.
    static Result<Attempt> prepare(const Job& job, unsigned number, EventLog* events);

    /// Starts the node's rank `local_rank`; those before it have been started.
    Result<pid_t> start(ProcessSet& processes, const WorldPlan& plan, unsigned local_rank);
    /// No more ranks are started.
    void all_started() { output_.close_ends(); }

    /// To the log of events and, with --announce, to the console.
    void note_exit(const RankExit& rank_exit);
    void add(RankFailure failure) { failures_.push_back(std::move(failure)); }

    /// All processes have ended: with what error.json, the output and `device_of` a local rank tell.
    const std::vector<RankFailure>& complete_failures(const std::function<NearDevices(unsigned)>& device_of);

    [[nodiscard]] unsigned number() const { return number_; }
    [[nodiscard]] RankOutput& output() { return output_; }

private:
    Attempt(const Job& job, unsigned number, EventLog* events, std::string directory, RankOutput output)
        : job_(&job), number_(number), events_(events), directory_(std::move(directory)), output_(std::move(output)) {}
    [[nodiscard]] RankName name_of(std::size_t local_rank) const;
    [[nodiscard]] std::string error_file(unsigned local_rank) const;

    const Job* job_;
    unsigned number_;
    EventLog* events_;
    std::string directory_; ///< of this attempt: files of error.json; empty: none
    RankOutput output_;
    std::vector<RankFailure> failures_;
};

} // namespace rdma_nccl
