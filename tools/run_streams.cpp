// SPDX-License-Identifier: Apache-2.0
#include "tools/run_streams.h"

namespace rdma_nccl {

namespace {

bool has(const RankStreams& streams, unsigned local_rank, bool error) {
    const auto wanted = streams.of(local_rank);
    return error ? wanted.err : wanted.out;
}

} // namespace

StreamPlan plan_stream(const OutputOptions& options, unsigned local_rank, bool error) {
    const bool teed = has(options.tee, local_rank, error);
    const bool redirected = has(options.redirects, local_rank, error) && !teed;
    StreamPlan plan;
    plan.file = teed || redirected;
    plan.console = !redirected && (!options.only || options.only->contains(local_rank));
    if (plan.file && !plan.console) {
        plan.way = StreamPlan::Way::File;
    } else if (options.raw && plan.console && !plan.file) {
        plan.way = StreamPlan::Way::Inherit;
    }
    return plan;
}

} // namespace rdma_nccl
