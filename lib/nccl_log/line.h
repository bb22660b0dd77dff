// SPDX-License-Identifier: Apache-2.0
// Finds NCCL's messages in a line of a log (NCCL src/debug.cc, 2.8 to 2.30): "HOST:PID:TID [DEVICE] NCCL INFO TEXT" and
// "HOST:PID:TID [DEVICE] FILE:LINE (FUNCTION) NCCL WARN TEXT", after any prefix from torchrun, srun -l or mpirun.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rdma_nccl {

inline bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

struct NcclMessage {
    std::string_view host; ///< empty if the line does not name it
    std::uint32_t pid = 0;
    bool warning = false;
    bool first = true; ///< first in its line; a later one's prefix follows other text, so its host may be too long
    bool torn = false; ///< another message follows in the same line, so the end of this one may be missing
    std::string_view text;
};

/// Returns the first message in `line` and removes it from there; nullopt if none is left. A separate version line
/// ("NCCL version 2.21.5+cuda12.4", "RCCL version : 2.18.3") is a message without host. Pass `first` as false from the
/// second call on.
std::optional<NcclMessage> next_nccl_message(std::string_view& line, bool first);

/// Returns `line` without escape sequences for colours. The result points into `buffer`.
std::string_view without_colours(std::string_view line, std::string& buffer);

} // namespace rdma_nccl
