// SPDX-License-Identifier: Apache-2.0
// The events of the ranks with their times: as JSON lines for programs, and as text lines for users.
#pragma once

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"
#include "tools/run/output/output.h"

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <sys/types.h>
#include <utility>

namespace rdma_nccl::run {

struct JobEvent {
    enum class Kind {
        Start,       ///< a rank was started
        FirstOutput, ///< a rank wrote its first byte
        Exit,        ///< a rank ended; code: exit code as in a shell, 128 + n for signal n
        Signal,      ///< the launcher received a signal; code: its number
        Restart,     ///< all ranks start again; code: the number of the new attempt, from 1
        End,         ///< the job is over; code: exit code of the launcher
    };

    Kind kind = Kind::Start;
    std::int64_t time_us = 0; ///< wall clock, microseconds since 1970
    std::string host;
    std::optional<unsigned> rank; ///< like local_rank and pid, absent if the event is not about a rank
    std::optional<unsigned> local_rank;
    std::optional<pid_t> pid;
    std::optional<int> code;
};

/// Returns {"event": "exit", "time": "2026-11-22T10:00:00.123456+00:00", "time_us": ..., "host": ..., "rank": ...,
/// "local_rank": ..., "pid": ..., "code": ...} on one line with a newline. Absent values are null.
std::string event_line(const JobEvent& event);

/// The event file, or none: then nothing is written. Its functions may be called from several threads.
class EventLog {
public:
    EventLog() = default;
    /// Lines are appended to the file. `host`: the host in all events.
    static Result<EventLog> open(const std::string& path, std::string host);

    void started(const RankName& rank, pid_t pid);
    /// If called before started(), the event is written after the start, or not at all if the rank never starts.
    void first_output(unsigned local_rank);
    void exited(const RankName& rank, pid_t pid, int code);
    /// Writes an event of the whole job.
    void job(JobEvent::Kind kind, std::optional<int> code);

    /// Returns the error of a failed write, once: "n01: cannot write events to FILE: ...". The job continues.
    [[nodiscard]] std::optional<std::string> take_problem();

private:
    struct Rank {
        std::optional<unsigned> rank; ///< set once the rank has started
        pid_t pid = 0;
        std::optional<std::int64_t> first_output; ///< time of output seen before started()
    };

    EventLog(UniqueFd fd, std::string path, std::string host)
        : fd_(std::move(fd)), path_(std::move(path)), host_(std::move(host)) {}
    void write(const JobEvent& event);

    std::unique_ptr<std::mutex> mutex_ = std::make_unique<std::mutex>();
    UniqueFd fd_;
    std::string path_;
    std::string host_;
    std::map<unsigned, Rank> ranks_; ///< by local rank
    std::optional<std::string> problem_;
    bool failed_ = false;
};

/// Returns "START rank 3 (local 3) on n01, pid 1234, 2026-11-22T10:00:00.123+00:00".
std::string start_line(const RankName& rank, pid_t pid, std::int64_t time_us);
/// Returns "END   rank 3 (local 3) on n01, pid 1234, 2026-11-22T10:00:00.123+00:00: exit code 0", or with the signal
/// that ended it: "...: signal 9 (Killed)".
std::string end_line(const RankName& rank, pid_t pid, std::int64_t time_us, int code, std::optional<int> signal);

} // namespace rdma_nccl::run
