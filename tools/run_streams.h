// SPDX-License-Identifier: Apache-2.0
// What becomes of each of the ranks' streams, decided from the options alone.
#pragma once

#include "tools/run_output_options.h"

namespace rdma_nccl {

struct StreamPlan {
    enum class Way {
        Inherit, ///< the rank writes to the launcher's own
        File,    ///< it writes straight to its file
        Pipe,    ///< the launcher passes it on
    };

    Way way = Way::Pipe;
    bool console = false;
    bool file = false;

    friend bool operator==(const StreamPlan&, const StreamPlan&) = default;
};

/// `error`: of stderr, else of stdout. A stream that is both redirected and teed is teed, as in torchrun.
StreamPlan plan_stream(const OutputOptions& options, unsigned local_rank, bool error);

} // namespace rdma_nccl
