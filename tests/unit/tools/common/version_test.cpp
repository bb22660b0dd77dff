// SPDX-License-Identifier: Apache-2.0
#include "tools/common/version.h"

#include "config.h"
#include "lib/base/text.h"

#include <gtest/gtest.h>

namespace rdma_nccl {
namespace {

TEST(VersionText, HasTheVersionFirstAndFitsABugReport) {
    const auto text = version_text();
    const auto lines = split(text, '\n');
    EXPECT_EQ(lines.front(), "rdma-nccl " PACKAGE_VERSION);
    EXPECT_LE(lines.size(), 10U);
    for (const auto line : lines) {
        EXPECT_LE(line.size(), 100U) << line;
    }
    EXPECT_NE(text.find("plugin built for: " SLURM_OF_BUILD "\n"), std::string::npos) << text;
#ifdef HAVE_HWLOC
    EXPECT_NE(text.find(HWLOC_SONAME), std::string::npos) << text;
#endif
}

} // namespace
} // namespace rdma_nccl
