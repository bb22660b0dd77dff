// SPDX-License-Identifier: Apache-2.0
// The texts of single sysfs files: whatever is read must be printed back as it was.
#include "lib/fabric_parse.h"
#include "lib/fabric_pci.h"
#include "lib/gpus.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace rdma_nccl;
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    if (const auto gid = parse_gid(text); gid && parse_gid(gid_text(*gid)) != gid) {
        std::abort();
    }
    const double rate = parse_rate_gbps(text).value_or(1);
    if (!(rate > 0 && rate <= 1e6)) { // also for "not a number"
        std::abort();
    }
    if (is_netdev_name(text) && text.find('/') != std::string_view::npos) {
        std::abort();
    }
    const auto half = text.substr(0, size / 2);
    const auto rest = text.substr(size / 2);
    if (natural_name_less(half, rest) && natural_name_less(rest, half)) {
        std::abort();
    }
    if (common_pci_ancestors(half, rest) != common_pci_ancestors(rest, half)) {
        std::abort();
    }
    (void)parse_enum_name(text);
    (void)parse_gid_type(text);
    (void)parse_link_layer(text);
    (void)parse_index(text);
    (void)is_device_name(text);
    (void)pci_function_path(text);
    (void)parse_nvidia_information(text);
    return 0;
}
