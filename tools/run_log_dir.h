// SPDX-License-Identifier: Apache-2.0
// Where the ranks' files are: torchrun's layout (torch, distributed/elastic), in a directory that is new each time.
#pragma once

#include "lib/result.h"

#include <string>
#include <string_view>

namespace rdma_nccl {

/// Any text as one component of a path: bytes other than letters, digits, '.', '_' and '-' become '_', as a leading '.'
/// or '-' does; 64 bytes at most; "none" for an empty one.
std::string safe_file_name(std::string_view text);

/// Makes PARENT/RUN_ID_HOST_XXXXXX, the X being what no other has, and PARENT itself when it is absent; only this user
/// may read it. Returns its path.
Result<std::string> make_log_directory(const std::string& parent, std::string_view run_id, std::string_view host);

/// Makes LOG_DIRECTORY/attempt_N; 0 is the first start. Returns its path.
Result<std::string> make_attempt_directory(const std::string& log_directory, unsigned attempt);

/// Makes ATTEMPT_DIRECTORY/LOCAL_RANK, or takes the one there is. Returns its path.
Result<std::string> make_rank_directory(const std::string& attempt_directory, unsigned local_rank);

} // namespace rdma_nccl
