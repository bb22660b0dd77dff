// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/top/sample.h"

#include <optional>
#include <string>
#include <termios.h>
#include <vector>

namespace rdma_nccl {

/// A terminal's alternate screen (xterm's 1049), without cursor and echo. The previous content returns at the end.
class TopScreen {
public:
    /// `output`: a terminal. Keys are read from stdin if it is also a terminal.
    explicit TopScreen(int output);
    ~TopScreen();
    TopScreen(const TopScreen&) = delete;
    TopScreen& operator=(const TopScreen&) = delete;

    /// Returns the current size; 80 x 24 if the terminal does not report it.
    [[nodiscard]] ViewSize size() const;

    /// Returns to the first screen (for ^Z), and enters the alternate screen again.
    void leave();
    void enter();

private:
    int output_;
    std::optional<termios> keyboard_; ///< its mode before; absent if stdin is no terminal
    bool entered_ = false;
};

/// Returns the text to write to the terminal so that the screen shows only these lines.
std::string screen_frame(const std::vector<std::string>& lines);

} // namespace rdma_nccl
