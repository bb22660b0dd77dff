// SPDX-License-Identifier: Apache-2.0
#include "tools/print.h"

#include <cstdio>
#include <string>

namespace rdma_nccl {

void print_out(std::string_view text) {
    (void)std::fwrite(text.data(), 1, text.size(), stdout);
}

void print_error(std::string_view text) {
    const std::string line =
        "rdma-nccl: " + std::string(text) + "\n"; // one write: lines of several processes stay whole
    (void)std::fwrite(line.data(), 1, line.size(), stderr);
}

} // namespace rdma_nccl
