// SPDX-License-Identifier: Apache-2.0
// A head that ends before it has measured must let its members go: they would wait for it, each with its own error.
#pragma once

#include "tools/measure_control.h"

namespace rdma_nccl {

/// Sends {"do": "end"} to all members and waits until they are gone, also to those that join meanwhile. With `absent`
/// it waits for the others of these `members`, too, all but member 0. Ends when `limit` is over, or by a signal.
void dismiss_members(MeasureHead& head, unsigned members, std::chrono::milliseconds limit, bool absent);

} // namespace rdma_nccl
