// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/top_sampler.h"

#include <chrono>
#include <cstdint>

namespace rdma_nccl {

enum class TopForm {
    Live,  ///< a screen that is drawn anew on a terminal, else plain lines
    Table, ///< the table, once
    Json,
};

struct TopLoopOptions {
    std::chrono::milliseconds interval{1000};
    std::uint64_t count = 0; ///< 0: until it is ended
    TopForm form = TopForm::Live;
};

/// Samples and shows until the user has enough (q, ^C) or the count is reached. Returns the exit code: 0, also where
/// the reader of a pipe has gone; 3, after an error was said, when the output cannot be written. TERM and HUP end the
/// process as they do others, with the terminal as it was.
int top_loop(TopSampler& sampler, const TopLoopOptions& options);

} // namespace rdma_nccl
