// SPDX-License-Identifier: Apache-2.0
// rdma-nccl top: live rates of RDMA and of sockets.
#include "tools/top/top.h"
#include "lib/base/format.h"
#include "lib/base/text.h"
#include "lib/sys/signal_fd.h"
#include "tools/common/command_line.h"
#include "tools/common/console.h"
#include "tools/common/print.h"
#include "tools/common/prometheus.h"
#include "tools/common/settings_options.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <poll.h>
#include <string_view>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>
#include <utility>

namespace rdma_nccl {

namespace {

struct TopOptions {
    SettingsOptions settings;
    double interval = 1;     ///< seconds
    std::uint64_t count = 0; ///< 0: until the user ends it
    std::string job;         ///< whose communicators are shown; empty: none
    std::string prometheus;  ///< file for metrics; empty: none
    bool once = false;       ///< one sample, as a table
    bool json = false;
};

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

milliseconds interval_of(const TopOptions& options) {
    return milliseconds(static_cast<std::int64_t>(options.interval * 1000));
}

// Control sequences of xterm, which current terminals share. A terminal ignores modes that it does not know.
constexpr std::string_view enter_alternate_screen = "\x1b[?1049h\x1b[?25l";
constexpr std::string_view leave_alternate_screen = "\x1b[?25h\x1b[?1049l";
constexpr std::string_view begin_frame = "\x1b[?2026h\x1b[H"; // draw the frame at once, from the upper left
constexpr std::string_view end_frame = "\x1b[J\x1b[?2026l";   // clear everything below
constexpr std::string_view empty_line = "\x1b[2K";

/// Writes to the terminal. If it accepts nothing (^S), gives up after a short time.
void write_to(int fd, std::string_view text) {
    constexpr int timeout_ms = 300;
    pollfd entry{fd, POLLOUT, 0};
    if (::poll(&entry, 1, timeout_ms) > 0) {
        (void)!::write(fd, text.data(), text.size());
    }
}

/// A terminal's alternate screen (xterm's 1049), without cursor and echo. The previous content returns at the end.
class TopScreen {
public:
    /// `output`: a terminal. Keys are read from stdin if it is also a terminal.
    explicit TopScreen(int output) : output_(output) {
        termios mode{};
        if (::tcgetattr(STDIN_FILENO, &mode) == 0) {
            keyboard_ = mode;
        }
        enter();
    }
    ~TopScreen() { leave(); }
    TopScreen(const TopScreen&) = delete;
    TopScreen& operator=(const TopScreen&) = delete;

    /// Returns the current size; 80 x 24 if the terminal does not report it.
    [[nodiscard]] ViewSize size() const {
        winsize window{};
        if (::ioctl(output_, TIOCGWINSZ, &window) != 0 || window.ws_col == 0 || window.ws_row == 0) {
            return {80, 24};
        }
        return {window.ws_col, window.ws_row};
    }

    /// Returns to the first screen (for ^Z).
    void leave() {
        if (!std::exchange(entered_, false)) {
            return;
        }
        write_to(output_, leave_alternate_screen);
        if (keyboard_) {
            ::tcsetattr(STDIN_FILENO, TCSANOW, &*keyboard_);
        }
    }

    /// Enters the alternate screen again.
    void enter() {
        if (std::exchange(entered_, true)) {
            return;
        }
        if (keyboard_) { // echo and line editing are off; ^C and ^Z still send signals
            termios mode = *keyboard_;
            mode.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
            mode.c_cc[VMIN] = 1;
            mode.c_cc[VTIME] = 0;
            ::tcsetattr(STDIN_FILENO, TCSANOW, &mode);
        }
        write_to(output_, enter_alternate_screen);
    }

private:
    int output_;
    std::optional<termios> keyboard_; ///< its mode before; absent if stdin is no terminal
    bool entered_ = false;
};

/// Returns the text to write to the terminal so that the screen shows only these lines.
std::string screen_frame(const std::vector<std::string>& lines) {
    std::string text(begin_frame);
    for (std::size_t i = 0; i < lines.size(); ++i) {
        text += i == 0 ? "" : "\r\n";
        text += empty_line;
        text += lines[i];
    }
    return text + std::string(end_frame);
}

class Loop {
public:
    Loop(TopSampler& sampler, const TopOptions& options, SignalReader signals)
        : sampler_(sampler), options_(options), signals_(std::move(signals)), console_(STDOUT_FILENO),
          interval_(interval_of(options)), count_(options.once ? 1 : options.count) {
        if (!options.json && !options.once && ::isatty(STDOUT_FILENO) == 1) {
            screen_.emplace(STDOUT_FILENO);
        }
        reads_keys_ = screen_ && ::isatty(STDIN_FILENO) == 1;
    }

