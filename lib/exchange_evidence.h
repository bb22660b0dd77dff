// SPDX-License-Identifier: Apache-2.0
// A node's evidence as a message of the exchange (exchange_message.h).
#pragma once

#include "lib/evidence.h"
#include "lib/result.h"

#include <string>
#include <string_view>

namespace rdma_nccl {

/// The body, its name in front. Of lists that are longer than the reader takes the end is left out, and said so.
std::string write_evidence(const NodeEvidence& evidence);

/// From the lines behind the name.
Result<NodeEvidence> read_evidence(std::string_view lines);

} // namespace rdma_nccl
