// SPDX-License-Identifier: Apache-2.0
// What `rdma-nccl bench` measures, as plain values, and the JSON between its processes. Operations are defined as in
// nccl-tests (doc/PERFORMANCE.md there), so that figures are comparable.
#pragma once

#include "lib/base/lists.h"
#include "lib/base/result.h"
#include "lib/evidence/verdict.h"
#include "lib/net/message.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rdma_nccl::bench {

// --- Operations ---

enum class Collective { AllReduce, AllGather, ReduceScatter, AllToAll, Broadcast, SendRecv };

/// Returns the name of nccl-tests' program: "all_reduce", "reduce_scatter", "alltoall", "sendrecv", ...
std::string_view name_of(Collective collective);

/// Parses such a name; also accepts "all-reduce", "all-to-all" and "send-recv". Returns nullopt for others.
std::optional<Collective> parse_collective(std::string_view name);

std::vector<std::string_view> collective_names();

bool has_reduction(Collective collective); ///< it computes; the others only move values of any type
bool has_in_place(Collective collective);  ///< it can work on one buffer

/// Numbers of elements of one rank. `count` is the argument of the NCCL call.
struct CollectiveCounts {
    std::uint64_t count = 0;
    std::uint64_t send = 0;
    std::uint64_t receive = 0;

    /// Of the larger buffer, which is nccl-tests' size.
    [[nodiscard]] std::uint64_t most() const { return send > receive ? send : receive; }
    friend bool operator==(const CollectiveCounts&, const CollectiveCounts&) = default;
};

/// Returns the counts for `bytes` in the larger buffer. If each rank has a part of it, parts are multiples of 16 bytes,
/// so the total may be less. `type_size` is a power of 2 from 1 to 16.
CollectiveCounts counts_of(Collective collective, std::uint64_t bytes, unsigned type_size, unsigned ranks);

/// Returns busbw / algbw: the bytes that each rank's link carries, divided by the size. `ranks` >= 1.
double bus_factor(Collective collective, unsigned ranks);

// --- Results ---

/// One size of one operation, with nccl-tests' columns (either out of place or in place).
struct Times {
    double time_us = 0; ///< median of the repeats
    double min_us = 0, max_us = 0;
    double algbw = 0, busbw = 0;        ///< 1e9 bytes/s, of the median; factors as in nccl-tests' PERFORMANCE.md
    std::optional<std::uint64_t> wrong; ///< number of wrong values; absent: not checked

    friend bool operator==(const Times&, const Times&) = default;
};

struct ResultRow {
    std::string operation;   ///< "all_reduce", "all_gather", "reduce_scatter", "alltoall", "broadcast", "sendrecv"
    std::uint64_t bytes = 0; ///< nccl-tests' size
    std::uint64_t count = 0; ///< elements
    std::string type;        ///< "float", "half", "bfloat16", ...
    std::string redop;       ///< "sum", "none"
    int root = -1;
    Times out_of_place;
    std::optional<Times> in_place;

    [[nodiscard]] std::uint64_t wrong() const {
        return out_of_place.wrong.value_or(0) + (in_place ? in_place->wrong.value_or(0) : 0);
    }
    friend bool operator==(const ResultRow&, const ResultRow&) = default;
};

/// The runs with one number of ranks; only the first if they need no network. The last shows drift.
enum class RunKind { AsItIs, NoRdma, NoGpuDirect, AsItIsAgain };

/// One start of all ranks with one set of variables.
struct Run {
    std::string name; ///< "A", "B", "C", "A'"
    std::string what; ///< "as it is", "without RDMA", "without GPUDirect", "host memory, verbs", ...
    RunKind kind = RunKind::AsItIs;
    bool rdma_meant = true;                                     ///< RDMA should be used
    unsigned ranks = 0;                                         ///< GPUs; with --host, nodes x rings
    std::vector<std::pair<std::string, std::string>> variables; ///< in addition to those of all runs
    std::string library;                                        ///< "NCCL 2.28.9 (/usr/lib/...)"
    std::vector<ResultRow> rows;
    std::optional<StepVerdict> verdict; ///< from the counters during this run
    std::string problem;                ///< why it has no rows, or not all
    unsigned nodes = 0;                 ///< number of nodes with ranks
};

