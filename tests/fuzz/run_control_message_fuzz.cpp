// SPDX-License-Identifier: Apache-2.0
// Lines at the port where launchers meet: no crash, and what is taken can be said again in one line.
#include "tools/run_control_message.h"

#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace rdma_nccl;
    const std::string_view line(reinterpret_cast<const char*>(data), size);
    if (const auto message = read_control_message(line)) {
        const auto again = write_control_message(*message);
        if (again.empty() || again.find('\n') != again.size() - 1 || again.size() > most_control_line ||
            !read_control_message(std::string_view(again).substr(0, again.size() - 1))) {
            std::abort();
        }
    }
    return 0;
}
