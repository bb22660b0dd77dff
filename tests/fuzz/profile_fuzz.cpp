// SPDX-License-Identifier: Apache-2.0
// A file of the profiler plugin's, which any process of the user's can write: the bytes of its first communicators and
// flows are the input.
#include "lib/profile/profile.h"
#include "tests/fuzz/check.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

using namespace rdma_nccl;
using fuzz::require;
using fuzz::require_plain;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    std::string file(sizeof(profile::File), '\0');
    std::memcpy(file.data(), &profile::layout, sizeof profile::layout);
    const auto copy = [&](std::size_t offset, std::size_t most) {
        const auto count = std::min(size, most);
        std::memcpy(file.data() + offset, data, count);
        data += count;
        size -= count;
    };
    copy(offsetof(profile::File, communicators) + sizeof(profile::Communicator), 2 * sizeof(profile::Communicator));
    copy(offsetof(profile::File, flows), 8 * sizeof(profile::Flow));
    const auto process = profile::parse_profile(file);
    require(process.has_value(), "a file of this layout");
    std::uint64_t sent = 0;
    for (const auto& flow : process->flows) {
        sent +=
            flow.key.kind == profile::FlowKind::Own && flow.key.communicator != 0 && flow.key.sends ? flow.bytes : 0;
    }
    for (const auto& totals : profile::merged(profile::totals_of(*process))) {
        require_plain(profile::title_of(totals));
        require_plain(profile::waits_text(totals));
        sent -= totals.sent;
    }
    require(sent == 0, "all that was sent is some communicator's");
    return 0;
}
