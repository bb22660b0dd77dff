// SPDX-License-Identifier: Apache-2.0
// What is known about a rank that failed, as a value that travels between nodes, and its words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <sys/types.h>
#include <vector>

namespace rdma_nccl {

class Json;

struct RankFailure {
    std::string host;
    unsigned node_rank = 0;
    unsigned rank = 0;
    unsigned local_rank = 0;
    unsigned attempt = 0;       ///< 0: the first start
    unsigned most_attempts = 1; ///< 1 + --max-restarts
    pid_t pid = 0;
    std::string program;
    int code = 0;              ///< as a shell has it: 128 + n for signal n
    std::optional<int> signal; ///< that ended it
    bool core_dumped = false;
    std::optional<int> exec_error; ///< it was never executed: errno
    bool out_of_memory = false;    ///< the kernel killed for want of memory in its cgroup (OutOfMemoryWatch)
    std::string gpu_pci;
    std::string gpu_uuid;
    std::vector<std::string> hcas;       ///< nearest first
    std::string error;                   ///< message of error.json
    std::string traceback;               ///< of error.json (py_callstack)
    std::vector<std::string> last_lines; ///< of its stderr
    std::int64_t time_us = 0;            ///< wall clock of its node, microseconds since 1970

    friend bool operator==(const RankFailure&, const RankFailure&) = default;
};

/// How it ended, in words: "killed by signal 9 (Killed), out of memory in its cgroup".
std::string describe_end(const RankFailure& failure);
/// What to do where the kind of end tells it; else empty.
std::string advice_for(const RankFailure& failure);

/// The first failure with all that is known, then a line for each of the others, by time; more than 16 are counted.
/// Ends with a newline; the first line is to stand behind "rdma-nccl: ". Nothing in it can steer a terminal.
std::string report_text(const RankFailure& first, std::span<const RankFailure> others);

/// How a whole job ended.
struct JobEnd {
    int code = 0;
    std::vector<RankFailure> failures; ///< the first one first
    std::vector<std::string> losses;   ///< nodes that were lost and whatever else ended it, in words
};

/// {"schema": ..., "code": ..., "first": {...} or null, "others": [...], "lost": [...]}: what --json writes.
std::string job_report_json(const JobEnd& end);
/// JSON Schema of it.
Json job_report_schema();

/// What is known of a job that failed, to be said on stderr. Where `report_file` is not empty, how the job ended is
/// written into it as JSON, also when it ended well.
std::vector<std::string> report_end(JobEnd end, const std::string& report_file);

/// Fit for a message: the end of its traceback and its last lines stay.
RankFailure shortened(RankFailure failure);
/// Bytes of a text in it.
inline constexpr std::size_t most_failure_text = std::size_t{16} << 10;

/// What @record (torch.distributed.elastic.multiprocessing.errors) left in TORCHELASTIC_ERROR_FILE; message and
/// callstack stay empty where the file is absent, empty, too large (1 MiB) or no such JSON. "message" is an object in
/// torch, a string in older ones and in NVRx.
void read_error_file(const std::string& path, RankFailure& failure);

/// Counts the kernel's kills for want of memory in the cgroup of this process and what lies below it, up to Slurm's
/// step: oom_kill of memory.events (cgroup v2, Documentation/admin-guide/cgroup-v2.rst; counts all that lies below) or
/// of memory.oom_control (v1, cgroup-v1/memory.rst, from Linux 4.13 on). The kernel counts before it sends SIGKILL, so
/// who has seen a process die sees its count.
class OutOfMemoryWatch {
public:
    /// Files are read below `root`.
    explicit OutOfMemoryWatch(std::string root = "/");
    /// Whether the kernel has killed since the last call, or since the beginning.
    bool happened();

private:
    [[nodiscard]] std::uint64_t count() const;
    std::string root_;
    std::vector<std::string> files_; ///< those that are there
    std::uint64_t last_ = 0;
};

} // namespace rdma_nccl
