// SPDX-License-Identifier: Apache-2.0
#include "tools/run/output/output.h"

#include "lib/base/format.h"
#include "lib/sys/signal_fd.h"
#include "tools/run/output/files.h"
#include "tools/run/output/output_loop.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace rdma_nccl::run {

namespace {

/// Greater than the default of 64 KiB, for fewer context switches between rank and launcher. Sixteen such pipes stay
/// far below the limit of a user (/proc/sys/fs/pipe-user-pages-soft, 64 MiB); if the kernel refuses it, the default is
/// used.
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
    // Only the read end: the rank must not get a non-blocking stdout.
    ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
    ::fcntl(ends[0], F_SETPIPE_SZ, pipe_size);
    return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

/// The launcher's data of one of a rank's two streams.
struct RankStream {
    UniqueFd end; ///< the rank's end, until all ranks have started; empty: the rank inherits the launcher's
    std::optional<LogFile> rank_file; ///< the file that the rank writes itself
};

bool has(const RankStreams& streams, unsigned local_rank, bool error) {
    const auto wanted = streams.of(local_rank);
    return error ? wanted.err : wanted.out;
}

/// Creates the pipe or file of one stream. Returns the stream that the loop must handle, or nullopt if there is none.
Result<std::optional<OutputStream>> prepare_stream(const OutputOptions& options, const std::string& directory,
                                                   const RankName& name, bool error, RankStream& kept) {
    const auto plan = plan_stream(options, name.local_rank, error);
    std::optional<LogFile> file;
    if (plan.file) {
        auto made = make_rank_directory(directory, name.local_rank).and_then([error](const std::string& folder) {
            return LogFile::create(folder + (error ? "/stderr.log" : "/stdout.log"));
        });
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
    stream.local_rank = name.local_rank;
    stream.error = error;
    stream.raw = options.raw;
    stream.pipe = std::move(pipe->reader);
    stream.console = plan.console;
    stream.file = std::move(file);
    stream.names = {
        name.host, std::to_string(name.rank),  std::to_string(name.local_rank), std::to_string(name.node_rank),
        name.role, error ? "stderr" : "stdout"};
    return stream;
}

} // namespace

struct RankOutput::State {
    std::vector<std::array<RankStream, 2>> streams; ///< by local rank: stdout, stderr
    std::shared_ptr<OutputShared> shared;
    std::thread thread;

    State(std::size_t ranks, std::shared_ptr<OutputShared> with_loop) : streams(ranks), shared(std::move(with_loop)) {}
    State(const State&) = delete;
    State& operator=(const State&) = delete;
    ~State() {
        if (!thread.joinable()) {
            return;
        }
        shared->stop = true;
        notify(shared->wake);
        // Far more than the loop needs. If it hangs in a write, to a network file system or to a terminal that could
        // not be opened again, it is detached: it owns everything that it uses.
        constexpr int timeout = 2000; // milliseconds
        pollfd ended{shared->ended.get(), POLLIN, 0};
        if (::poll(&ended, 1, timeout) > 0) {
            thread.join();
        } else {
            thread.detach();
        }
    }

    template<typename Use>
    void for_each_stream(Use use) {
        for (auto& [out, err] : streams) {
            use(out);
            use(err);
        }
    }
};

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
    auto state = std::make_shared<State>(ranks.size(), *shared);
    std::vector<OutputStream> streams;
    for (const auto& rank : ranks) {
        for (const bool error : {false, true}) {
            auto stream =
                prepare_stream(options, directory, rank, error, state->streams.at(rank.local_rank).at(error ? 1 : 0));
            if (!stream) {
                return tl::unexpected(stream.error());
            }
            if (*stream) {
                streams.push_back(std::move(**stream));
            }
        }
    }
    OutputLoopSettings settings{std::move(*prefix), ranks.empty() ? std::string() : ranks.front().host,
                                std::move(first_output)};
    auto thread = thread_without_signals(
        [loop = OutputLoop(*shared, std::move(settings), std::move(streams))]() mutable { loop.run(); });
    if (!thread) {
        return fail(format_text("cannot start a thread for the ranks' output: {} (limits: ulimit -u, pids.max of the "
                                "cgroup)",
                                thread.error().message),
                    thread.error().os_error);
    }
    state->thread = std::move(*thread);
    return RankOutput(std::move(state));
}

RankOutput::Ends RankOutput::ends_of(unsigned local_rank) const {
    const auto& [out, err] = state_->streams.at(local_rank);
    return {out.end ? out.end.get() : STDOUT_FILENO, err.end ? err.end.get() : STDERR_FILENO};
}

void RankOutput::close_ends() {
    state_->for_each_stream([](RankStream& stream) { stream.end.reset(); });
    state_->shared->all_started = true;
    notify(state_->shared->wake);
}

int RankOutput::done_fd() const {
    return state_->shared->done.get();
}

void RankOutput::say(const std::string& line) {
    {
        const std::lock_guard lock(state_->shared->mutex);
        state_->shared->said.push_back(line);
    }
    notify(state_->shared->wake);
}

std::vector<std::string> RankOutput::last_errors(unsigned local_rank, std::size_t count) const {
    if (const auto& file = state_->streams.at(local_rank)[1].rank_file) {
        StreamTail tail;
        tail.take(read_end(file->fd(), StreamTail::size + 1));
        return tail.lines(count);
    }
    const std::lock_guard lock(state_->shared->mutex);
    return state_->shared->errors[local_rank].lines(count);
}

std::uint64_t RankOutput::bytes() const {
    std::uint64_t sum = state_->shared->bytes;
    state_->for_each_stream(
        [&sum](const RankStream& stream) { sum += stream.rank_file ? file_size(stream.rank_file->fd()) : 0; });
    return sum;
}

std::vector<std::string> RankOutput::take_problems() {
    const std::lock_guard lock(state_->shared->mutex);
    return std::exchange(state_->shared->problems, {});
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

} // namespace rdma_nccl::run
