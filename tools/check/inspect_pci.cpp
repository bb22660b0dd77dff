// SPDX-License-Identifier: Apache-2.0
// Inspects the PCI functions of HCAs and GPUs and the bridges above them: links, configuration space, IOMMU.
#include "lib/base/format.h"
#include "lib/base/text.h"
#include "lib/fabric/pci.h"
#include "tools/check/inspect.h"
#include "tools/check/judge.h"

#include <algorithm>
#include <iterator>

namespace rdma_nccl::check {

std::optional<double> parse_link_speed(std::string_view text) {
    constexpr double most = 1024;
    const auto unit = text.find(" GT/s");
    return unit == std::string_view::npos ? std::nullopt : parse_decimal(text.substr(0, unit), most);
}

std::optional<unsigned> parse_link_width(std::string_view text) {
    constexpr unsigned most = 32;
    const auto lanes = parse_number<unsigned>(text);
    return lanes && *lanes > 0 && *lanes <= most ? lanes : std::nullopt;
}

namespace {

constexpr std::size_t short_file = 256;
constexpr std::size_t header_size = 64;  ///< of a PCI function's configuration space; all that users can read
constexpr std::size_t legacy_size = 256; ///< root can read this much; PCI Express has more after it

unsigned byte_at(std::string_view bytes, std::size_t offset) {
    return offset < bytes.size() ? static_cast<unsigned char>(bytes[offset]) : 0;
}

unsigned word_at(std::string_view bytes, std::size_t offset) {
    return byte_at(bytes, offset) | byte_at(bytes, offset + 1) << 8U;
}

/// Returns the offset of the PCI Express capability, or 0.
std::size_t express_capability(std::string_view bytes) {
    constexpr unsigned pci_express = 0x10;
    constexpr std::size_t pointer = 0x34;
    constexpr int most = 48; // four bytes each; a longer list is circular
    std::size_t offset = byte_at(bytes, pointer) & 0xfcU;
    for (int i = 0; i < most && offset >= header_size && offset + 4 <= bytes.size(); ++i) {
        if (byte_at(bytes, offset) == pci_express) {
            return offset;
        }
        offset = byte_at(bytes, offset + 1) & 0xfcU;
    }
    return 0;
}

/// Returns the offset of an extended capability, or 0.
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

PciFunction read_function(const SysRoot& root, const std::string& path) {
    constexpr std::size_t whole_config = 4096;
    PciFunction function;
    function.path = path;
    const auto read = [&](const char* name) {
        return root.read(format_text("{}/{}", path, name), short_file).value_or("");
    };
    function.width = parse_link_width(read("current_link_width"));
    function.max_width = parse_link_width(read("max_link_width"));
    function.speed = parse_link_speed(read("current_link_speed"));
    function.max_speed = parse_link_speed(read("max_link_speed"));
    function.iommu_type = read("iommu_group/type");
    auto config = root.read(path + "/config", whole_config).value_or("");
    // read() strips trailing white space, which here may be registers. Restore the size that this user can read.
    config.resize(config.size() > legacy_size   ? whole_config
                  : config.size() > header_size ? legacy_size
                                                : config.size());
    read_pci_config(config, function);
    return function;
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

void inspect_pci(const SysRoot& root, Facts& facts) {
    std::vector<std::string_view> paths;
    std::ranges::transform(facts.fabric.hcas, std::back_inserter(paths), &Hca::pci_path);
    std::ranges::transform(facts.fabric.gpus, std::back_inserter(paths), &Gpu::pci_path);
    for (auto path : paths) {
        // Where a function is known, so are the bridges above it.
        while (is_pci_address(base_name(path)) && find_in(facts.pci, base_name(path)) == nullptr) {
            facts.pci.emplace(base_name(path), read_function(root, std::string(path)));
            path = path.substr(0, path.rfind('/'));
        }
    }
}

} // namespace rdma_nccl::check
