// SPDX-License-Identifier: Apache-2.0
// `rdma-nccl pairs` measures RDMA between all nodes of a step, pair by pair. Member 0 is the head: it waits for the
// others, plans, measures, and makes the report. A member reports what its node has and carries out the head's orders.
#pragma once

#include "tools/measure/command.h"
#include "tools/measure/rails.h"
#include "tools/pairs/judge.h"
#include "tools/pairs/model.h"
#include "tools/pairs/schedule.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl {

struct Step;

/// The command line of `rdma-nccl pairs`. All members have the same one.
struct PairsOptions : MeasureOptions {
    std::string schedule;      ///< "all", "quick", "ring", "bisection", "loopback"; empty: not given
    unsigned quick_rounds = 3; ///< for "quick"
    RailPairing rails = RailPairing::Same;
    std::optional<unsigned> only_rail; ///< measure only this rail
    PairsMeasure measure;
    std::optional<bool> retest; ///< absent: only with "quick"
    std::uint64_t seed = 1;
    JudgeRules rules;
};

void add_pairs_command(const Subcommand& app, int& exit_code);

/// Runs on the head, within the time limits of `options`. Sends {"do": "end"} to all members at the end.
PairsReport lead_pairs(MeasureHead& head, const MeasureWorld& world, const Step& step, const PairsOptions& options,
                       PairsProgress& progress);

/// Returns the exit code: 0, or 3 if the head cannot be reached, or is gone before it sent "end". Prints why to stderr.
int take_part_in_pairs(const MeasureWorld& world, const PairsOptions& options, const Settings& settings);

} // namespace rdma_nccl
