// SPDX-License-Identifier: Apache-2.0
#define FMT_HEADER_ONLY
// Keeps fmt from using the locale, which would link all of C++'s locale code into the plugin. "{:L}" is not used.
#define FMT_STATIC_THOUSANDS_SEPARATOR ','
#include <fmt/format.h>

#include "lib/base/format.h"

namespace rdma_nccl {

std::string format_erased(fmt::string_view text, fmt::format_args arguments) {
    return fmt::vformat(text, arguments);
}

} // namespace rdma_nccl
