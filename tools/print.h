// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace rdma_nccl {

/// Whole text to stdout.
void print_out(std::string_view text);
/// One line on stderr, "rdma-nccl: TEXT", in one write(2): it does not mix with what ranks write there.
void print_error(std::string_view text);

} // namespace rdma_nccl
