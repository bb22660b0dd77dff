// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace rdma_nccl {

/// Whole text to stdout.
void print_out(std::string_view text);
/// Writes out what print_out() took, and what std::cout has; false, with an error said, when that fails.
bool finish_output();
/// Into a file, in place of what is there: the user named it for this. 0, or the error.
int overwrite_file(const std::string& path, std::string_view text);
/// One line on stderr, "rdma-nccl: TEXT", in one write(2): it does not mix with what ranks write there.
void print_error(std::string_view text);

} // namespace rdma_nccl
