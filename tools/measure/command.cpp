// SPDX-License-Identifier: Apache-2.0
#include "tools/measure/command.h"

#include "lib/base/forked_worker.h"
#include "lib/base/text.h"
#include "lib/sys/environment.h"
#include "lib/sys/sysroot.h"
#include "tools/common/command_line.h"
#include "tools/common/print.h"
#include "tools/node/node_plan.h"

#include <array>
#include <cerrno>
#include <filesystem>
#include <sys/ioctl.h>
#include <sys/stat.h>

namespace rdma_nccl::measure {

namespace {

constexpr std::chrono::milliseconds between_drawings(200);
constexpr std::chrono::seconds between_lines(30);

/// Recognizes a result of rdma-nccl by its start: the headers of both CSV files, or the generator in page.html.
bool is_result_file(std::string_view start) {
    const bool page = start.starts_with("<!doctype html>");
    return start.empty() || start.starts_with("round,retest,from,") || start.starts_with("run,ranks,nodes,") ||
           (page && start.find(R"(<meta name="generator" content="rdma-nccl">)") != std::string_view::npos);
}

/// Returns why --json, --csv and --html conflict; empty if they do not. All workers of a measurement find the same
/// conflict and end without waiting for each other.
std::string conflict_of_outputs(const Options& options) {
    const auto& csv = options.csv;
    if (options.json && csv == "-") {
        return "--json and --csv - both want stdout; give one of them a file, as --csv FILE";
    }
    return csv.empty() || csv != options.html
               ? ""
               : format_text("--csv and --html both name {}; give each a file of its own", csv);
}

/// Fails if the directory is not writable, or the file is anything but an earlier result of ours or empty.
Result<void> may_overwrite(const std::string& path) {
    constexpr std::size_t enough = 1024;
    std::error_code no_directory; // an empty path, which access(2) refuses
    const auto whole = std::filesystem::absolute(path, no_directory);
    const auto shown = printable(path, 200);
    const auto directory = whole.parent_path();
    if (::access(directory.c_str(), W_OK | X_OK) != 0) {
        const int error = errno;
        return os_failure(format_text("{} cannot be written: {}", shown, printable(directory.string(), 200)), error);
    }
    struct stat status {};
    if (::lstat(whole.c_str(), &status) != 0) {
        return {};
    }
    if (!S_ISREG(status.st_mode)) {
        return fail(format_text("{} is no regular file; name one", shown));
    }
    if (const auto start = read_user_file(whole, enough); !start || !is_result_file(*start)) {
        return fail(format_text("{} is there, and no result of rdma-nccl; name another file, or remove it", shown));
    }
    return {};
}

/// Checks the paths before hours of measuring, and prints what is wrong. Empty paths and "-" are not files.
bool can_write_results(const std::string& csv, const std::string& html) {
    return std::ranges::all_of(std::array{csv, html}, [](const std::string& path) {
        const auto good = path.empty() || path == "-" ? Result<void>() : may_overwrite(path);
        if (!good) {
            print_error(good.error().message);
        }
        return good.has_value();
    });
}

/// Writes the whole file or nothing. Prints what is wrong, and returns false.
bool write_result(const std::string& path, std::string_view text) {
    // Much may have changed since the start.
    const auto done = may_overwrite(path).and_then([&] {
        return replace_file(path, text, 0644).map_error([&](const Error& error) {
            return Error{format_text("the result is not in {}: {}", printable(path, 200), error.message),
                         error.os_error};
        });
    });
    if (!done) {
        print_error(done.error().message);
    }
    return done.has_value();
}

int run_coordinator(const Command& command, const Options& options, World world, const Settings& settings) {
    Progress progress(STDERR_FILENO, options.quiet);
    auto coordinator = Coordinator::listen(world);
    if (!coordinator) {
        print_error(coordinator.error().message);
        return exit_cannot_tell;
    }
    // Workers wait for a coordinator that listens: after an error here they are told to end.
    const auto dismiss = [&] {
        constexpr std::chrono::milliseconds to_join(15000);
        shutdown_workers(**coordinator, world.workers, std::min(to_join, options.join_time()), true);
    };
    if (!can_write_results(options.csv, options.html)) {
        dismiss();
        return exit_bad_line;
    }
    world.port = (*coordinator)->port();
    // Verbs may hang in a driver and block the end of their process, so a child process does that part.
    auto worker = Child::start([&] { (void)command.take_part(world, settings); });
    if (!worker) {
        print_error(format_text("no process for {} of this node is to be had; is the limit of processes reached?",
                                command.own_part));
        dismiss();
        return exit_cannot_tell;
    }
    const auto tell = command.lead(**coordinator, world, progress);
    constexpr std::chrono::seconds to_end(2);
    (void)worker->finish(to_end);
    coordinator->reset(); // from here on a signal ends this process at once
    return tell();
}

} // namespace

void add_limits(const Subcommand& command, Options& options) {
    command.option("--time-limit", options.time_limit_s, "stop after this long, and report what is known")
        .type_name("SECONDS")
        .range(1.0, max_seconds);
    command.number("--join", options.join_s, "how long to wait for the nodes", 1.0, max_seconds, "SECONDS");
}

void add_formats(const Subcommand& command, Options& options, const char* csv, const char* html) {
    command.flag("--json", options.json, "print JSON");
    command.option("--csv", options.csv, csv).type_name("FILE").not_empty();
    command.option("--html", options.html, html).type_name("FILE").not_empty();
    command.flag("--quiet", options.quiet, "no progress on stderr");
}

int run_command(const Command& command, const Options& options) {
    const auto settings = settings_from(options.settings);
    if (!settings) {
        print_error(settings.error().message);
        return exit_bad_line;
    }
    const auto environment = Environment::from(environ);
    const auto world = find_world(environment, node_name_of(environment, *settings), command.name, command.purpose);
    if (!world) {
        print_error(world.error().message);
        return exit_cannot_tell;
    }
    if (command.suits && !command.suits(*world)) {
        return exit_bad_line;
    }
    if (const auto problem = conflict_of_outputs(options); !problem.empty()) {
        if (world->worker == 0) {
            print_error(problem);
        }
        return exit_bad_line;
    }
    return world->worker == 0 ? run_coordinator(command, options, *world, *settings)
                              : command.take_part(*world, *settings);
}

bool write_formats(const Formats& formats, const Options& options) {
    const bool csv_printed = options.csv == "-";
    print_out(options.json ? formats.json() : csv_printed ? formats.csv() : formats.text());
    const bool csv_written = options.csv.empty() || csv_printed || write_result(options.csv, formats.csv());
    const bool html_written = options.html.empty() || write_result(options.html, formats.html());
    return csv_written && html_written;
}

unsigned terminal_columns(int fd) {
    winsize size{};
    return ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::string format_duration(std::chrono::milliseconds time) {
    const auto seconds = std::chrono::ceil<std::chrono::seconds>(time).count();
    const auto minutes = (seconds + 30) / 60;
    if (seconds < 120) {
        return format_text("{} s", seconds);
    }
    return minutes < 120 ? format_text("{} min", minutes) : format_text("{} h {} min", minutes / 60, minutes % 60);
}

void Progress::write(std::string_view text) const {
    // Ignore errors: stderr may be closed on purpose.
    [[maybe_unused]] const auto written = ::write(fd_, text.data(), text.size());
}

void Progress::clear() {
    if (drawn_) {
        write("\r\x1b[K");
        drawn_ = false;
    }
}

void Progress::say(std::string_view text) {
    clear();
    if (!quiet_) {
        write(format_text("rdma-nccl: {}\n", text));
    }
}

bool Progress::due(Time now) {
    if (quiet_) {
        return false;
    }
    if (!shown_ && !terminal_) {
        shown_ = now; // a short measurement prints no progress lines
    }
    return !shown_ || now - *shown_ >= (terminal_ ? Clock::duration(between_drawings) : between_lines);
}

void Progress::show(std::string_view text, Time now) {
    if (!due(now)) {
        return;
    }
    shown_ = now;
    if (!terminal_) {
        write(format_text("rdma-nccl: {}\n", text));
        return;
    }
    write(format_text("\r{}\x1b[K", text.substr(0, terminal_columns(fd_) - 1)));
    drawn_ = true;
}

} // namespace rdma_nccl::measure
