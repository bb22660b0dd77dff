// SPDX-License-Identifier: Apache-2.0
// What the ranks of a run measure, and their answers: values, and the JSON between processes.
#pragma once

#include "lib/base/json.h"
#include "lib/base/result.h"
#include "lib/net/message.h"
#include "tools/bench/rank/collective.h"
#include "tools/bench/rank/model.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

/// The same for all ranks of all runs.
struct BenchWork {
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

    friend bool operator==(const BenchWork&, const BenchWork&) = default;
};

/// Parses "8", "512K", "32M", "1G": powers of 1024, as in nccl-tests. Returns nullopt for others, 0, and more than
/// 1024G.
std::optional<std::uint64_t> parse_bench_size(std::string_view text);

/// Returns the sizes from `first` to `last`, each `factor` times the one before. Fails if `first` > `last` or `factor`
/// < 2.
Result<std::vector<std::uint64_t>> sizes_between(std::uint64_t first, std::uint64_t last, unsigned factor);

/// Returns the bytes of a type by nccl-tests' name; nullopt for others.
std::optional<unsigned> size_of_type(std::string_view type);
std::vector<std::string_view> bench_types();
std::vector<std::string_view> bench_reductions();

/// Computes median, minimum and maximum from the batches' seconds per iteration. `seconds` is not empty.
BenchTimes times_of(std::vector<double> seconds, std::uint64_t bytes, double bus_factor);

/// Returns whether an order may ask for this work, by the limits of the command line.
bool can_be_done(const BenchWork& work);

Json work_json(const BenchWork& work);
/// Fails on anything that no head of this version sends.
Result<BenchWork> read_work(const Json& json);

Json row_json(const BenchRow& row);
Result<BenchRow> read_row(const Json& json);

// --- For lib/net's codec ---

inline constexpr std::size_t most_bench_sizes = 1000;
inline constexpr double longest_bench_time_us = 1e12;

void fields(auto& f, Is<BenchWork> auto& work) {
    std::vector<std::string> operations;
    for (const auto operation : work.operations) {
        operations.emplace_back(name_of(operation));
    }
    f("operations", operations);
    if constexpr (!std::is_const_v<std::remove_reference_t<decltype(work)>>) {
        work.operations.clear();
        for (const auto& name : operations) {
            if (const auto operation = parse_collective(name)) {
                work.operations.push_back(*operation);
            }
        }
    }
    f("sizes", work.sizes, most_bench_sizes);
    f("type", work.type);
    f("redop", work.redop);
    f("root", work.root, 1'000'000);
    f("iterations", work.iterations, 1'000'000U);
    f("warm_up", work.warm_up, 1'000'000U);
    f("repeats", work.repeats, 1000U);
    f("batch_seconds", work.batch_seconds, 3600.0);
    f("check", work.check);
    f("out_of_place_only", work.out_of_place_only);
}

void fields(auto& f, Is<BenchTimes> auto& times) {
    f("time", times.time_us, longest_bench_time_us);
    f("time_min", times.min_us, longest_bench_time_us);
    f("time_max", times.max_us, longest_bench_time_us);
    f("alg_bw", times.algbw);
    f("bus_bw", times.busbw);
    f("nwrong", times.wrong);
}

void fields(auto& f, Is<BenchRow> auto& row) {
    f("operation", row.operation);
    f("size", row.bytes);
    f("count", row.count);
    f("type", row.type);
    f("redop", row.redop);
    f("root", row.root);
    f("out_of_place", row.out_of_place);
    f("in_place", row.in_place);
}

} // namespace rdma_nccl
