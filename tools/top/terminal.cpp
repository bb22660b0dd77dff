// SPDX-License-Identifier: Apache-2.0
#include "tools/top/terminal.h"

#include <poll.h>
#include <string_view>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

namespace rdma_nccl {

namespace {

// Control sequences of xterm, which current terminals share. A terminal ignores modes that it does not know.
constexpr std::string_view second_screen = "\x1b[?1049h\x1b[?25l";
constexpr std::string_view first_screen = "\x1b[?25h\x1b[?1049l";
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

/// Turns echo and line editing off; ^C and ^Z still send signals.
struct TopScreen::Keyboard {
    explicit Keyboard(const termios& now) : before(now) {}
    void plain() const { ::tcsetattr(STDIN_FILENO, TCSANOW, &before); }
    void by_key() const {
        termios mode = before;
        mode.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
        mode.c_cc[VMIN] = 1;
        mode.c_cc[VTIME] = 0;
        ::tcsetattr(STDIN_FILENO, TCSANOW, &mode);
    }
    termios before;
};

TopScreen::TopScreen(int output) : output_(output) {
    termios mode{};
    if (::tcgetattr(STDIN_FILENO, &mode) == 0) {
        keyboard_ = std::make_unique<Keyboard>(mode);
    }
    enter();
}

TopScreen::~TopScreen() {
    leave();
}

void TopScreen::enter() {
    if (!entered_) {
        if (keyboard_) {
            keyboard_->by_key();
        }
        write_to(output_, second_screen);
        entered_ = true;
    }
}

void TopScreen::leave() {
    if (entered_) {
        write_to(output_, first_screen);
        if (keyboard_) {
            keyboard_->plain();
        }
        entered_ = false;
    }
}

ViewSize TopScreen::size() const {
    winsize window{};
    if (::ioctl(output_, TIOCGWINSZ, &window) != 0 || window.ws_col == 0 || window.ws_row == 0) {
        return {80, 24};
    }
    return {window.ws_col, window.ws_row};
}

std::string TopScreen::frame(const std::vector<std::string>& lines) {
    std::string text(begin_frame);
    for (std::size_t i = 0; i < lines.size(); ++i) {
        text += i == 0 ? "" : "\r\n";
        text += empty_line;
        text += lines[i];
    }
    return text + std::string(end_frame);
}

} // namespace rdma_nccl
