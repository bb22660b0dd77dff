// SPDX-License-Identifier: Apache-2.0
// Exit codes of subcommands: 0 good, 1 warning, 2 critical, 3 cannot tell (rdma-nccl(1), EXIT STATUS).
#pragma once

namespace rdma_nccl {

inline constexpr int exit_bad_line = 2; ///< invalid command line
inline constexpr int exit_cannot_tell = 3;

} // namespace rdma_nccl
