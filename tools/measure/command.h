// SPDX-License-Identifier: Apache-2.0
// A subcommand that measures with all processes of a step, `rdma-nccl pairs` or `rdma-nccl bench`: their common
// options, the start of the coordinator and its workers, and the files of the report. It never leaves a partial file,
// and never overwrites other programs' files.
#pragma once

#include "lib/base/json.h"
#include "lib/settings/settings.h"
#include "tools/common/settings_options.h"
#include "tools/measure/channel.h"
#include "tools/measure/progress.h"

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

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

/// Prints the results and returns the exit code.
using MeasureTell = std::function<int()>;

struct MeasureCommand {
    std::string_view name; ///< of the subcommand
    KeyPurpose purpose;
    std::string_view own_part; ///< "the ranks": the part that the head starts a process for
    /// Returns whether this world can do what the command line asks for; reports why not.
    std::function<bool(const MeasureWorld& world)> suits;
    std::function<int(const MeasureWorld& world, const Settings& settings)> take_part;
    std::function<MeasureTell(MeasureHead& head, const MeasureWorld& world, PairsProgress& progress)> lead;
};

/// Runs as a member of the step, or alone. Returns the exit code.
int run_measure_command(const MeasureCommand& command, const MeasureOptions& options);

/// Functions that format a report.
struct MeasureForms {
    std::function<std::string()> text, json, csv, html;
};

/// Prints the report and writes its files. Returns false if a file could not be written.
bool tell_in_forms(const MeasureForms& forms, const MeasureOptions& options);

/// The time limits of a head, which start when this object is created.
struct MeasureTime {
    explicit MeasureTime(const MeasureOptions& options);
    [[nodiscard]] double seconds() const;

    MeasureClock::time_point started, join_until;
    std::optional<MeasureClock::time_point> deadline;
};

/// The head's callbacks while it waits for members.
struct MeasureArrivals {
    std::function<bool()> complete;
    std::function<std::string()> missing;
    std::function<void(unsigned member, const Json& hello)> join;
    std::function<void(unsigned member, const std::string& why)> lose;
};

/// Waits for all members, until the time for that is over. Returns why the measurement must end before it starts, or an
/// empty text.
std::string await_members(MeasureHead& head, const MeasureTime& time, PairsProgress& progress,
                          const MeasureArrivals& arrivals);

} // namespace rdma_nccl
