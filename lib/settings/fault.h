// SPDX-License-Identifier: Apache-2.0
// How a fault in a text that somebody wrote is shown: its place, the text, and carets under what is wrong.
#pragma once

#include <string>
#include <string_view>

namespace rdma_nccl {

/// The bytes of a text that are wrong, and why.
struct Fault {
    std::string_view where; ///< a part of the text that is shown with it
    std::string message;
};

/// Returns "place: message", the text, and carets under the wrong bytes.
std::string show_fault(std::string_view place, std::string_view text, const Fault& fault);

} // namespace rdma_nccl
