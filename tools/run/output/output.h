// SPDX-License-Identifier: Apache-2.0
// Passes the ranks' output from their pipes to the console and to files, as whole lines, each with its prefix. A thread
// of its own does this, so that a slow reader delays the ranks, as without a launcher, but not the launcher.
#pragma once

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"
#include "tools/run/options/options.h"
#include "tools/run/output/files.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace rdma_nccl::run {

struct OutputShared;
struct OutputStream;

struct StreamPlan {
    enum class Way {
        Inherit, ///< the rank writes to the launcher's stream
        File,    ///< the rank writes directly to its file
        Pipe,    ///< the launcher passes the output on
    };

    Way way = Way::Pipe;
    bool console = false;
    bool file = false;

    friend bool operator==(const StreamPlan&, const StreamPlan&) = default;
};

/// Plans a stream: stderr if `error` is true, else stdout. A stream that is both redirected and teed is teed, as in
/// torchrun.
StreamPlan plan_stream(const OutputOptions& options, unsigned local_rank, bool error);

/// The values that identify a rank in its lines and files.
struct RankName {
    std::string host;
    unsigned node_rank = 0;
    unsigned rank = 0;
    unsigned local_rank = 0;
    std::string role = "default";
};

/// At its end it passes on the output that has arrived, but does not wait for a console that accepts nothing.
class RankOutput {
public:
    struct Ends {
        int out = 1; ///< descriptor for the rank's stdout
        int err = 2;
    };
    RankOutput(RankOutput&&) noexcept = default;
    RankOutput(const RankOutput&) = delete;
    RankOutput& operator=(const RankOutput&) = delete;
    RankOutput& operator=(RankOutput&&) = delete;
    ~RankOutput();

    /// Starts the thread and creates pipes and files. `ranks`: by local rank, from 0. `directory`: the directory of
    /// this attempt, in which LOCAL_RANK/{stdout,stderr}.log are created; empty if `options` need no files.
    /// `first_output`: called by the thread with the local rank of each rank that writes for the first time, but not
    /// for files that a rank writes itself (redirected and not teed). Fails if the prefix is invalid, if there are too
    /// few descriptors, or if a file cannot be created. The caller must have blocked the signals that it handles, and
    /// must ignore SIGPIPE.
    static Result<RankOutput> start(const OutputOptions& options, const std::vector<RankName>& ranks,
                                    const std::string& directory,
                                    std::function<void(unsigned local_rank)> first_output = {});

    /// Returns the descriptors to give to the rank by dup2(2); they are close-on-exec.
    [[nodiscard]] Ends ends_of(unsigned local_rank) const;
    /// To be called when all ranks run: closes the launcher's copies of their ends, so that the end of the last writer
    /// is detected.
    void close_ends();

    /// Returns a descriptor that is readable once close_ends() was called and everything that the ranks and their
    /// children wrote has been passed on.
    [[nodiscard]] int done_fd() const;

    /// Prints a line of the launcher itself on the console's stderr, never inside a line of a rank.
    void say(const std::string& line);

    /// Returns the last lines (at most `count`, and at most 4 KiB in all) that the rank wrote to stderr, oldest first.
    /// An unfinished line at the end counts. Empty if `raw` is set without a file.
    [[nodiscard]] std::vector<std::string> last_errors(unsigned local_rank, std::size_t count) const;
    /// Returns the number of bytes from all ranks so far, which shows whether they make progress.
    [[nodiscard]] std::uint64_t bytes() const;
    /// Returns the problems so far, each once: "n01: cannot write /logs/.../stdout.log: No space left on device; ...".
    [[nodiscard]] std::vector<std::string> take_problems();

private:
    /// The launcher's data of one of a rank's two streams.
    struct Stream {
        UniqueFd end; ///< the rank's end, until all ranks have started; empty: the rank inherits the launcher's
        std::optional<LogFile> rank_file; ///< the file that the rank writes itself
    };

    RankOutput(std::size_t ranks, std::shared_ptr<OutputShared> shared) : streams_(ranks), shared_(std::move(shared)) {}
    static Result<std::optional<OutputStream>> prepare_stream(const OutputOptions& options,
                                                              const std::string& directory, const RankName& name,
                                                              bool error, Stream& kept);

    std::vector<std::array<Stream, 2>> streams_; ///< by local rank: stdout, stderr
    std::shared_ptr<OutputShared> shared_;       ///< with the thread
    std::thread thread_;
};

// Splits the bytes of a stream into whole lines, each with a prefix, and keeps the last lines.

/// The result depends only on the bytes, not on the blocks in which they arrive. A line is held back until its newline
/// or the end of the stream. The text before a carriage return that no newline follows (a progress bar) is also a line:
/// it is shown with a newline instead of the return, or dropped if it is empty. "\r\n" is kept.
class LineSplitter {
public:
    /// A longer line is split into pieces of this many bytes, each a line of its own.
    static constexpr std::size_t longest_line = 1 << 20;

    explicit LineSplitter(std::size_t longest = longest_line) : longest_(longest) {}

    /// Appends the lines that `bytes` completes to `out`.
    void take(std::string_view bytes, std::string_view prefix, std::string& out);
    /// Ends the stream: appends the held text with a newline.
    void end(std::string_view prefix, std::string& out);

private:
    void add(std::string_view text, std::string_view prefix, std::string& out);
    void emit_held(std::string_view line_end, std::string_view prefix, std::string& out);
    void decide_return(bool is_line_end, std::string_view prefix, std::string& out);

    std::size_t longest_;
    std::string held_;            ///< the unfinished line, at most `longest_` bytes
    bool return_pending_ = false; ///< a '\r' followed the held text; its meaning depends on the next byte
};

/// Keeps the end of a stream for the report of a failure.
class StreamTail {
public:
    static constexpr std::size_t size = 4096; ///< number of bytes kept

    void take(std::string_view bytes);
    /// Returns the last lines, at most `count`, oldest first. An unfinished line at the end counts.
    [[nodiscard]] std::vector<std::string> lines(std::size_t count) const;

private:
    std::string bytes_; ///< the last `size` bytes, and the one before them if any
};

} // namespace rdma_nccl::run
