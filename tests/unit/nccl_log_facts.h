// SPDX-License-Identifier: Apache-2.0
// What a log's reader found, as one line for a table of expectations.
#pragma once

#include "lib/base/format.h"
#include "lib/nccl_log/reader.h"

#include <array>
#include <string>
#include <string_view>

namespace rdma_nccl::test {

inline NcclLog read_log(std::string_view text) {
    NcclLogReader reader;
    reader.read(text);
    return reader.finish();
}

inline std::string listed(const NcclNames& names) {
    std::string text;
    for (const auto& name : names) {
        text += (text.empty() ? "" : ", ") + name;
    }
    return text;
}

/// "IB; mlx5_0:1; rdma 1, gdr 2", without what is empty.
inline std::string facts_of(const NcclProcess& process) {
    constexpr std::array<std::string_view, nccl_transports> transports = {"rdma",   "gdr", "socket", "other",
                                                                          "nvlink", "p2p", "shm"};
    std::string connections;
    for (std::size_t i = 0; i < nccl_transports; ++i) {
        if (process.connections.at(i) > 0) {
            connections +=
                format_text("{}{} {}", connections.empty() ? "" : ", ", transports.at(i), process.connections.at(i));
        }
    }
    std::string rank;
    if (process.rank) {
        rank = format_text("rank {} of {}", *process.rank, process.ranks);
    }
    if (process.nodes > 0) {
        rank += format_text(" on {}", process.nodes);
    }
    std::string text;
    for (const auto& part :
         {process.version, rank, listed(process.networks), listed(process.hcas), listed(process.gids), connections}) {
        if (!part.empty()) {
            text += (text.empty() ? "" : "; ") + part;
        }
    }
    return text;
}

} // namespace rdma_nccl::test
