// SPDX-License-Identifier: Apache-2.0
#include "tools/run/output/output.h"

#include "lib/base/format.h"
#include "lib/sys/signal_fd.h"
#include "tools/common/console.h"
#include "tools/common/print.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <mutex>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace rdma_nccl::run {

/// What the launcher's thread and the loop share.
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
};

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

namespace {

constexpr std::size_t block_size = 1 << 18;
constexpr std::chrono::milliseconds stop_timeout{300};

/// Greater than the default of 16 pages (pipe(7); 64 KiB where a page has 4 KiB), for fewer context switches between
/// rank and launcher. Sixteen such pipes stay far below the limit of a user (/proc/sys/fs/pipe-user-pages-soft, 64
/// MiB); if the kernel refuses it, the default is used.
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

/// Makes an eventfd readable.
void notify(const UniqueFd& eventfd) {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(eventfd.get(), &one, sizeof(one));
}

/// Fails when there are too few descriptors.
Result<std::shared_ptr<OutputShared>> make_shared_data(std::size_t ranks) {
    auto shared = std::make_shared<OutputShared>();
    shared->errors.resize(ranks);
    for (auto* const fd : {&shared->wake, &shared->done, &shared->ended}) {
        fd->reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
        if (!*fd) {
            return os_failure("cannot open an eventfd");
        }
    }
    return shared;
}

/// The work of RankOutput's thread: passes the streams' bytes on until it is told to stop, and then the output that has
/// arrived, as far as possible without waiting.
class OutputLoop {
public:
    OutputLoop(std::shared_ptr<OutputShared> shared, PrefixTemplate prefix, std::string host,
               std::function<void(unsigned)> first_output, std::vector<OutputStream> streams)
        : shared_(std::move(shared)), prefix_(std::move(prefix)), host_(std::move(host)),
          first_output_(std::move(first_output)), streams_(std::move(streams)), has_written_(shared_->errors.size()),
          buffer_(block_size) {
        targets_.push_back({Console(STDOUT_FILENO), "stdout"});
        if (!same_file(STDOUT_FILENO, STDERR_FILENO)) {
            targets_.push_back({Console(STDERR_FILENO), "stderr"});
        }
        for (auto& stream : streams_) {
            stream.prefix = prefix_.has_time() ? "" : prefix_.render(stream.names);
        }
    }

    void run() {
        std::optional<Time> deadline;
        for (;;) {
            notify_when_done();
            list_polled();
            const int ready = poll_until(polled_, deadline && !anything_pending() ? Time() : deadline);
            if (ready < 0 && errno != EINTR) {
                break; // the kernel is out of memory: nothing can be passed on
            }
            if (ready > 0) {
                handle_polled();
            }
            write_consoles();
            if (!deadline && shared_->stop) {
                deadline = std::chrono::steady_clock::now() + stop_timeout;
            } else if (deadline && (ready <= 0 || std::chrono::steady_clock::now() >= *deadline)) {
                break;
            }
        }
        take_said();
        for (auto& stream : streams_) {
            if (stream.pipe) {
                end_stream(stream);
            }
        }
        write_consoles();
        notify(shared_->ended);
    }

private:
    using Time = std::chrono::steady_clock::time_point;

    struct Target {
        Console console;
        std::string name;
        bool gone = false;    ///< no process reads it any more
        bool problem = false; ///< reported
    };

    [[nodiscard]] Target& target(bool error) { return targets_.at(error ? targets_.size() - 1 : 0); }

    /// A stream is not read while its console is full: then the rank waits, as it would without a launcher.
    [[nodiscard]] bool wants_bytes(const OutputStream& stream) {
        return stream.pipe && !(stream.console && target(stream.error).console.full());
    }

    void list_polled() {
        polled_.assign(1, {shared_->wake.get(), POLLIN, 0});
        polled_streams_.clear();
        for (auto& entry : targets_) {
            if (entry.console.pending()) {
                polled_.push_back({entry.console.fd(), POLLOUT, 0});
            }
        }
        for (auto& stream : streams_) {
            if (wants_bytes(stream)) {
                polled_.push_back({stream.pipe.get(), POLLIN, 0});
                polled_streams_.push_back(&stream);
            }
        }
    }

    void handle_polled() {
        if (polled_.front().revents != 0) {
            std::uint64_t ignored = 0;
            [[maybe_unused]] const auto got = ::read(shared_->wake.get(), &ignored, sizeof(ignored));
            take_said();
        }
        const auto first = polled_.size() - polled_streams_.size();
        for (std::size_t i = 0; i < polled_streams_.size(); ++i) {
            if (polled_[first + i].revents != 0) {
                read_stream(*polled_streams_[i]);
            }
        }
    }

