// SPDX-License-Identifier: Apache-2.0
#include "lib/settings/fault.h"

#include "lib/base/format.h"
#include "lib/base/text.h"

#include <algorithm>
#include <cstddef>

namespace rdma_nccl {

std::string show_fault(std::string_view place, std::string_view text, const Fault& fault) {
    constexpr std::size_t shown = 160;
    const auto offset = static_cast<std::size_t>(fault.where.data() - text.data());
    std::string result = format_text("{}: {}", place, fault.message);
    if (text.empty() || offset > shown) {
        return result;
    }
    const std::size_t carets = std::min(std::max<std::size_t>(fault.where.size(), 1), shown - offset + 1);
    result +=
        format_text("\n    {}\n    {}{}", printable(text, shown), std::string(offset, ' '), std::string(carets, '^'));
    return result;
}

} // namespace rdma_nccl
