// SPDX-License-Identifier: Apache-2.0
#include "tools/measure/progress.h"

#include "lib/base/format.h"

#include <algorithm>
#include <sys/ioctl.h>
#include <unistd.h>

namespace rdma_nccl::measure {

namespace {

constexpr std::chrono::milliseconds between_drawings(200);
constexpr std::chrono::seconds between_lines(30);

} // namespace

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

Progress::Progress(int fd, bool quiet) : fd_(fd), quiet_(quiet), terminal_(::isatty(fd) == 1) {}

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
