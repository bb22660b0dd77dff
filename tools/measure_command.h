// SPDX-License-Identifier: Apache-2.0
// A subcommand that measures with all processes of a step: who leads and who takes part, the wait for all of them, and
// where the results go: never half of a file, and never over what is not ours.
#pragma once

#include "lib/json.h"
#include "lib/settings.h"
#include "tools/measure_control.h"
#include "tools/measure_options.h"
#include "tools/pairs_progress.h"

#include <functional>
#include <string>
#include <string_view>

namespace rdma_nccl {

/// Tells what was measured, and returns the exit code.
using MeasureTell = std::function<int()>;

struct MeasureCommand {
    std::string_view name; ///< of the subcommand
    KeyPurpose purpose;
    std::string_view own_part; ///< "the ranks": what the head starts a process for
    /// Whether this world can do what the line asks for; says why not.
    std::function<bool(const MeasureWorld& world)> suits;
    std::function<int(const MeasureWorld& world, const Settings& settings)> take_part;
    std::function<MeasureTell(MeasureHead& head, const MeasureWorld& world, PairsProgress& progress)> lead;
};

/// As one of the members of the step, or alone. Returns the exit code.
int run_measure_command(const MeasureCommand& command, const MeasureOptions& options);

/// A report in its forms.
struct MeasureForms {
    std::function<std::string()> text, json, csv, html;
};

/// Prints the report and writes its files. False when one could not be written.
bool tell_in_forms(const MeasureForms& forms, const MeasureOptions& options);

/// How long a head measures, from its beginning on.
struct MeasureTime {
    explicit MeasureTime(const MeasureOptions& options);
    [[nodiscard]] double seconds() const;

    MeasureClock::time_point started, join_until;
    std::optional<MeasureClock::time_point> deadline;
};

/// What a head does with members while it waits for them.
struct MeasureArrivals {
    std::function<bool()> complete;
    std::function<std::string()> missing;
    std::function<void(unsigned member, const Json& hello)> join;
    std::function<void(unsigned member, const std::string& why)> lose;
};

/// Until all are there, or are waited for no longer. Why it is to end before anything is measured; empty: it is not.
std::string await_members(MeasureHead& head, const MeasureTime& time, PairsProgress& progress,
                          const MeasureArrivals& arrivals);

} // namespace rdma_nccl
