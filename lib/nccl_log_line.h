// SPDX-License-Identifier: Apache-2.0
// Where messages of NCCL stand in a line of a log (NCCL src/debug.cc, 2.8 to 2.30): "HOST:PID:TID [DEVICE] NCCL INFO
// TEXT" and "HOST:PID:TID [DEVICE] FILE:LINE (FUNCTION) NCCL WARN TEXT", behind whatever torchrun, srun -l or mpirun
// put there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rdma_nccl {

struct NcclMessage {
    std::string_view host; ///< empty where the line does not tell
    std::uint32_t pid = 0;
    bool warning = false;
    bool first = true; ///< of its line; the others' prefix hangs on the text before, so the host may be too long
    bool torn = false; ///< another message follows in the same line: this one may lack its end
    std::string_view text;
};

/// The first message in `line`, which is then what follows it; nullopt: none is left. A version line of its own ("NCCL
/// version 2.21.5+cuda12.4", "RCCL version : 2.18.3") is a message without host. Pass `first` as false from the second
/// call on.
std::optional<NcclMessage> next_nccl_message(std::string_view& line, bool first);

/// `line` without the escape sequences for colours, in `buffer`.
std::string_view without_colours(std::string_view line, std::string& buffer);

} // namespace rdma_nccl