    void take_said() {
        const std::lock_guard lock(shared_->mutex);
        if (!target(true).gone) {
            for (const auto& line : shared_->said) {
                target(true).console.lines() += line + "\n";
            }
        }
        shared_->said.clear();
    }

    void read_stream(OutputStream& stream) {
        const auto count = ::read(stream.pipe.get(), buffer_.data(), buffer_.size());
        if (count > 0) {
            take(stream, {buffer_.data(), static_cast<std::size_t>(count)});
        } else if (count == 0 || (errno != EAGAIN && errno != EINTR)) {
            end_stream(stream);
        }
    }

    void take(OutputStream& stream, std::string_view bytes) {
        shared_->bytes += bytes.size();
        const bool is_first = !has_written_[stream.local_rank];
        has_written_[stream.local_rank] = true;
        // After a stop request, the objects that the function uses may not exist any more.
        if (is_first && first_output_ && !shared_->stop) {
            first_output_(stream.local_rank);
        }
        if (stream.error) {
            const std::lock_guard lock(shared_->mutex);
            shared_->errors[stream.local_rank].take(bytes);
        }
        if (stream.file) {
            const bool written = write_all(stream.file->fd.get(), bytes); // a later one may succeed again
            if (!written && !std::exchange(stream.file_problem, true)) {
                report(format_text("cannot write {}: {}; what the rank writes is missing there as long as this lasts",
                                   stream.file->path, ::strerror(errno)));
            }
        }
        if (stream.console) {
            auto& lines = target(stream.error).console.lines();
            if (stream.raw) {
                lines += bytes;
            } else {
                stream.lines.take(bytes, prefix_of(stream), lines);
            }
        }
    }

    void end_stream(OutputStream& stream) {
        if (stream.console) {
            stream.lines.end(prefix_of(stream), target(stream.error).console.lines());
        }
        stream.pipe.reset();
    }

    [[nodiscard]] std::string_view prefix_of(OutputStream& stream) const {
        if (prefix_.has_time()) {
            stream.names.time = wall_time_text(wall_time_us());
            stream.prefix = prefix_.render(stream.names);
        }
        return stream.prefix;
    }

    void write_consoles() {
        for (auto& entry : targets_) {
            if (const auto error = entry.console.write_pending()) {
                on_console_error(entry, *error);
            }
        }
    }

    /// If the console's reader is gone, streams without a file are closed too: the rank gets SIGPIPE at its next write,
    /// as it would without a launcher.
    void on_console_error(Target& failed, int os_error) {
        failed.gone = os_error == EPIPE || os_error == ECONNRESET || os_error == EBADF;
        if (!std::exchange(failed.problem, true)) {
            report(failed.gone ? format_text("{} is closed ({}): what the ranks write reaches their files only",
                                             failed.name, ::strerror(os_error))
                               : format_text("cannot write {}: {}; lines are missing there as long as this lasts",
                                             failed.name, ::strerror(os_error)));
        }
        for (auto& stream : streams_) {
            if (failed.gone && stream.console && &target(stream.error) == &failed) {
                stream.console = false;
                if (!stream.file) {
                    stream.pipe.reset();
                }
            }
        }
    }

    void report(std::string problem) {
        const std::lock_guard lock(shared_->mutex);
        shared_->problems.push_back(format_text("{}: {}", host_, problem));
    }

    void notify_when_done() {
        const bool all_ended = std::ranges::none_of(streams_, [](const auto& one) { return !!one.pipe; });
        if (!done_ && shared_->all_started && all_ended && !anything_pending()) {
            done_ = true;
            notify(shared_->done);
        }
    }

    [[nodiscard]] bool anything_pending() const {
        return std::ranges::any_of(targets_, [](const auto& one) { return one.console.pending(); });
    }

    std::shared_ptr<OutputShared> shared_;
    PrefixTemplate prefix_;
    std::string host_;                           ///< for messages
    std::function<void(unsigned)> first_output_; ///< called once for each local rank; may be empty
    std::vector<OutputStream> streams_;
    std::vector<Target> targets_;               ///< stdout and stderr; only one if both are the same file
    std::vector<bool> has_written_;             ///< by local rank
    std::vector<pollfd> polled_;                ///< wake, then consoles and streams that are worth polling
    std::vector<OutputStream*> polled_streams_; ///< the streams of the last entries of polled_
    std::vector<char> buffer_;
    bool done_ = false;
};

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
    if (::fcntl(pipe->reader.get(), F_GETPIPE_SZ) < pipe_size) {
        ::fcntl(pipe->reader.get(), F_SETPIPE_SZ, pipe_size);
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
    auto shared = make_shared_data(ranks.size());
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
    const auto loop =
        std::make_shared<OutputLoop>(*shared, std::move(*prefix), ranks.empty() ? std::string() : ranks.front().host,
                                     std::move(first_output), std::move(streams));
    auto thread = thread_without_signals([loop] { loop->run(); });
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
