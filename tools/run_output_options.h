// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

namespace rdma_nccl {

/// Which of a rank's streams something is about; torchrun's --redirects and --tee.
struct Streams {
    bool out = false;
    bool err = false;

    friend bool operator==(const Streams&, const Streams&) = default;
};

/// The same for all local ranks, or other ones for some ("0:1,1:3").
struct RankStreams {
    Streams all;
    std::map<unsigned, Streams> of_rank;

    [[nodiscard]] Streams of(unsigned local_rank) const {
        const auto found = of_rank.find(local_rank);
        return found == of_rank.end() ? all : found->second;
    }
};

/// What becomes of the ranks' output.
struct OutputOptions {
    bool raw = false;                        ///< the ranks write to the launcher's own stdout and stderr, byte by byte
    std::string prefix = "[{host} {rank}] "; ///< see run_prefix.h; empty: none
    std::string log_dir;                     ///< empty: below TMPDIR, where `redirects` or `tee` want files
    RankStreams redirects;                   ///< to files instead of the console
    RankStreams tee;                         ///< to files and the console
    std::optional<std::set<unsigned>> only;  ///< local ranks that the console shows; absent: all
    bool announce = false;                   ///< lines about each rank's START and END, with the time
    std::string events;                      ///< file for the stream of events as JSON lines; empty: none
};

} // namespace rdma_nccl
