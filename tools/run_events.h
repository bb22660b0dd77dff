// SPDX-License-Identifier: Apache-2.0
// What happens to the ranks and when: as JSON lines for programs, and as lines for people.
#pragma once

#include "lib/result.h"
#include "lib/unique_fd.h"
#include "tools/run_output.h"

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace rdma_nccl {

struct JobEvent {
    enum class Kind {
        Start,       ///< a rank was started
        FirstOutput, ///< it wrote its first byte
        Exit,        ///< it ended; code: as a shell has it, 128 + n for signal n
        Signal,      ///< the launcher got one; code: its number
        Restart,     ///< all ranks start again; code: the number of this attempt, from 1
        End,         ///< all is over; code: of the launcher
    };

    Kind kind = Kind::Start;
    std::int64_t time_us = 0; ///< wall clock, microseconds since 1970
    std::string host;
    std::optional<unsigned> rank; ///< and local_rank, pid: absent where the event is about none
    std::optional<unsigned> local_rank;
    std::optional<pid_t> pid;
    std::optional<int> code;
};

/// {"event": "exit", "time": "2026-11-22T10:00:00.123456+00:00", "time_us": ..., "host": ..., "rank": ...,
/// "local_rank": ..., "pid": ..., "code": ...}, null where absent, on one line with a newline.
std::string event_line(const JobEvent& event);

/// The file of events. May be called from several threads.
class EventLog {
public:
    /// Lines are added to what the file holds. `host`: of all events.
    static Result<EventLog> open(const std::string& path, std::string host);

    void started(const RankName& rank, pid_t pid);
    /// May come before started(): it is written behind it. For one that never started it is not written.
    void first_output(unsigned local_rank);
    void exited(const RankName& rank, pid_t pid, int code);
    /// About the whole job.
    void job(JobEvent::Kind kind, std::optional<int> code);

    /// What went wrong, told once: "n01: cannot write events to FILE: ..."; the job goes on.
    [[nodiscard]] std::optional<std::string> take_problem();

private:
    struct Rank {
        std::optional<unsigned> rank; ///< of a started one
        pid_t pid = 0;
        std::optional<std::int64_t> first_output; ///< came before the start
    };

    EventLog(UniqueFd fd, std::string path, std::string host);
    void write(const JobEvent& event);
    void write_first_output(unsigned local_rank, const Rank& rank, std::int64_t time_us);

    std::unique_ptr<std::mutex> mutex_;
    UniqueFd fd_;
    std::string path_;
    std::string host_;
    std::map<unsigned, Rank> ranks_; ///< by local rank
    std::optional<std::string> problem_;
    bool failed_ = false;
};

/// "START rank 3 (local 3) on n01, pid 1234, 2026-11-22T10:00:00.123+00:00"
std::string start_line(const RankName& rank, pid_t pid, std::int64_t time_us);
/// "END   rank 3 (local 3) on n01, pid 1234, 2026-11-22T10:00:00.123+00:00: exit code 0", or what signal ended it:
/// "...: signal 9 (Killed)".
std::string end_line(const RankName& rank, pid_t pid, std::int64_t time_us, int code, std::optional<int> signal);

} // namespace rdma_nccl
