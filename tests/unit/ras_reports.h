// SPDX-License-Identifier: Apache-2.0
// Reports in the form of NCCL's RAS: emulated after jsonWrite...() in its src/ras/client_support.cc, not recorded.
#pragma once

#include "lib/base/format.h"
#include "lib/base/text.h"

#include <cstdint>
#include <string>
#include <vector>

namespace rdma_nccl::ras {

struct EmulatedRank {
    unsigned rank = 0;
    std::uint64_t all_reduce = 0;
    std::uint64_t all_gather = 0;
    int init_state = 0;
    bool destroy_flag = false;
    std::string host = "10.0.0.1";
    int pid = static_cast<int>(1000 + rank);
};

inline std::string json_of(const EmulatedRank& one) {
    return format_text(R"(        {{
          "rank": {},
          "host": "{}",
          "pid": {},
          "cuda_dev": 0,
          "nvml_dev": 0,
          "status": {{
            "init_state": {},
            "async_error": 0,
            "finalize_called": false,
            "destroy_flag": {},
            "abort_flag": false
          }},
          "collective_counts": {{
            "Broadcast": 3,
            "Reduce": 0,
            "AllGather": {},
            "ReduceScatter": 0,
            "AllReduce": {},
            "SendRecv": 7
          }}
        }})",
                       one.rank, one.host, one.pid, one.init_state, one.destroy_flag, one.all_gather, one.all_reduce);
}

struct EmulatedMissing {
    unsigned rank = 0;
    bool unresponsive = false;
    bool dead = false;
};

/// `comma`: what NCCL 2.28.7 to 2.28.9 forget.
inline std::string json_of(const EmulatedMissing& one, const char* comma = ",") {
    return format_text(R"(        {{
          "rank": {},
          "host": "10.0.0.2",
          "pid": {},
          "cuda_dev": 0,
          "nvml_dev": 0{}
          "status": {{
            "unresponsive": {},
            "considered_dead": {}
          }}
        }})",
                       one.rank, 2000 + one.rank, comma, one.unresponsive, one.dead);
}

inline std::string communicator_json(const std::string& hash, const std::vector<EmulatedRank>& ranks,
                                     const std::vector<EmulatedMissing>& missing = {}, const char* comma = ",") {
    std::vector<std::string> there;
    for (const auto& rank : ranks) {
        there.push_back(json_of(rank));
    }
    std::vector<std::string> not_there;
    for (const auto& rank : missing) {
        not_there.push_back(json_of(rank, comma));
    }
    return format_text(R"(    {{
      "hash": "{}",
      "secondary_hash": "0x1:0x2",
      "size": {},
      "ranks_count": {},
      "missing_ranks_count": {},
      "ranks": [
{}
      ],
      "missing_ranks": [
{}
      ]
    }})",
                       hash, ranks.size() + missing.size(), ranks.size(), missing.size(), joined(there, ",\n"),
                       joined(not_there, ",\n"));
}

inline std::string report_json(const std::vector<std::string>& communicators) {
    return format_text(R"({{
  "nccl_version": "2.30.7",
  "cuda_runtime_version": 13000,
  "cuda_driver_version": 13000,
  "timestamp": "2026-11-27 08:00:00",
  "communicators_count": {},
  "communicators": [
{}
  ],
  "ras": {{
    "collection_time_sec": 0.002,
    "timeouts_count": 0
  }}
}}
)",
                       communicators.size(), joined(communicators, ",\n"));
}

} // namespace rdma_nccl::ras
