// SPDX-License-Identifier: Apache-2.0
// What launchers hear from each other: what is taken can be said again, and a rank's failure be told to people.
#include "tests/fuzz/check.h"
#include "tools/run/control/messages.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

using namespace rdma_nccl;
using namespace rdma_nccl::run;
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
    auto message = read_message<ControlMessage>({reinterpret_cast<const char*>(data), size});
    if (!message) {
        require_plain(message.error().message);
        return 0;
    }
    if (auto* const notice = std::get_if<FailureNotice>(&*message)) {
        auto& failure = notice->failure;
        require_plain_lines(report_text(failure, std::vector(20, failure)));
        require_plain_lines(job_report_json({1, {failure, failure}, {}}));
        failure = shortened(failure);
    }
    const auto text = write_message(*message);
    require(text.size() <= most_control_line, "a text within the limit");
    const auto again = read_message<ControlMessage>(text);
    require(again && write_message(*again) == text, "the same message again", text);
    return 0;
}
