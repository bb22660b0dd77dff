// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/top_view.h"

#include <memory>
#include <string>
#include <vector>

namespace rdma_nccl {

/// A terminal's second screen (xterm's 1049), without cursor and echo. What was there before comes back at the end.
class TopScreen {
public:
    /// `output`: a terminal. Keys are read from stdin, where that is one too.
    explicit TopScreen(int output);
    ~TopScreen();
    TopScreen(const TopScreen&) = delete;
    TopScreen& operator=(const TopScreen&) = delete;

    /// What the user sees now; 80 x 24 where the terminal does not tell.
    [[nodiscard]] ViewSize size() const;
    /// To be written to the terminal: these lines, and nothing else on the screen.
    [[nodiscard]] static std::string frame(const std::vector<std::string>& lines);

    /// Back to the first screen (for ^Z), and to the second again.
    void leave();
    void enter();

private:
    struct Keyboard;
    int output_;
    std::unique_ptr<Keyboard> keyboard_; ///< absent where stdin is no terminal
    bool entered_ = false;
};

} // namespace rdma_nccl