    /// Returns the exit code.
    int run() {
        next_ = Clock::now();
        while (!done_) {
            if (Clock::now() >= next_ && !reached_count()) {
                take_sample();
            }
            flush();
            if (reached_count() && !console_.pending()) {
                break;
            }
            if (!done_) {
                wait();
            }
        }
        end_screen();
        return exit_code_;
    }

    /// Returns the signal that ended it, which is to be raised again; 0: none.
    [[nodiscard]] int ended_by() const { return ended_by_; }

private:
    [[nodiscard]] bool reached_count() const { return count_ > 0 && shown_ >= count_; }

    /// Takes samples at equal intervals, even if one took long. Skips a sample while the previous output is pending.
    void take_sample() {
        if (!console_.pending()) {
            TopSample sample = sampler_.next();
            if (sample.step_ended) {
                done_ = step_ended_ = true; // the last table stays
                return;
            }
            sample_ = std::move(sample);
            write_metrics();
            shown_ += sample_->seconds > 0 ? 1U : 0U;
            if (sample_->seconds > 0 || screen_) {
                show();
            }
        }
        next_ = std::max(next_ + interval_, Clock::now() + interval_ / 2);
    }

    void write_metrics() {
        const auto written = options_.prometheus.empty()
                                 ? Result<void>()
                                 : replace_metrics(options_.prometheus, "top", top_metrics(*sample_));
        if (!written) {
            screen_.reset();
            print_error("metrics are not written: " + written.error().message);
            exit_code_ = exit_cannot_tell;
            done_ = true;
        }
    }

    void show() {
        std::string& out = console_.lines();
        if (screen_) {
            out += screen_frame(top_table(*sample_, screen_->size()));
        } else if (options_.json) {
            out += top_json(*sample_) + '\n';
        } else if (options_.once) {
            out += joined(top_table(*sample_, {}), "\n") + '\n';
        } else {
            out += (shown_ == 1 ? top_heading() + '\n' : "") + joined(top_rows(*sample_), "\n") + '\n';
        }
    }

    void flush() {
        const auto error = console_.write_pending();
        done_ = done_ || error;
        if (error && *error != EPIPE && *error != EIO) { // if the reader or terminal is gone, this is no error
            screen_.reset();
            print_error(format_text("cannot write the output: {}", std::strerror(*error)));
            exit_code_ = exit_cannot_tell;
        }
    }

    void wait() {
        std::array<pollfd, 3> entries{{
            {signals_.fd(), POLLIN, 0},
            {console_.fd(), static_cast<short>(console_.pending() ? POLLOUT : 0), 0}, // POLLERR: its reader is gone
            {reads_keys_ ? STDIN_FILENO : -1, POLLIN, 0},
        }};
        if (poll_until(entries, next_) <= 0) {
            return;
        }
        while (const auto signal = signals_.next()) {
            on_signal(signal->number);
        }
        if ((entries[1].revents & (POLLERR | POLLHUP | POLLNVAL)) != 0) {
            done_ = true;
        }
        if (entries[2].revents != 0) {
            read_keys();
        }
    }

    void on_signal(int number) {
        if (number == SIGTSTP) {
            stop();
        } else if (number == SIGINT || number == SIGTERM || number == SIGHUP || number == SIGQUIT) {
            done_ = true;
            ended_by_ = number == SIGINT ? 0 : number;
        } else { // SIGWINCH; SIGCONT after a SIGSTOP: others may have written on the screen
            redraw();
        }
    }

    void redraw() {
        if (screen_ && sample_ && !console_.pending()) {
            show();
        }
    }

