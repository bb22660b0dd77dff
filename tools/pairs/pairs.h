// SPDX-License-Identifier: Apache-2.0
// `rdma-nccl pairs` measures RDMA between all nodes of a step, pair by pair. Worker 0 is the coordinator: it waits for
// the others, plans, measures, and makes the report. A worker reports what its node has and carries out the
// coordinator's orders.
#pragma once

#include "tools/measure/command.h"
#include "tools/pairs/judge.h"
#include "tools/pairs/model.h"
#include "tools/pairs/schedule.h"

#include <cstdint>
#include <optional>
#include <string>

namespace rdma_nccl {

struct Step;

namespace pairs {

/// The command line of `rdma-nccl pairs`. All workers have the same one.
struct Options : measure::Options {
    std::string schedule;      ///< "all", "quick", "ring", "bisection", "loopback"; empty: not given
    unsigned quick_rounds = 3; ///< for "quick"
    RailPairing rails = RailPairing::Same;
    std::optional<unsigned> only_rail; ///< measure only this rail
    Measurement measure;
    std::optional<bool> retest; ///< absent: only with "quick"
    std::uint64_t seed = 1;
    JudgeRules rules;
};

void add_command(const Subcommand& app, int& exit_code);

/// Runs on the coordinator, within the time limits of `options`. Sends {"do": "end"} to all workers at the end.
Report coordinate(measure::Coordinator& coordinator, const measure::World& world, const Step& step,
                  const Options& options, measure::Progress& progress);

/// Returns the exit code: 0, or 3 if the coordinator cannot be reached, or is gone before it sent "end". Prints why to
/// stderr.
int work(const measure::World& world, const Options& options, const Settings& settings);

} // namespace pairs

} // namespace rdma_nccl
