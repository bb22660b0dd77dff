// SPDX-License-Identifier: Apache-2.0
// Member 0 leads: waits for the others, plans, measures, and has the report at the end.
#pragma once

#include "lib/step.h"
#include "tools/measure_control.h"
#include "tools/measure_world.h"
#include "tools/pairs_options.h"
#include "tools/pairs_progress.h"

namespace rdma_nccl {

/// Never takes longer than the limits of `options`. Sends {"do": "end"} to all members at the end.
PairsReport lead_pairs(MeasureHead& head, const MeasureWorld& world, const Step& step, const PairsOptions& options,
                       PairsProgress& progress);

/// The rounds of a schedule over these nodes.
std::vector<Round> plan_rounds(const PairsOptions& options, const std::string& schedule,
                               const std::vector<PairNode>& nodes);

/// "4 nodes, 2 rails, all pairs: 6 rounds, 12 pairings, about 40 s".
std::string announce(const std::string& schedule, const std::vector<PairNode>& nodes, const std::vector<Round>& rounds,
                     const PairsMeasure& measure);

} // namespace rdma_nccl
