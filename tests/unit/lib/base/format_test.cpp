// SPDX-License-Identifier: Apache-2.0
#include "lib/base/format.h"

#include <gtest/gtest.h>
#include <limits>

namespace rdma_nccl {
namespace {

TEST(BytesText, HasThreeDigitsAndAUnit) {
    struct Row {
        std::uint64_t bytes;
        const char* text;
    };
    for (const auto& row : std::initializer_list<Row>{{0, "0 B"},
                                                      {1, "1 B"},
                                                      {999, "999 B"},
                                                      {1000, "1.00 kB"},
                                                      {9994, "9.99 kB"},
                                                      {9996, "10.0 kB"},
                                                      {12345, "12.3 kB"},
                                                      {99940, "99.9 kB"},
                                                      {99960, "100 kB"},
                                                      {999499, "999 kB"},
                                                      {999500, "1.00 MB"},
                                                      {412'000'000'000, "412 GB"},
                                                      {1'040'000'000'000, "1.04 TB"},
                                                      {std::numeric_limits<std::uint64_t>::max(), "18.4 EB"}}) {
        EXPECT_EQ(format_bytes(row.bytes), row.text);
    }
}

} // namespace
} // namespace rdma_nccl
