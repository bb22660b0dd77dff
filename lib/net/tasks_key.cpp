// SPDX-License-Identifier: Apache-2.0
#include "lib/net/tasks_key.h"

#include "lib/format.h"

namespace rdma_nccl {

Result<Key> tasks_key(const Environment& environment) {
    const auto text = environment.get(token_variable).value_or("");
    const auto key = parse_key(text);
    if (!key) {
        return fail(format_text("{} {}: by it the nodes know each other; start the step with srun --rdma-nccl, or set "
                                "it to the same 64 hexadecimal digits everywhere: openssl rand -hex 32",
                                token_variable, text.empty() ? "is not set" : "is not 64 hexadecimal digits"));
    }
    return *key;
}

} // namespace rdma_nccl
