// SPDX-License-Identifier: Apache-2.0
// A report of NCCL's RAS, which whoever listens at the port can write: the input is two of them, with a zero byte
// between.
#include "lib/nccl_ras/judge.h"
#include "tests/fuzz/check.h"

#include <cstddef>
#include <cstdint>
#include <string_view>

using namespace rdma_nccl;
using fuzz::require;
using fuzz::require_all_plain;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view input(reinterpret_cast<const char*>(data), size);
    const auto zero = input.find('\0');
    const auto earlier = ras::parse_report(input.substr(0, zero));
    const auto later = zero == std::string_view::npos ? earlier : ras::parse_report(input.substr(zero + 1));
    if (!earlier || !later) {
        return 0;
    }
    const auto verdict = ras::judge(*earlier, *later);
    require(verdict.lags.empty() != (verdict.state == ras::State::Lagging), "a lag has ranks, and only a lag");
    for (const auto& lag : verdict.lags) {
        const bool is_waited_for = !lag.members.empty() || lag.unnamed > 0;
        require(is_waited_for && lag.waiting > 0 && lag.operation > 0, "somebody waits for somebody");
    }
    require_all_plain(ras::lines_of(verdict, ras::describe, "62 s"));
    return 0;
}
