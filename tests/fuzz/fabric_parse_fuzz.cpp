// SPDX-License-Identifier: Apache-2.0
// The texts of single sysfs files: whatever is read must be printed back as it was.
#include "lib/base/text.h"
#include "lib/fabric/kernel_text.h"
#include "lib/fabric/readers.h"
#include "tests/fuzz/check.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

using rdma_nccl::natural_name_less;

namespace {

/// std::sort() needs an order: of two different names one comes first, and of three the first two of a chain do.
void check_order(std::string_view a, std::string_view b, std::string_view c) {
    if (natural_name_less(a, b) == natural_name_less(b, a) && a != b) {
        std::abort();
    }
    if (natural_name_less(a, b) && natural_name_less(b, c) && !natural_name_less(a, c)) {
        std::abort();
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace rdma_nccl;
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    if (const auto gid = parse_gid(text); gid && parse_gid(gid_text(*gid)) != gid) {
        std::abort();
    }
    const auto rate = parse_rate(text);
    if (rate && !(rate->gbps > 0 && rate->gbps <= 1e6)) { // also for "not a number"
        std::abort();
    }
    if (is_netdev_name(text) && text.find('/') != std::string_view::npos) {
        std::abort();
    }
    const auto half = text.substr(0, size / 2);
    const auto rest = text.substr(size / 2);
    if (common_pci_ancestors(pci_ancestors(half), pci_ancestors(rest)) !=
        common_pci_ancestors(pci_ancestors(rest), pci_ancestors(half))) {
        std::abort();
    }
    check_order(text.substr(0, size / 3), text.substr(size / 3, size / 3), text.substr(size / 3 * 2));
    if (parse_index(half) && parse_index(rest) &&
        natural_name_less(half, rest) != (*parse_index(half) < *parse_index(rest))) {
        std::abort();
    }
    if (const auto index = parse_index(text); index && std::to_string(*index) != text) {
        std::abort();
    }
    if (is_pci_address(text) &&
        pci_function_path("/sys/devices/" + std::string(text) + "/net/x") != "/sys/devices/" + std::string(text)) {
        std::abort();
    }
    fuzz::require_plain(parse_enum_name(text));
    (void)parse_gid_type(text);
    (void)parse_link_layer(text);
    (void)is_device_name(text);
    (void)pci_function_path(text);
    (void)parse_nvidia_information(text);
    return 0;
}
