// SPDX-License-Identifier: Apache-2.0
#include "tools/run_message.h"

#include "lib/format.h"

#include <array>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

namespace rdma_nccl {

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
