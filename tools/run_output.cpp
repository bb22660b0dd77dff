// SPDX-License-Identifier: Apache-2.0
#include "tools/run_output.h"

#include "lib/format.h"
#include "tools/run_files.h"
#include "tools/run_output_loop.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <utility>

namespace rdma_nccl {

namespace {

/// Greater than the default of 64 KiB: fewer changes between rank and launcher. Sixteen of them stay far below what a
/// user may have (/proc/sys/fs/pipe-user-pages-soft, 64 MiB); where it is refused the default does.
constexpr int pipe_size = 256 * 1024;

struct Pipe {
    UniqueFd reader;
    UniqueFd writer;
};

Result<Pipe> open_pipe() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
        return fail(format_text("cannot open a pipe for a rank's output: {} (limit: ulimit -n)", ::strerror(errno)),
                    errno);
    }
    // The reading end alone: the rank must not find its stdout non-blocking.
    ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
    ::fcntl(ends[0], F_SETPIPE_SZ, pipe_size);
    return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

PrefixValues prefix_values(const RankName& name, bool error) {
    return {name.host, std::to_string(name.rank),  std::to_string(name.local_rank), std::to_string(name.node_rank),
            name.role, error ? "stderr" : "stdout"};
}

/// One of a rank's two streams as the launcher keeps it.
struct RankStream {
    UniqueFd end;                     ///< the rank's, until all have started; none: it inherits the launcher's
    std::optional<LogFile> rank_file; ///< written by the rank itself
};

bool has(const RankStreams& streams, unsigned local_rank, bool error) {
    const auto wanted = streams.of(local_rank);
    return error ? wanted.err : wanted.out;
}

} // namespace

class RankOutput::State {
public:
    State(std::vector<RankName> ranks, std::shared_ptr<OutputShared> shared)
        : ranks_(std::move(ranks)), streams_(ranks_.size()), shared_(std::move(shared)) {}
    State(const State&) = delete;
    State& operator=(const State&) = delete;
    State(State&&) = delete;
    State& operator=(State&&) = delete;
    ~State();

    /// Makes the pipes and files of all ranks; what the loop will carry comes back.
    Result<std::vector<OutputStream>> prepare(const OutputOptions& options, const std::string& directory);
    Result<void> run(OutputLoop loop);

    [[nodiscard]] std::size_t position(unsigned local_rank) const;
    [[nodiscard]] int end_of(std::size_t rank, bool error) const;
    void close_ends();
    void say(const std::string& line);
    [[nodiscard]] std::vector<std::string> last_errors(std::size_t rank, std::size_t count) const;
    [[nodiscard]] std::uint64_t bytes() const;
    [[nodiscard]] std::vector<std::string> take_problems();
    [[nodiscard]] int done_fd() const { return shared_->done.get(); }

private:
    using Pair = std::array<RankStream, 2>; ///< stdout, stderr

    Result<std::optional<OutputStream>> prepare_stream(const OutputOptions& options, const std::string& directory,
                                                       std::size_t rank, bool error);
    static Result<LogFile> make_file(const std::string& directory, unsigned local_rank, bool error);

    std::vector<RankName> ranks_;
    std::vector<Pair> streams_; ///< by position of the rank
    std::shared_ptr<OutputShared> shared_;
    std::thread thread_;
};

Result<LogFile> RankOutput::State::make_file(const std::string& directory, unsigned local_rank, bool error) {
    const auto folder = make_rank_directory(directory, local_rank);
    if (!folder) {
        return tl::unexpected(folder.error());
    }
    return LogFile::create(*folder + (error ? "/stderr.log" : "/stdout.log"));
}

Result<std::optional<OutputStream>> RankOutput::State::prepare_stream(const OutputOptions& options,
                                                                      const std::string& directory, std::size_t rank,
                                                                      bool error) {
    const auto& name = ranks_[rank];
    const auto plan = plan_stream(options, name.local_rank, error);
    auto& kept = streams_[rank].at(error ? 1 : 0);
    std::optional<LogFile> file;
    if (plan.file) {
        auto made = make_file(directory, name.local_rank, error);
        if (!made) {
            return tl::unexpected(made.error());
        }
        file = std::move(*made);
    }
    if (plan.way == StreamPlan::Way::File) {
        kept.end.reset(::fcntl(file->fd(), F_DUPFD_CLOEXEC, 0));
        kept.rank_file = std::move(file);
        return kept.end ? Result<std::optional<OutputStream>>(std::nullopt)
                        : fail(format_text("cannot duplicate a descriptor: {} (limit: ulimit -n)", ::strerror(errno)),
                               errno);
    }
    if (plan.way == StreamPlan::Way::Inherit) {
        return std::nullopt;
    }
    auto pipe = open_pipe();
    if (!pipe) {
        return tl::unexpected(pipe.error());
    }
    kept.end = std::move(pipe->writer);
    OutputStream stream;
    stream.rank = rank;
    stream.local_rank = name.local_rank;
    stream.error = error;
    stream.raw = options.raw;
    stream.pipe = std::move(pipe->reader);
    stream.console = plan.console;
    stream.file = std::move(file);
    stream.names = prefix_values(name, error);
    return stream;
}

Result<std::vector<OutputStream>> RankOutput::State::prepare(const OutputOptions& options,
                                                             const std::string& directory) {
    std::vector<OutputStream> result;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
        for (const bool error : {false, true}) {
            auto stream = prepare_stream(options, directory, rank, error);
            if (!stream) {
                return tl::unexpected(stream.error());
            }
            if (*stream) {
                result.push_back(std::move(**stream));
            }
        }
    }
    return result;
}

