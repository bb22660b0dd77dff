// SPDX-License-Identifier: Apache-2.0
#include "tools/run/output/output.h"

#include <gtest/gtest.h>

namespace rdma_nccl::run {

namespace {

using Way = StreamPlan::Way;

StreamPlan plan_of(const OutputOptions& options, unsigned local_rank = 0, bool error = false) {
    return plan_stream(options, local_rank, error);
}

TEST(RunStreams, ToTheConsole) {
    OutputOptions options;
    EXPECT_EQ(plan_of(options), (StreamPlan{Way::Pipe, true, false}));
    options.only = {1};
    EXPECT_EQ(plan_of(options), (StreamPlan{Way::Pipe, false, false}));
    EXPECT_EQ(plan_of(options, 1), (StreamPlan{Way::Pipe, true, false}));
}

TEST(RunStreams, ToFiles) {
    OutputOptions options;
    options.redirects.all.out = true;
    EXPECT_EQ(plan_of(options), (StreamPlan{Way::File, false, true}));
    EXPECT_EQ(plan_of(options, 0, true), (StreamPlan{Way::Pipe, true, false}));
    options.tee.of_rank[1].out = true;
    EXPECT_EQ(plan_of(options, 1), (StreamPlan{Way::Pipe, true, true}));
    EXPECT_EQ(plan_of(options, 0), (StreamPlan{Way::File, false, true}));
    options.only = {0};
    EXPECT_EQ(plan_of(options, 1), (StreamPlan{Way::File, false, true}));
}

TEST(RunStreams, Raw) {
    OutputOptions options;
    options.raw = true;
    EXPECT_EQ(plan_of(options), (StreamPlan{Way::Inherit, true, false}));
    options.tee.all.err = true;
    EXPECT_EQ(plan_of(options, 0, true), (StreamPlan{Way::Pipe, true, true}));
    options.only = {1};
    EXPECT_EQ(plan_of(options), (StreamPlan{Way::Pipe, false, false}));
}

} // namespace

} // namespace rdma_nccl::run
