// SPDX-License-Identifier: Apache-2.0
#include "tools/run/failure/events.h"

#include "lib/base/format.h"
#include "lib/base/json.h"
#include "lib/base/text.h"
#include "tools/common/print.h"
#include "tools/common/process.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

namespace rdma_nccl::run {

namespace {

constexpr std::array kind_names = {"start", "first_output", "exit", "signal", "restart", "end"};

std::string rank_line(std::string_view what, const RankName& rank, pid_t pid, std::int64_t time_us) {
    return format_text("{:5} rank {} (local {}) on {}, pid {}, {}", what, rank.rank, rank.local_rank, rank.host, pid,
                       wall_time_text(time_us));
}

} // namespace

std::string event_line(const JobEvent& event) {
    const Json json = {{"event", kind_names.at(static_cast<std::size_t>(event.kind))},
                       {"time", wall_time_text(event.time_us, true)},
                       {"time_us", event.time_us},
                       {"host", event.host},
                       {"rank", event.rank},
                       {"local_rank", event.local_rank},
                       {"pid", event.pid},
                       {"code", event.code}};
    return json.dump() + "\n";
}

Result<EventLog> EventLog::open(const std::string& path, std::string host) {
    // Non-blocking, so that a FIFO without a reader or with a slow one cannot delay the job.
    UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666));
    if (!fd) {
        return fail(format_text("cannot open {} for events: {}; name another file with --events", printable(path, 4096),
                                ::strerror(errno)),
                    errno);
    }
    return EventLog(std::move(fd), path, std::move(host));
}

void EventLog::started(const RankName& rank, pid_t pid) {
    const std::lock_guard lock(*mutex_);
    auto& known = ranks_[rank.local_rank];
    known.rank = rank.rank;
    known.pid = pid;
    write({JobEvent::Kind::Start, wall_time_us(), host_, rank.rank, rank.local_rank, pid, {}});
    if (const auto earlier = std::exchange(known.first_output, {})) {
        write({JobEvent::Kind::FirstOutput, *earlier, host_, rank.rank, rank.local_rank, pid, {}});
    }
}

void EventLog::first_output(unsigned local_rank) {
    const std::lock_guard lock(*mutex_);
    auto& known = ranks_[local_rank];
    if (known.rank) {
        write({JobEvent::Kind::FirstOutput, wall_time_us(), host_, known.rank, local_rank, known.pid, {}});
    } else {
        known.first_output = wall_time_us();
    }
}

void EventLog::exited(const RankName& rank, pid_t pid, int code) {
    const std::lock_guard lock(*mutex_);
    write({JobEvent::Kind::Exit, wall_time_us(), host_, rank.rank, rank.local_rank, pid, code});
}

void EventLog::job(JobEvent::Kind kind, std::optional<int> code) {
    const std::lock_guard lock(*mutex_);
    if (kind == JobEvent::Kind::Restart) {
        ranks_.clear();
    }
    write({kind, wall_time_us(), host_, {}, {}, {}, code});
}

void EventLog::write(const JobEvent& event) {
    if (!fd_ || failed_) {
        return;
    }
    const auto line = event_line(event);
    const auto written = ::write(fd_.get(), line.data(), line.size());
    if (written == static_cast<ssize_t>(line.size())) {
        return;
    }
    // A truncated line would also spoil the next one, so nothing more is written.
    failed_ = true;
    problem_ = format_text("{}: cannot write events to {}: {}; the job goes on without them", host_,
                           printable(path_, 4096), ::strerror(written < 0 ? errno : ENOSPC));
}

std::optional<std::string> EventLog::take_problem() {
    const std::lock_guard lock(*mutex_);
    return std::exchange(problem_, {});
}

std::string start_line(const RankName& rank, pid_t pid, std::int64_t time_us) {
    return rank_line("START", rank, pid, time_us);
}

std::string end_line(const RankName& rank, pid_t pid, std::int64_t time_us, int code, std::optional<int> signal) {
    return format_text("{}: {}", rank_line("END", rank, pid, time_us),
                       signal ? signal_text(*signal) : format_text("exit code {}", code));
}

} // namespace rdma_nccl::run
