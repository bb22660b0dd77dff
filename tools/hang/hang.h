// SPDX-License-Identifier: Apache-2.0
// What `rdma-nccl hang` says, as plain values, and its output.
#pragma once

#include "lib/base/json.h"
#include "lib/nccl_ras/judge.h"

#include <map>
#include <string>

namespace rdma_nccl::hang {

struct Report {
    std::string address; ///< where RAS answered
    double interval = 0; ///< seconds between its two reports
    ras::Verdict verdict;
    /// "state S (sleeping), waits in tcp_recvmsg" for each host and pid that the verdict names and that is on this
    /// node.
    std::map<std::pair<std::string, std::int32_t>, std::string> processes;

    [[nodiscard]] std::string process_of(const ras::Member& member) const;
};

/// Returns lines of at most 100 columns.
std::string text_of(const Report& report);
/// Returns a JSON object with a schema version.
std::string json_of(const Report& report);
Json schema();

} // namespace rdma_nccl::hang
