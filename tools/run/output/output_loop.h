// SPDX-License-Identifier: Apache-2.0
// The work of RankOutput's thread.
#pragma once

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"
#include "tools/run/options/prefix.h"
#include "tools/run/output/files.h"
#include "tools/run/output/line_splitter.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl::run {

/// Data that the launcher's thread and the loop share.
struct OutputShared {
    std::mutex mutex;                  ///< protects the three members below
    std::vector<std::string> said;     ///< the launcher's own lines that the loop has not taken yet
    std::vector<std::string> problems; ///< not reported yet
    std::vector<StreamTail> errors;    ///< by local rank

    std::atomic<std::uint64_t> bytes = 0;
    std::atomic<bool> all_started = false; ///< no rank will get a pipe from now on
    std::atomic<bool> stop = false;

    // Eventfds:
    UniqueFd wake;  ///< the launcher has changed something of the above
    UniqueFd done;  ///< everything has been passed on
    UniqueFd ended; ///< the loop has ended

    /// Fails when there are too few descriptors.
    static Result<std::shared_ptr<OutputShared>> create(std::size_t ranks);
};

/// Makes an eventfd readable.
void notify(const UniqueFd& eventfd);

/// One pipe and the destinations of its bytes.
struct OutputStream {
    unsigned local_rank = 0;
    bool error = false; ///< stderr
    bool raw = false;   ///< unchanged bytes instead of lines
    UniqueFd pipe;      ///< read end, non-blocking; empty: ended
    bool console = false;
    std::optional<LogFile> file;
    PrefixValues names;

    LineSplitter lines;
    std::string prefix;        ///< the rendered prefix, unless it contains the time
    bool file_problem = false; ///< a problem was reported
};

struct OutputLoopSettings {
    PrefixTemplate prefix;
    std::string host;                           ///< for messages
    std::function<void(unsigned)> first_output; ///< called once for each local rank; may be empty
};

/// Returns the work of the thread: it passes the streams' bytes on until `shared` tells it to stop, and then the output
/// that has arrived, as far as possible without waiting.
std::function<void()> make_output_loop(std::shared_ptr<OutputShared> shared, OutputLoopSettings settings,
                                       std::vector<OutputStream> streams);

} // namespace rdma_nccl::run
