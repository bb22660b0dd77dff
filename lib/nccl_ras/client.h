// SPDX-License-Identifier: Apache-2.0
// Asks NCCL's RAS, which listens on each node of a job at NCCL_RAS_ADDR (rasClientInitSocket() in NCCL's
// src/ras/client_support.cc). It has no authentication, and several jobs of a user may share a port: then any of them
// answers.
#pragma once

#include "lib/base/result.h"
#include "lib/nccl_ras/judge.h"
#include "lib/net/ip.h"

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl::ras {

/// NCCL's own default of NCCL_RAS_ADDR.
inline constexpr std::string_view default_address = "localhost:28028";

struct Endpoint {
    std::vector<IpAddress> addresses; ///< in the order to try them
    std::uint16_t port = 0;
    std::string text; ///< for messages; printable
};

/// Parses "10.0.0.1:28028", "[fd00::1]:28028" or "localhost:28028", which is either loopback address. Fails for other
/// names: RAS is asked on the node itself.
Result<Endpoint> parse_endpoint(std::string_view text);

/// On whose account RAS is asked, which decides from which NCCL on.
enum class Use {
    OfLiveJob, ///< from 2.29.2 on: before, a report with missing ranks could crash the rank that writes it (NCCL #1762)
    OfLostJob, ///< from 2.24 on, for a job that is given up
};

struct Asking {
    Use use = Use::OfLostJob;
    std::chrono::milliseconds interval{5000}; ///< between the two reports
    /// Of each report. RAS collects for 5 seconds, and 5 more if processes do not answer (ras.rst).
    std::chrono::milliseconds limit{30000};
    int cancel = -1; ///< a descriptor that ends everything once it is readable; -1: none
};

/// Gets one report: in JSON, or in text before 2.28.7. Fails with a message that says which NCCL is needed if that of
/// the job is too old.
Result<Report> ask(const Endpoint& endpoint, const Asking& asking);

/// Gets two reports and compares them. If only the second fails, the state is Gone, unless nobody answers in time or
/// the rank may have crashed.
Result<Verdict> ask_twice(const Endpoint& endpoint, const Asking& asking);

} // namespace rdma_nccl::ras
