// SPDX-License-Identifier: Apache-2.0
// The work of RankOutput's thread.
#pragma once

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"
#include "tools/common/console.h"
#include "tools/run/options/prefix.h"
#include "tools/run/output/files.h"
#include "tools/run/output/line_splitter.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
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

class OutputLoop {
public:
    OutputLoop(std::shared_ptr<OutputShared> shared, OutputLoopSettings settings, std::vector<OutputStream> streams);
    /// Runs until it is told to stop, and then passes on the output that has arrived, as far as possible without
    /// waiting.
    void run();

private:
    using Time = std::chrono::steady_clock::time_point;

    struct Target {
        Console console;
        std::string name;
        bool gone = false;    ///< no process reads it any more
        bool problem = false; ///< reported
    };

    [[nodiscard]] Target& target(bool error) { return targets_.at(error ? targets_.size() - 1 : 0); }
    [[nodiscard]] bool wants_bytes(const OutputStream& stream);
    void list_polled();
    void handle_polled();
    void take_said();
    void read_stream(OutputStream& stream);
    void take(OutputStream& stream, std::string_view bytes);
    void end_stream(OutputStream& stream);
    [[nodiscard]] std::string_view prefix_of(OutputStream& stream) const;
    void write_consoles();
    void on_console_error(Target& failed, int os_error);
    void report(std::string problem);
    void notify_when_done();
    [[nodiscard]] bool anything_pending() const;

    std::shared_ptr<OutputShared> shared_;
    OutputLoopSettings settings_;
    std::vector<OutputStream> streams_;
    std::vector<Target> targets_;               ///< stdout and stderr; only one if both are the same file
    std::vector<bool> has_written_;             ///< by local rank
    std::vector<pollfd> polled_;                ///< wake, then consoles and streams that are worth polling
    std::vector<OutputStream*> polled_streams_; ///< the streams of the last entries of polled_
    std::vector<char> buffer_;
    bool done_ = false;
};

} // namespace rdma_nccl::run
