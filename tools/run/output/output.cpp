// SPDX-License-Identifier: Apache-2.0
#include "tools/run/output/output.h"

#include "lib/base/format.h"
#include "lib/sys/signal_fd.h"
#include "tools/run/output/output_loop.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace rdma_nccl::run {

namespace {

/// Greater than the default of 64 KiB, for fewer context switches between rank and launcher. Sixteen such pipes stay
/// far below the limit of a user (/proc/sys/fs/pipe-user-pages-soft, 64 MiB); if the kernel refuses it, the default is
/// used.
constexpr int pipe_size = 256 * 1024;

tl::unexpected<Error> no_descriptor(std::string_view what) {
    return fail(format_text("cannot {}: {} (limit: ulimit -n)", what, ::strerror(errno)), errno);
}

/// Returns the size of an open file in bytes; 0 if it cannot be read.
std::uint64_t file_size(int fd) {
    struct stat status {};
    return ::fstat(fd, &status) == 0 ? static_cast<std::uint64_t>(status.st_size) : 0;
}

/// Returns the last bytes of an open file, at most `count`.
std::string read_end(int fd, std::size_t count) {
    const auto size = file_size(fd);
    std::string bytes(std::min<std::uint64_t>(size, count), '\0');
    const auto got = ::pread(fd, bytes.data(), bytes.size(), static_cast<off_t>(size - bytes.size()));
    bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return bytes;
}

bool has(const RankStreams& streams, unsigned local_rank, bool error) {
    const auto wanted = streams.of(local_rank);
    return error ? wanted.err : wanted.out;
}

} // namespace

/// Creates the pipe or file of one stream. Returns the stream that the loop must handle, or nullopt if there is none.
Result<std::optional<OutputStream>> RankOutput::prepare_stream(const OutputOptions& options,
                                                               const std::string& directory, const RankName& name,
                                                               bool error, Stream& kept) {
    const auto plan = plan_stream(options, name.local_rank, error);
    std::optional<LogFile> file;
    if (plan.file) {
        auto made =
            make_subdirectory(directory, std::to_string(name.local_rank)).and_then([error](const std::string& folder) {
                return LogFile::create(folder + (error ? "/stderr.log" : "/stdout.log"));
            });
        if (!made) {
            return tl::unexpected(made.error());
        }
        file = std::move(*made);
    }
    if (plan.way == StreamPlan::Way::File) {
        kept.end.reset(::fcntl(file->fd.get(), F_DUPFD_CLOEXEC, 0));
        kept.rank_file = std::move(file);
        return kept.end ? Result<std::optional<OutputStream>>(std::nullopt) : no_descriptor("duplicate a descriptor");
    }
    if (plan.way == StreamPlan::Way::Inherit) {
        return std::nullopt;
    }
    auto pipe = open_pipe();
    if (!pipe) {
        return no_descriptor("open a pipe for a rank's output");
    }
    // Only the read end: the rank must not get a non-blocking stdout.
    ::fcntl(pipe->reader.get(), F_SETFL, O_NONBLOCK);
    ::fcntl(pipe->reader.get(), F_SETPIPE_SZ, pipe_size);
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

RankOutput::~RankOutput() {
    if (!thread_.joinable()) {
        return;
    }
    shared_->stop = true;
    notify(shared_->wake);
    // Far more than the loop needs. If it hangs in a write, to a network file system or to a terminal that could not be
    // opened again, it is detached: it owns everything that it uses.
    constexpr int timeout = 2000; // milliseconds
    pollfd ended{shared_->ended.get(), POLLIN, 0};
    if (::poll(&ended, 1, timeout) > 0) {
        thread_.join();
    } else {
        thread_.detach();
    }
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
    RankOutput output(ranks.size(), *shared);
    std::vector<OutputStream> streams;
    for (const auto& rank : ranks) {
        for (const bool error : {false, true}) {
            auto stream =
                prepare_stream(options, directory, rank, error, output.streams_.at(rank.local_rank).at(error ? 1 : 0));
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
    auto thread = thread_without_signals(make_output_loop(*shared, std::move(settings), std::move(streams)));
    if (!thread) {
        return fail(format_text("cannot start a thread for the ranks' output: {} (limits: ulimit -u, pids.max of the "
                                "cgroup)",
                                thread.error().message),
                    thread.error().os_error);
    }
    output.thread_ = std::move(*thread);
    return output;
}

RankOutput::Ends RankOutput::ends_of(unsigned local_rank) const {
    const auto& [out, err] = streams_.at(local_rank);
    return {out.end ? out.end.get() : STDOUT_FILENO, err.end ? err.end.get() : STDERR_FILENO};
}

void RankOutput::close_ends() {
    for (auto& [out, err] : streams_) {
        out.end.reset();
        err.end.reset();
    }
    shared_->all_started = true;
    notify(shared_->wake);
}

int RankOutput::done_fd() const {
    return shared_->done.get();
}

void RankOutput::say(const std::string& line) {
    {
        const std::lock_guard lock(shared_->mutex);
        shared_->said.push_back(line);
    }
    notify(shared_->wake);
}

std::vector<std::string> RankOutput::last_errors(unsigned local_rank, std::size_t count) const {
    if (const auto& file = streams_.at(local_rank)[1].rank_file) {
        StreamTail tail;
        tail.take(read_end(file->fd.get(), StreamTail::size + 1));
        return tail.lines(count);
    }
    const std::lock_guard lock(shared_->mutex);
    return shared_->errors[local_rank].lines(count);
}

std::uint64_t RankOutput::bytes() const {
    std::uint64_t sum = shared_->bytes;
    for (const auto& streams : streams_) {
        for (const auto& stream : streams) {
            sum += stream.rank_file ? file_size(stream.rank_file->fd.get()) : 0;
        }
    }
    return sum;
}

std::vector<std::string> RankOutput::take_problems() {
    const std::lock_guard lock(shared_->mutex);
    return std::exchange(shared_->problems, {});
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
