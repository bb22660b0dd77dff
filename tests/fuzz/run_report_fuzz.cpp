// SPDX-License-Identifier: Apache-2.0
// What another node says about a rank that failed: whatever is read can be told to people, and passed on.
#include "tests/fuzz/check.h"
#include "tools/run_report.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

using namespace rdma_nccl;
using fuzz::require;
using fuzz::require_plain;

namespace {

void require_plain_lines(std::string text) {
    require(text.ends_with('\n'), "a whole line", text);
    std::erase(text, '\n');
    require_plain(text);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string input(reinterpret_cast<const char*>(data), size);
    const auto failure = read_failure(input);
    if (!failure) {
        require_plain(failure.error().message);
        return 0;
    }
    require_plain_lines(report_text(*failure, std::vector(20, *failure)));
    require_plain_lines(report_json({1, {*failure, *failure}, {}}));
    const auto text = write_failure(*failure);
    require_plain(text);
    require(text.size() <= most_failure_text, "a text within the limit");
    const auto again = read_failure(text);
    require(again && again->rank == failure->rank && again->code == failure->code && again->signal == failure->signal,
            "the same failure again", text);
    return 0;
}
