// SPDX-License-Identifier: Apache-2.0
#include "tools/run/output/output_loop.h"

#include "lib/base/format.h"
#include "tools/common/console.h"
#include "tools/common/wall_time.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <poll.h>
#include <string_view>
#include <sys/eventfd.h>
#include <unistd.h>

namespace rdma_nccl::run {

namespace {

constexpr std::size_t block_size = 1 << 18;
constexpr std::chrono::milliseconds stop_timeout{300};

class OutputLoop {
public:
    OutputLoop(std::shared_ptr<OutputShared> shared, OutputLoopSettings settings, std::vector<OutputStream> streams)
        : shared_(std::move(shared)), settings_(std::move(settings)), streams_(std::move(streams)),
          has_written_(shared_->errors.size()), buffer_(block_size) {
        targets_.push_back({Console(STDOUT_FILENO), "stdout"});
        if (!same_file(STDOUT_FILENO, STDERR_FILENO)) {
            targets_.push_back({Console(STDERR_FILENO), "stderr"});
        }
        for (auto& stream : streams_) {
            stream.prefix = settings_.prefix.has_time() ? "" : settings_.prefix.render(stream.names);
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
        if (is_first && settings_.first_output && !shared_->stop) {
            settings_.first_output(stream.local_rank);
        }
        if (stream.error) {
            const std::lock_guard lock(shared_->mutex);
            shared_->errors[stream.local_rank].take(bytes);
        }
        if (stream.file) {
            const auto error = stream.file->write(bytes);
            if (error && !std::exchange(stream.file_problem, true)) {
                report(format_text("cannot write {}: {}; what the rank writes is missing there as long as this lasts",
                                   stream.file->path, ::strerror(*error)));
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
        if (settings_.prefix.has_time()) {
            stream.names.time = wall_time_text(wall_time_us());
            stream.prefix = settings_.prefix.render(stream.names);
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
        shared_->problems.push_back(format_text("{}: {}", settings_.host, problem));
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
    OutputLoopSettings settings_;
    std::vector<OutputStream> streams_;
    std::vector<Target> targets_;               ///< stdout and stderr; only one if both are the same file
    std::vector<bool> has_written_;             ///< by local rank
    std::vector<pollfd> polled_;                ///< wake, then consoles and streams that are worth polling
    std::vector<OutputStream*> polled_streams_; ///< the streams of the last entries of polled_
    std::vector<char> buffer_;
    bool done_ = false;
};

} // namespace

Result<std::shared_ptr<OutputShared>> OutputShared::create(std::size_t ranks) {
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

void notify(const UniqueFd& eventfd) {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(eventfd.get(), &one, sizeof(one));
}

std::function<void()> make_output_loop(std::shared_ptr<OutputShared> shared, OutputLoopSettings settings,
                                       std::vector<OutputStream> streams) {
    return [loop = std::make_shared<OutputLoop>(std::move(shared), std::move(settings), std::move(streams))] {
        loop->run();
    };
}

} // namespace rdma_nccl::run
