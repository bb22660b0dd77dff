// SPDX-License-Identifier: Apache-2.0
// The splitter of the ranks' output. The input's first byte says how long a line may be, the second how the rest is cut
// into blocks; however it is cut, the lines are the same, and nothing of the text is lost.
#include "tests/fuzz/check.h"
#include "tools/run/output/output.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

using namespace rdma_nccl;
using namespace rdma_nccl::run;
using fuzz::require;

namespace {

/// The lines without a prefix; blocks of `first` bytes, then more and more bytes each.
std::string lines_of(std::string_view text, std::size_t longest, std::size_t first, std::string_view prefix) {
    LineSplitter splitter(longest);
    std::string out;
    for (auto size = first; !text.empty(); size = size * 3 % 17 + 1) {
        splitter.take(text.substr(0, size), prefix, out);
        text.remove_prefix(std::min(size, text.size()));
    }
    splitter.end(prefix, out);
    return out;
}

std::string without_line_ends(std::string_view text) {
    std::string result(text);
    std::erase_if(result, [](char c) { return c == '\n' || c == '\r'; });
    return result;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 2) {
        return 0;
    }
    const std::size_t longest = data[0] + 1U;
    const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
    const auto whole = lines_of(text, longest, text.size() + 1, "");
    require(lines_of(text, longest, data[1] + 1U, "") == whole, "the same lines from other blocks", text);
    require(whole.empty() || whole.back() == '\n', "only whole lines", whole);
    require(without_line_ends(whole) == without_line_ends(text), "all of the text", text);
    for (std::size_t begin = 0; begin < whole.size(); begin = whole.find('\n', begin) + 1) {
        require(whole.find('\n', begin) - begin <= longest + 1, "no line longer than allowed", whole);
    }
    const auto lines = static_cast<std::size_t>(std::count(whole.begin(), whole.end(), '\n'));
    require(lines_of(text, longest, data[1] + 1U, "##").size() == whole.size() + 2 * lines, "a prefix for each", text);
    return 0;
}
