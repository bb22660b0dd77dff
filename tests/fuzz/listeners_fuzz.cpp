// SPDX-License-Identifier: Apache-2.0
// What a sock_diag socket says of listeners.
#include "lib/net/listeners.h"
#include "tests/fuzz/check.h"

#include <cstdint>

using namespace rdma_nccl;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto answer = parse_diag_answer(std::as_bytes(std::span(data, size)));
    fuzz::require(answer.listeners.size() * 88 <= size, "each listener has its bytes"); // header and inet_diag_msg
    fuzz::require(answer.error >= 0, "an errno");
    fuzz::require(answer.error == 0 || answer.complete, "a refusal is the end");
    for (const auto& listener : answer.listeners) {
        fuzz::require_plain(format_stranger(listener));
        fuzz::require(!listener.program, "the kernel names no program");
    }
    return 0;
}
