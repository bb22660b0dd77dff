// SPDX-License-Identifier: Apache-2.0
#include "lib/base/names.h"

#include <algorithm>
#include <cstddef>

namespace rdma_nccl {

namespace {

bool is_letter_or_digit(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

} // namespace

bool is_device_name(std::string_view name) {
    constexpr std::size_t longest = 63; // IB_DEVICE_NAME_MAX is 64 with the final NUL
    return !name.empty() && name.size() <= longest && name != "." && name != ".." &&
           std::all_of(name.begin(), name.end(),
                       [](char c) { return is_letter_or_digit(c) || c == '_' || c == '-' || c == '.'; });
}

bool is_netdev_name(std::string_view name) {
    constexpr std::size_t longest = 15; // IFNAMSIZ is 16 with the final NUL
    return !name.empty() && name.size() <= longest && name != "." && name != ".." &&
           std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c < 0x7f && c != '/' && c != ':'; });
}

} // namespace rdma_nccl