    void stop() {
        if (screen_) {
            screen_->leave();
        }
        (void)::raise(SIGSTOP);
        if (screen_) {
            screen_->enter();
        }
        redraw();
    }

    void read_keys() {
        std::array<char, 64> keys{};
        const auto count = ::read(STDIN_FILENO, keys.data(), keys.size());
        // Without a byte, the terminal is gone.
        done_ = done_ || count <= 0 ||
                std::string_view(keys.data(), static_cast<std::size_t>(count)).find_first_of("qQ") !=
                    std::string_view::npos;
    }

    /// Leaves the screen. After a given number of samples, the last table stays visible.
    void end_screen() {
        if (!screen_) {
            return;
        }
        const auto size = screen_->size();
        screen_.reset();
        if ((reached_count() || step_ended_) && sample_ && exit_code_ == exit_good) {
            console_.lines() += joined(top_table(*sample_, {size.columns, 0}), "\n") + '\n';
            flush();
        }
    }

    TopSampler& sampler_;
    const TopOptions& options_;
    SignalReader signals_;
    Console console_;
    milliseconds interval_;
    std::uint64_t count_; ///< of samples; 0: until the user ends it
    std::optional<TopScreen> screen_;
    std::optional<TopSample> sample_;
    Clock::time_point next_;
    std::uint64_t shown_ = 0;
    bool reads_keys_ = false;
    bool done_ = false;
    bool step_ended_ = false;
    int ended_by_ = 0;
    int exit_code_ = exit_good;
};

/// Takes and shows samples until the user ends it (q, ^C) or the count is reached. Returns the exit code: 0, also if
/// the reader of a pipe is gone; 3 after an error message if the output cannot be written. SIGTERM, SIGHUP and SIGQUIT
/// end the process with their default action, after the terminal is restored.
Result<int> top_loop(TopSampler& sampler, const TopOptions& options) {
    int exit_code = exit_good;
    int signal = 0;
    {
        const BlockedSignals blocked;
        auto reader = SignalReader::open(blocked);
        if (!reader) {
            return tl::unexpected(reader.error());
        }
        Loop loop(sampler, options, std::move(*reader));
        exit_code = loop.run();
        signal = loop.ended_by();
    }
    if (signal != 0) {
        (void)::raise(signal); // with its default action
    }
    return exit_code;
}

Result<int> run_top(const TopOptions& options, const Settings& settings) {
    auto root = SysRoot::open(settings.root);
    if (!root) {
        return tl::unexpected(root.error());
    }
    if (!root->exists("/sys/class/net")) {
        return fail("no /sys/class/net below " + root->path() + "; name the directory that holds sys and proc");
    }
    std::optional<CommunicatorSampler> communicators;
    if (!options.job.empty()) {
        auto opened = CommunicatorSampler::open(*root, options.job);
        if (!opened) {
            return tl::unexpected(opened.error());
        }
        communicators = std::move(*opened);
    }
    TopSampler sampler(std::move(*root), settings, interval_of(options), std::move(communicators));
    return top_loop(sampler, options);
}

} // namespace

void add_top_command(const Subcommand& app, int& exit_code) {
    auto options = std::make_shared<TopOptions>();
    const auto command =
        app.subcommand("top", "bytes over RDMA and over sockets, live, and whose queue pairs there are");
    command.option("-i,--interval", options->interval, "seconds between two samples, 0.1 to 3600 (default: 1)")
        .type_name("SECONDS")
        .range(0.1, 3600.0);
    const auto count = command.option("-n,--count", options->count, "end after this many samples")
                           .type_name("N")
                           .range(std::uint64_t{1}, std::uint64_t{1000000000});
    command.flag("--once", options->once, "one sample, as a table").excludes(count);
    command.flag("--json", options->json, "one JSON object a line");
    const auto job = command.option("--job", options->job, "also NCCL's communicators of this step (profile=on)")
                         .type_name("JOB[.STEP]")
                         .not_empty();
    command.option("--prometheus", options->prometheus, "write the communicators' metrics to FILE at each sample")
        .type_name("FILE")
        .not_empty()
        .needs(job);
    run_with_settings(command, options->settings, exit_code,
                      [options](const Settings& settings) { return run_top(*options, settings); });
}

} // namespace rdma_nccl
