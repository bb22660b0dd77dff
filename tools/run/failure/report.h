// SPDX-License-Identifier: Apache-2.0
// The facts about a failed rank, as a value that is sent between nodes, and as text.
#pragma once

#include "lib/flight_recorder/summary.h"
#include "lib/sys/sysroot.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <sys/types.h>
#include <vector>

namespace rdma_nccl {
class Json;
}

namespace rdma_nccl::run {

struct RankFailure {
    std::string host;
    unsigned node_rank = 0;
    unsigned rank = 0;
    unsigned local_rank = 0;
    unsigned attempt = 0;       ///< 0: the first start
    unsigned most_attempts = 1; ///< 1 + --max-restarts
    pid_t pid = 0;
    std::string program;
    int code = 0;              ///< as in a shell: 128 + n for signal n
    std::optional<int> signal; ///< signal that ended it
    bool core_dumped = false;
    std::optional<int> exec_error; ///< set if it was never executed: errno
    bool out_of_memory = false;    ///< the kernel's OOM killer acted in its cgroup (OutOfMemoryWatch)
    std::string gpu_pci;
    std::string gpu_uuid;
    std::vector<std::string> hcas;       ///< nearest first
    std::string error;                   ///< message from error.json
    std::string traceback;               ///< from error.json (py_callstack)
    std::vector<std::string> last_lines; ///< from its stderr
    std::int64_t time_us = 0;            ///< time of the failure by its node's wall clock, microseconds since 1970

    friend bool operator==(const RankFailure&, const RankFailure&) = default;
};

/// Describes how the rank ended: "killed by signal 9 (Killed), out of memory in its cgroup".
std::string describe_end(const RankFailure& failure);
/// Returns advice for this kind of end; empty if there is none.
std::string advice_for(const RankFailure& failure);

/// Returns the first failure with all details, then a line for each of the others, ordered by time; after 16 lines,
/// only the number of the rest. Ends with a newline; the first line is to be printed after "rdma-nccl: ". The text
/// contains no control characters that could affect a terminal.
std::string report_text(const RankFailure& first, std::span<const RankFailure> others);

/// What PyTorch's flight recorder says about a rank.
struct RankDump {
    std::string host;
    std::string directory; ///< of its file, on the host
    unsigned attempt = 0;
    flight_recorder::Dump dump;

    friend bool operator==(const RankDump&, const RankDump&) = default;
};

/// Returns the collectives in which the ranks are stuck, and which ranks differ there; then the directories of the
/// files. Without dumps it is empty; else it ends with a newline. Like report_text() it is safe for a terminal.
std::string stuck_text(std::span<const RankDump> dumps);

/// The end of a whole job.
struct JobEnd {
    int code = 0;
    std::vector<RankFailure> failures; ///< the failure that ended the job comes first
    std::vector<std::string> reasons;  ///< messages about lost nodes and other reasons for the end
    std::vector<RankDump> dumps{};     ///< of the last attempt
};

/// Returns {"schema": ..., "code": ..., "first": {...} or null, "others": [...], "lost": [...],
/// "stuck": [...], "dumps": [...]}, the content of the file of --json.
std::string job_report_json(const JobEnd& end);
/// Returns the JSON Schema of job_report_json().
Json job_report_schema();

/// Returns the texts to print on stderr about a failed job. Unless `report_file` is empty, writes the end of the job to
/// it as JSON, also after a success.
std::vector<std::string> report_end(JobEnd end, const std::string& report_file);

/// Shortens the texts for a message; the end of the traceback and the last lines are kept.
RankFailure shortened(RankFailure failure);
/// Maximum size of a text in it, in bytes.
inline constexpr std::size_t most_failure_text = std::size_t{16} << 10;

/// Reads the file that @record (torch.distributed.elastic.multiprocessing.errors) left at TORCHELASTIC_ERROR_FILE.
/// Message and traceback stay empty if the file is absent, empty, larger than 1 MiB or not such JSON. "message" is an
/// object in current torch, and a string in older versions and in NVRx.
void read_error_file(const std::string& path, RankFailure& failure);

/// Counts the processes that the kernel killed because of lack of memory in the cgroup of this process and below it, up
/// to Slurm's step. Reads oom_kill in memory.events (cgroup v2, Documentation/admin-guide/cgroup-v2.rst; includes all
/// cgroups below) or in memory.oom_control (v1, cgroup-v1/memory.rst, since Linux 4.13). The kernel counts before it
/// sends SIGKILL, so the count includes a process that is known to be dead.
class OutOfMemoryWatch {
public:
    /// Reads the files below `root`.
    explicit OutOfMemoryWatch(const std::string& root = "/");
    /// Returns true if the kernel has killed a process since the last call, or since the construction.
    bool happened();

private:
    [[nodiscard]] std::uint64_t count() const;
    Result<SysRoot> root_;
    std::vector<std::string> files_; ///< files that exist; none without a root
    std::uint64_t last_;
};

} // namespace rdma_nccl::run
