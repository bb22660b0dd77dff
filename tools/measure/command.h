// SPDX-License-Identifier: Apache-2.0
// What `rdma-nccl pairs` and `bench` have in common: options, the start of the coordinator and its workers, and the
// report's files, of which none is left in part, and none of another program is overwritten.
#pragma once

#include "lib/base/format.h"
#include "lib/settings/settings.h"
#include "tools/common/settings_options.h"
#include "tools/measure/channel.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unistd.h>

namespace rdma_nccl::measure {

inline std::chrono::milliseconds to_milliseconds(double seconds) {
    return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

/// The same on all workers.
struct Options {
    SettingsOptions settings;
    double time_limit_s = 0; ///< 0: none
    double join_s = 60;      ///< how long to wait for workers
    bool json = false;
    bool quiet = false;    ///< show no progress
    std::string csv, html; ///< files; "-": stdout; empty: none

    [[nodiscard]] std::chrono::milliseconds join_time() const { return to_milliseconds(join_s); }
};

inline constexpr double max_seconds = 7 * 86400.0;

void add_limits(const Subcommand& command, Options& options);

/// `csv`, `html`: help texts that describe these files.
void add_formats(const Subcommand& command, Options& options, const char* csv, const char* html);

/// Returns 80 if `fd` is no terminal.
unsigned terminal_columns(int fd);

/// Returns "40 s", "17 min", "2 h 5 min".
std::string format_duration(std::chrono::milliseconds time);

/// Shows the progress of a measurement on stderr.
class Progress {
public:
    using Time = Clock::time_point;

    /// Redraws one line on a terminal; else prints a line from time to time. `quiet`: prints nothing.
    Progress(int fd, bool quiet) : fd_(fd), quiet_(quiet), terminal_(::isatty(fd) == 1) {}
    ~Progress() { clear(); }
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;

    /// Prints a line that stays.
    void say(std::string_view text);
    void show(std::string_view text, Time now);
    [[nodiscard]] bool due(Time now); ///< show() would draw now, so that it is worth to format a text
    void clear();                     ///< removes the line from the terminal

private:
    void write(std::string_view text) const;

    int fd_;
    bool quiet_, terminal_;
    bool drawn_ = false;
    std::optional<Time> shown_;
};

/// Prints the results and returns the exit code.
using ReportPrinter = std::function<int()>;

struct Command {
    std::string_view name; ///< of the subcommand
    KeyPurpose purpose;
    std::string_view own_part; ///< "the ranks": the part that the coordinator starts a process for
    /// Returns whether this world can do what the command line asks for; reports why not.
    std::function<bool(const World& world)> suits;
    std::function<int(const World& world, const Settings& settings)> take_part;
    std::function<ReportPrinter(Coordinator& coordinator, const World& world, Progress& progress)> lead;
};

/// Runs as a worker of the step, or alone. Returns the exit code.
int run_command(const Command& command, const Options& options);

/// Functions that format a report.
struct Formats {
    std::function<std::string()> text, json, csv, html;
};

/// Prints the report and writes its files. Returns false if a file could not be written.
bool write_formats(const Formats& formats, const Options& options);

/// The time limits of a coordinator, which start when this object is created.
struct TimeLimits {
    explicit TimeLimits(const Options& options) : join_until(started + options.join_time()) {
        if (options.time_limit_s > 0) {
            deadline = started + to_milliseconds(options.time_limit_s);
        }
    }
    [[nodiscard]] double seconds() const { return std::chrono::duration<double>(Clock::now() - started).count(); }

    Clock::time_point started = Clock::now(), join_until;
    std::optional<Clock::time_point> deadline;
};

/// Waits for all workers, until the time for that is over. `workers` has complete(), missing(), join() and lose().
/// Returns why the measurement must end before it starts, or an empty text.
std::string await_workers(Coordinator& coordinator, const TimeLimits& time, Progress& progress, auto& workers) {
    while (!workers.complete()) {
        const auto now = Clock::now();
        if (time.deadline && now >= *time.deadline) {
            return "time limit";
        }
        if (now >= time.join_until) {
            break;
        }
        if (now - time.started > std::chrono::seconds(3) && progress.due(now)) {
            progress.show(format_text("waiting for {}", workers.missing()), now);
        }
        const auto event = coordinator.next(std::min(now + std::chrono::milliseconds(500), time.join_until));
        if (event.kind == Event::Kind::Interrupted) {
            return format_text("interrupted by {}", event.why);
        }
        if (event.kind == Event::Kind::Joined) {
            workers.join(event.worker, event.message);
        } else if (event.kind == Event::Kind::Lost) {
            workers.lose(event.worker, event.why);
        }
    }
    return "";
}

} // namespace rdma_nccl::measure
