// SPDX-License-Identifier: Apache-2.0
#include "tools/top/top.h"

#include <poll.h>
#include <string_view>
#include <sys/ioctl.h>
#include <unistd.h>
#include <utility>

namespace rdma_nccl {

namespace {

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

} // namespace

TopScreen::TopScreen(int output) : output_(output) {
    termios mode{};
    if (::tcgetattr(STDIN_FILENO, &mode) == 0) {
        keyboard_ = mode;
    }
    enter();
}

TopScreen::~TopScreen() {
    leave();
}

void TopScreen::enter() {
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

void TopScreen::leave() {
    if (!std::exchange(entered_, false)) {
        return;
    }
    write_to(output_, leave_alternate_screen);
    if (keyboard_) {
        ::tcsetattr(STDIN_FILENO, TCSANOW, &*keyboard_);
    }
}

ViewSize TopScreen::size() const {
    winsize window{};
    if (::ioctl(output_, TIOCGWINSZ, &window) != 0 || window.ws_col == 0 || window.ws_row == 0) {
        return {80, 24};
    }
    return {window.ws_col, window.ws_row};
}

std::string screen_frame(const std::vector<std::string>& lines) {
    std::string text(begin_frame);
    for (std::size_t i = 0; i < lines.size(); ++i) {
        text += i == 0 ? "" : "\r\n";
        text += empty_line;
        text += lines[i];
    }
    return text + std::string(end_frame);
}

} // namespace rdma_nccl
