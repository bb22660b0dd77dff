// SPDX-License-Identifier: Apache-2.0
#include "tools/print.h"

#include "lib/format.h"

#include <cstdio>
#include <string>
#include <unistd.h>

namespace rdma_nccl {

void print_out(std::string_view text) {
    (void)std::fwrite(text.data(), 1, text.size(), stdout);
}

void print_error(std::string_view text) {
    const std::string line = format_text("rdma-nccl: {}\n", text);
    // Nobody is left to be told when stderr does not take it.
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

} // namespace rdma_nccl