Result<void> RankOutput::State::run(OutputLoop loop) {
    // All signals are the launcher's own thread's: a thread begins with the mask of the one that starts it.
    sigset_t all{};
    sigset_t before{};
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    std::error_code error;
    try {
        thread_ = std::thread([moved = std::move(loop)]() mutable { moved.run(); });
    } catch (const std::system_error& fault) {
        error = fault.code();
    }
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (error) {
        return fail(format_text("cannot start a thread for the ranks' output: {} (limits: ulimit -u, pids.max of the "
                                "cgroup)",
                                error.message()),
                    error.value());
    }
    return {};
}

RankOutput::State::~State() {
    if (!thread_.joinable()) {
        return;
    }
    shared_->stop = true;
    notify(shared_->wake);
    // Far more than the loop takes. One that hangs in a write, to a network file system or to a terminal that could not
    // be opened again, is left alone: it owns all that it uses.
    constexpr int patience = 2000; // milliseconds
    pollfd ended{shared_->ended.get(), POLLIN, 0};
    if (::poll(&ended, 1, patience) > 0) {
        thread_.join();
    } else {
        thread_.detach();
    }
}

std::size_t RankOutput::State::position(unsigned local_rank) const {
    const auto found =
        std::find_if(ranks_.begin(), ranks_.end(), [&](const auto& name) { return name.local_rank == local_rank; });
    return static_cast<std::size_t>(found - ranks_.begin());
}

int RankOutput::State::end_of(std::size_t rank, bool error) const {
    const auto inherited = error ? STDERR_FILENO : STDOUT_FILENO;
    if (rank >= streams_.size()) {
        return inherited;
    }
    const auto& end = streams_[rank].at(error ? 1 : 0).end;
    return end ? end.get() : inherited;
}

void RankOutput::State::close_ends() {
    for (auto& pair : streams_) {
        for (auto& stream : pair) {
            stream.end.reset();
        }
    }
    shared_->all_started = true;
    notify(shared_->wake);
}

void RankOutput::State::say(const std::string& line) {
    {
        const std::lock_guard lock(shared_->mutex);
        shared_->said.push_back(line);
    }
    notify(shared_->wake);
}

std::vector<std::string> RankOutput::State::last_errors(std::size_t rank, std::size_t count) const {
    if (rank >= ranks_.size()) {
        return {};
    }
    if (const auto& file = streams_[rank][1].rank_file) {
        StreamTail tail;
        tail.take(read_end(file->fd(), StreamTail::size + 1));
        return tail.lines(count);
    }
    const std::lock_guard lock(shared_->mutex);
    return shared_->errors[rank].lines(count);
}

std::uint64_t RankOutput::State::bytes() const {
    std::uint64_t sum = shared_->bytes;
    for (const auto& pair : streams_) {
        for (const auto& stream : pair) {
            sum += stream.rank_file ? file_size(stream.rank_file->fd()) : 0;
        }
    }
    return sum;
}

std::vector<std::string> RankOutput::State::take_problems() {
    const std::lock_guard lock(shared_->mutex);
    return std::exchange(shared_->problems, {});
}

Result<RankOutput> RankOutput::start(const OutputOptions& options, const std::vector<RankName>& ranks,
                                     const std::string& directory, std::function<void(unsigned)> first_output) {
    auto prefix = PrefixTemplate::parse(options.prefix);
    if (!prefix) {
        return tl::unexpected(prefix.error());
    }
    auto shared = OutputShared::create(ranks.size());
    if (!shared) {
        return tl::unexpected(shared.error());
    }
    auto state = std::make_unique<State>(ranks, *shared);
    auto streams = state->prepare(options, directory);
    if (!streams) {
        return tl::unexpected(streams.error());
    }
    OutputLoopSettings settings{std::move(*prefix), ranks.empty() ? std::string() : ranks.front().host,
                                ranks.size(),       std::move(first_output),
                                STDOUT_FILENO,      STDERR_FILENO};
    if (const auto running = state->run(OutputLoop(*shared, std::move(settings), std::move(*streams))); !running) {
        return tl::unexpected(running.error());
    }
    return RankOutput(std::move(state));
}

RankOutput::RankOutput(std::unique_ptr<State> state) : state_(std::move(state)) {}
RankOutput::RankOutput(RankOutput&&) noexcept = default;
RankOutput& RankOutput::operator=(RankOutput&&) noexcept = default;
RankOutput::~RankOutput() = default;

RankOutput::Ends RankOutput::ends_of(unsigned local_rank) const {
    const auto rank = state_->position(local_rank);
    return {state_->end_of(rank, false), state_->end_of(rank, true)};
}

void RankOutput::close_ends() {
    state_->close_ends();
}

int RankOutput::done_fd() const {
    return state_->done_fd();
}

void RankOutput::say(const std::string& line) {
    state_->say(line);
}

std::vector<std::string> RankOutput::last_errors(unsigned local_rank, std::size_t count) const {
    return state_->last_errors(state_->position(local_rank), count);
}

std::uint64_t RankOutput::bytes() const {
    return state_->bytes();
}

std::vector<std::string> RankOutput::take_problems() {
    return state_->take_problems();
}

StreamPlan plan_stream(const OutputOptions& options, unsigned local_rank, bool error) {
    const bool teed = has(options.tee, local_rank, error);
    const bool redirected = has(options.redirects, local_rank, error) && !teed;
    StreamPlan plan;
    plan.file = teed || redirected;
    plan.console = !redirected && (!options.only || options.only->contains(local_rank));
    if (plan.file && !plan.console) {
        plan.way = StreamPlan::Way::File;
    } else if (options.raw && plan.console && !plan.file) {
        plan.way = StreamPlan::Way::Inherit;
    }
    return plan;
}

} // namespace rdma_nccl
