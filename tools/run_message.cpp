// SPDX-License-Identifier: Apache-2.0
#include "tools/run_message.h"

#include "lib/format.h"

#include <array>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

namespace rdma_nccl {

void print_message(std::string_view text) {
    const std::string line = format_text("rdma-nccl: {}\n", text);
    // Nobody is left to be told when stderr does not take it.
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

std::string node_name() {
    if (const char* const name = std::getenv("SLURMD_NODENAME"); name != nullptr && *name != '\0') {
        return name;
    }
    std::array<char, 256> name{};
    return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "this node";
}

std::string signal_text(int signal_number) {
    return format_text("signal {} ({})", signal_number, ::strsignal(signal_number));
}

} // namespace rdma_nccl
