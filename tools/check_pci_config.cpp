// SPDX-License-Identifier: Apache-2.0
#include "tools/check_pci_config.h"

namespace rdma_nccl {

namespace {

constexpr std::size_t header_size = 64;
constexpr std::size_t legacy_size = 256;

unsigned byte_at(std::string_view bytes, std::size_t offset) {
    return offset < bytes.size() ? static_cast<unsigned char>(bytes[offset]) : 0;
}

unsigned word_at(std::string_view bytes, std::size_t offset) {
    return byte_at(bytes, offset) | byte_at(bytes, offset + 1) << 8U;
}

/// Where the PCI Express capability is; 0: nowhere.
std::size_t express_capability(std::string_view bytes) {
    constexpr unsigned pci_express = 0x10;
    constexpr std::size_t pointer = 0x34;
    constexpr int most = 48; // four bytes each: a list that is longer runs in a circle
    std::size_t offset = byte_at(bytes, pointer) & 0xfcU;
    for (int i = 0; i < most && offset >= header_size && offset + 4 <= bytes.size(); ++i) {
        if (byte_at(bytes, offset) == pci_express) {
            return offset;
        }
        offset = byte_at(bytes, offset + 1) & 0xfcU;
    }
    return 0;
}

/// Where an extended capability is; 0: nowhere.
std::size_t extended_capability(std::string_view bytes, unsigned wanted) {
    constexpr int most = (4096 - 256) / 8;
    std::size_t offset = legacy_size;
    for (int i = 0; i < most && offset >= legacy_size && offset + 4 <= bytes.size(); ++i) {
        if (word_at(bytes, offset) == wanted) {
            return offset;
        }
        offset = word_at(bytes, offset + 2) >> 4U & 0xffcU;
    }
    return 0;
}

} // namespace

void read_pci_config(std::string_view bytes, PciFunction& function) {
    constexpr unsigned acs = 0x000d;
    constexpr unsigned request_and_completion_redirect = 0x4 | 0x8; // ACS control, bits 2 and 3
    constexpr unsigned enable_relaxed_ordering = 0x10;              // device control, bit 4
    function.config_known = bytes.size() > header_size;
    function.config_extended = bytes.size() > legacy_size;
    if (const auto express = express_capability(bytes); express != 0) {
        function.relaxed_orders = (word_at(bytes, express + 8) & enable_relaxed_ordering) != 0;
    }
    if (const auto control = extended_capability(bytes, acs); control != 0) {
        function.acs_redirects = (word_at(bytes, control + 6) & request_and_completion_redirect) != 0;
    }
}

} // namespace rdma_nccl
