// SPDX-License-Identifier: Apache-2.0
// Beside rails.cpp, because fuzz tests that read nodes need no plan.
#include "tools/measure/rails.h"

namespace rdma_nccl::measure {

std::string why_unreadable(const Json& node) {
    Release theirs;
    const auto json = node.value("rdma_nccl", Json::object());
    FieldReader reader(json);
    fields(reader, theirs);
    return theirs == own_release() ? "it says of itself what this version does not understand"
                                   : describe_others({{"it", theirs}}, "the head");
}

} // namespace rdma_nccl::measure
