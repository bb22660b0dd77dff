// SPDX-License-Identifier: Apache-2.0
// The common command-line options of `rdma-nccl pairs` and `rdma-nccl bench`.
#pragma once

#include "tools/common/settings_options.h"

#include <chrono>
#include <optional>
#include <string>

namespace rdma_nccl {

/// The same on all members.
struct MeasureOptions {
    SettingsOptions settings;
    std::optional<std::chrono::milliseconds> time_limit;
    std::chrono::milliseconds join_time{60000}; ///< how long to wait for members
    bool json = false;
    bool quiet = false;    ///< show no progress
    std::string csv, html; ///< files; "-": stdout; empty: none
};

/// The limits as given on the command line.
struct MeasureLimits {
    double time_limit_s = 0; ///< 0: none
    double join_s = 60;

    void apply(MeasureOptions& options) const;
};

inline constexpr double most_measure_seconds = 7 * 86400.0;

std::chrono::milliseconds time_of_seconds(double seconds);

void add_limit_options(const Subcommand& command, MeasureLimits& limits);

/// `csv`, `html`: help texts that describe these files.
void add_form_options(const Subcommand& command, MeasureOptions& options, const char* csv, const char* html);

} // namespace rdma_nccl