struct Report {
    bool host = false;     ///< host memory, without GPUs
    bool software = false; ///< software RDMA: only a functional test
    std::string started;   ///< ISO 8601
    double seconds = 0;
    std::vector<std::string> nodes;
    std::vector<std::string> gpus; ///< model names, each once
    std::vector<Run> runs;         ///< in chronological order
    std::string ended_early;       ///< "interrupted", "time limit", or why nothing was measured; empty: not ended early
};

// --- What the ranks of a run measure ---

// Limits of the command line and of an order.
inline constexpr unsigned most_ranks = 1'000'000;
inline constexpr unsigned most_rings = 64;
inline constexpr unsigned most_calls = 1'000'000;
inline constexpr unsigned most_repeats = 1000;
inline constexpr double longest_batch_s = 3600;
inline constexpr std::size_t most_sizes = 1000;

/// The same for all ranks of all runs.
struct Work {
    std::vector<Collective> operations = {Collective::AllReduce};
    std::vector<std::uint64_t> sizes; ///< bytes, ascending
    std::string type = "float";       ///< nccl-tests' names
    std::string redop = "sum";
    int root = 0;
    unsigned iterations = 20; ///< calls in one batch; its time is divided by them
    unsigned warm_up = 5;     ///< calls before measuring, for each size
    unsigned repeats = 3;     ///< batches for each row, whose median counts
    double batch_seconds = 5; ///< seconds; a batch that would take longer has fewer iterations
    bool check = true;        ///< compare values
    bool out_of_place_only = false;

    friend bool operator==(const Work&, const Work&) = default;
};

/// Parses "8", "512K", "32M", "1G": powers of 1024, as in nccl-tests, from 1 byte to 1024G.
std::optional<std::uint64_t> parse_message_size(std::string_view text);

/// Returns the sizes from `first` to `last`, each `factor` (at least 2) times the one before.
Result<std::vector<std::uint64_t>> sizes_between(std::uint64_t first, std::uint64_t last, unsigned factor);

/// Returns the bytes of a type by nccl-tests' name; nullopt for others.
std::optional<unsigned> size_of_type(std::string_view type);
std::vector<std::string_view> type_names();
std::vector<std::string_view> reduction_names();

/// `seconds`: the batches', per iteration; not empty.
Times times_of(std::vector<double> seconds, std::uint64_t bytes, double bus_factor);

/// Returns whether an order may ask for this work, by the limits of the command line.
bool can_be_done(const Work& work);

/// Fails on anything that no coordinator of this version sends.
Result<Work> read_work_order(const Json& json);

Json row_json(const ResultRow& row);
Result<ResultRow> read_result_row(const Json& json);

// --- For lib/net's codec ---

void fields(auto& f, Is<Work> auto& work) {
    auto operations = mapped(work.operations, [](auto operation) { return std::string(name_of(operation)); });
    f("operations", operations);
    if constexpr (!std::is_const_v<std::remove_reference_t<decltype(work)>>) {
        work.operations.clear();
        for (const auto& name : operations) {
            if (const auto operation = parse_collective(name)) {
                work.operations.push_back(*operation);
            }
        }
    }
    f("sizes", work.sizes, most_sizes);
    f("type", work.type);
    f("redop", work.redop);
    f("root", work.root, int{most_ranks});
    f("iterations", work.iterations, most_calls);
    f("warm_up", work.warm_up, most_calls);
    f("repeats", work.repeats, most_repeats);
    f("batch_seconds", work.batch_seconds, longest_batch_s);
    f("check", work.check);
    f("out_of_place_only", work.out_of_place_only);
}

// --- A rank's end of the connection to the process that started it: a JSON object per line ---

/// The channel's descriptor in a rank; NCCL's logs go to stdout.
inline constexpr int channel_fd = 3;

/// A rank sends {"offer": ...} once, {"at": "..."} with its current activity, {"row": ...}, {"failed": "...", "remote":
/// bool} before it exits with 1, and {"done": ...}. It receives {"order": ...}; then, after its offer, {"go": ...}; and
/// with --host, when all ranks are done, {"leave": true}.
class RankChannel {
public:
    /// Sets close-on-exec on `fd`: the channel must close when the rank ends, even if the rank started other programs.
    explicit RankChannel(int fd);

    /// Ignores errors: if the other side is gone, this process is about to be killed.
    void say(const Json& message) const;
    void at(std::string_view what) const { say({{"at", what}}); } ///< reports the current activity
    /// Waits for the next line with this key and returns its value. Fails when the other side is gone.
    Result<Json> hear(const char* key);

private:
    int fd_;
    std::string received_;
};

} // namespace rdma_nccl::bench
