// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

/// Returns a line "TITLE: TEXT" for each text.
std::string titled_lines(std::string_view title, const std::vector<std::string>& texts);
/// Writes the whole text to stdout.
void print_out(std::string_view text);
/// Flushes print_out() and std::cout. Reports an error and returns false if that fails.
bool finish_output();
/// Writes to a file and replaces its content, because the user named it for this. Returns 0, or the error.
int overwrite_file(const std::string& path, std::string_view text);
/// Writes one line to stderr, "rdma-nccl: TEXT", in one write(2), so that it does not mix with the ranks' output.
void print_error(std::string_view text);

} // namespace rdma_nccl
