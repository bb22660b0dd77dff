// SPDX-License-Identifier: Apache-2.0
// What is known about a rank that failed, as a value that travels between nodes, and its words.
#pragma once

#include "lib/result.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace rdma_nccl {

struct RankFailure {
    std::string host;
    unsigned node_rank = 0;
    unsigned rank = 0;
    unsigned local_rank = 0;
    unsigned attempt = 0; ///< 0: the first start
    pid_t pid = 0;
    std::string program;
    int code = 0;              ///< as a shell has it: 128 + n for signal n
    std::optional<int> signal; ///< that ended it
    bool core_dumped = false;
    std::optional<int> exec_error; ///< it was never executed: errno
    bool out_of_memory = false;    ///< the kernel killed for want of memory in its cgroup (memory.events, oom_kill)
    std::string gpu_pci;
    std::string gpu_uuid;
    std::vector<std::string> hcas;       ///< nearest first
    std::string error;                   ///< message of error.json
    std::string traceback;               ///< of error.json (py_callstack)
    std::vector<std::string> last_lines; ///< of its stderr
    std::int64_t time_us = 0;            ///< wall clock of its node, microseconds since 1970
};

/// The first failure with all that is known, then a line for each of the others. Ends with a newline.
std::string report_text(const RankFailure& first, std::span<const RankFailure> others);

/// {"schema": ..., "first": {...}, "others": [...]}: what --json writes.
std::string report_json(const RankFailure& first, std::span<const RankFailure> others);

/// One failure as JSON on one line, at most 64 KiB (texts are shortened, the end of a traceback is kept), and back;
/// the text comes from another node and is checked as input from a stranger.
std::string write_failure(const RankFailure& failure);
Result<RankFailure> read_failure(std::string_view text);

/// What @record (torch.distributed.elastic.multiprocessing.errors) left in TORCHELASTIC_ERROR_FILE; message and
/// callstack stay empty where the file is absent, empty, too large (1 MiB) or no such JSON. "message" is an object in
/// torch, a string in older ones and in NVRx.
void read_error_file(const std::string& path, RankFailure& failure);

/// Counts of oom_kill (cgroup v2 memory.events; v1 memory.oom_control) in the cgroup of this process, before and after.
class OutOfMemoryWatch {
public:
    explicit OutOfMemoryWatch(std::string root = "/");
    /// Whether the kernel has killed for want of memory since the last call, or since the beginning.
    bool happened();

private:
    [[nodiscard]] std::optional<std::uint64_t> count() const;
    std::vector<std::string> files_;
    std::optional<std::uint64_t> last_;
};

} // namespace rdma_nccl
