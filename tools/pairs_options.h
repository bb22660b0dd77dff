// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/pairs_judge.h"
#include "tools/pairs_schedule.h"
#include "tools/pairs_values.h"
#include "tools/settings_options.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace rdma_nccl {

/// What the command line of `rdma-nccl pairs` says; the same on all members.
struct PairsOptions {
    SettingsOptions settings;
    std::string schedule;      ///< "all", "quick", "ring", "bisection", "loopback"; empty: not given
    unsigned quick_rounds = 3; ///< of "quick"
    RailPairing rails = RailPairing::Same;
    std::optional<unsigned> only_rail; ///< this one alone
    PairsMeasure measure;
    std::optional<bool> retest; ///< absent: with "quick"
    std::uint64_t seed = 1;
    std::optional<std::chrono::milliseconds> time_limit;
    std::chrono::milliseconds join_time{60000}; ///< how long members are waited for
    JudgeRules rules;
    bool json = false;
    bool quiet = false;    ///< no progress
    std::string csv, html; ///< files; "-": stdout; empty: none
};

} // namespace rdma_nccl
