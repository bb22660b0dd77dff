// SPDX-License-Identifier: Apache-2.0
// The ranks' output, from their pipes to console and files: whole lines, each with its prefix. A thread of its own
// carries it, so that a reader that is slow holds up the ranks, as it would without a launcher, but not the launcher.
#pragma once

#include "lib/result.h"
#include "tools/run_options.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace rdma_nccl {

struct StreamPlan {
    enum class Way {
        Inherit, ///< the rank writes to the launcher's own
        File,    ///< it writes straight to its file
        Pipe,    ///< the launcher passes it on
    };

    Way way = Way::Pipe;
    bool console = false;
    bool file = false;

    friend bool operator==(const StreamPlan&, const StreamPlan&) = default;
};

/// `error`: of stderr, else of stdout. A stream that is both redirected and teed is teed, as in torchrun.
StreamPlan plan_stream(const OutputOptions& options, unsigned local_rank, bool error);

/// A rank as its lines and files name it.
struct RankName {
    std::string host;
    unsigned node_rank = 0;
    unsigned rank = 0;
    unsigned local_rank = 0;
    std::string role = "default";
};

class RankOutput {
public:
    struct Ends {
        int out = 1; ///< becomes the rank's stdout
        int err = 2;
    };

    /// `directory`: of this attempt, DIR/LOCAL_RANK/{stdout,stderr}.log are made there; empty where `options` want no
    /// files. `first_output`: called by the thread with the local rank of each that writes for the first time, but not
    /// for files that a rank writes itself (redirected and not teed). Fails when the prefix is wrong, when there are
    /// too few descriptors, or when a file cannot be made. The caller has blocked the signals that it handles and
    /// ignores SIGPIPE.
    static Result<RankOutput> start(const OutputOptions& options, const std::vector<RankName>& ranks,
                                    const std::string& directory,
                                    std::function<void(unsigned local_rank)> first_output = {});
    RankOutput(RankOutput&& other) noexcept;
    RankOutput& operator=(RankOutput&& other) noexcept;
    /// Passes on what is there already, and does not wait for a console that takes nothing.
    ~RankOutput();

    /// To be given to the rank by dup2(2); close-on-exec.
    [[nodiscard]] Ends ends_of(unsigned local_rank) const;
    /// All ranks run: closes the launcher's copies of their ends, so that the end of the last writer is seen.
    void close_ends();

    /// Readable once close_ends() was called and everything that the ranks and their children wrote has been passed on.
    [[nodiscard]] int done_fd() const;

    /// A line of the launcher's own on the console's stderr, never inside a line of a rank.
    void say(const std::string& line);

    /// The last lines (at most `count`, of at most 4 KiB in all) that the rank wrote to stderr, oldest first; an
    /// unfinished one at the end counts. None with `raw` alone.
    [[nodiscard]] std::vector<std::string> last_errors(unsigned local_rank, std::size_t count) const;
    /// Bytes that came from all ranks so far: whether anything moves.
    [[nodiscard]] std::uint64_t bytes() const;
    /// What went wrong on the way, each once: "n01: cannot write /logs/.../stdout.log: No space left on device; ...".
    [[nodiscard]] std::vector<std::string> take_problems();

private:
    struct State;
    explicit RankOutput(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
};

} // namespace rdma_nccl
