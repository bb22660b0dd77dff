// SPDX-License-Identifier: Apache-2.0
// A subcommand that measures with all processes of a step: starts the head and the members, waits for all of them, and
// writes the results. It never leaves a partial file, and never overwrites other programs' files.
#pragma once

#include "lib/base/json.h"
#include "lib/settings/settings.h"
#include "tools/measure/channel.h"
#include "tools/measure/options.h"
#include "tools/measure/progress.h"

#include <functional>
#include <string>
#include <string_view>

namespace rdma_nccl {

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
