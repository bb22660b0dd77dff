// SPDX-License-Identifier: Apache-2.0
// Ranks on a machine of any shape. The input is text where its first line says "lists": CPU lists, CPU masks, and the
// masks of a node's ranks. Else each byte is one choice in the making of a machine (placement_machine.h).
#include "lib/base/text.h"
#include "lib/plan/node_placement.h"
#include "tests/fuzz/check.h"
#include "tests/fuzz/placement_check.h"
#include "tests/fuzz/placement_machine.h"

#include <cstddef>
#include <cstdint>

using namespace rdma_nccl;
using fuzz::require;
using fuzz::require_plain;

namespace {

/// 0, the simplest choice, from the end of the input on.
class Choices {
public:
    explicit Choices(std::string_view bytes) : bytes_(bytes) {}

    std::size_t operator()(std::size_t count) {
        if (bytes_.empty()) {
            return 0;
        }
        const auto byte = static_cast<unsigned char>(bytes_.front());
        bytes_.remove_prefix(1);
        return byte % count;
    }

private:
    std::string_view bytes_;
};

void check_machine(std::string_view bytes) {
    const auto machine = fuzz::MachineMaker(Choices(bytes)).make();
    const auto fault = fuzz::find_fault(machine.facts());
    require(fault.empty(), fault);
}

void check_set(const CpuSet& set, std::string_view text) {
    require_plain(set.list());
    require(CpuSet::parse_list(set.list()) == set, "a set is its list", text);
    require(set.cpus().size() == set.size() && set.empty() == (set.size() == 0), "the size of a set", text);
    require(set.empty() || set.cpus().back() < most_cpus, "no CPU that Linux cannot have", text);
    require((set - set).empty() && (set | set) == set && (set & set) == set, "a set and itself", text);
}

void check_lists(std::string_view text) {
    if (const auto set = CpuSet::parse_list(text)) {
        check_set(*set, text);
    }
    for (const std::size_t ranks : {1U, 2U, 3U, 8U}) {
        const auto masks = read_masks(text, ranks);
        require(!masks || masks->size() == ranks, "a mask for each rank", text);
        require(!masks || read_masks(write_masks(*masks), ranks) == masks, "masks are read as they are written", text);
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view input(reinterpret_cast<const char*>(data), size);
    const auto [kind, text] = split_once(input, '\n');
    if (kind == "lists") {
        check_lists(text.value_or("").substr(0, 4096));
    } else {
        check_machine(input);
    }
    return 0;
}
