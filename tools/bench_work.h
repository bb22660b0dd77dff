// SPDX-License-Identifier: Apache-2.0
// What the ranks of a run measure, and their answers: values, and the JSON between processes.
#pragma once

#include "lib/result.h"
#include "tools/bench_collective.h"
#include "tools/bench_values.h"

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
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
    unsigned iterations = 20; ///< of one batch, whose time is divided by them
    unsigned warm_up = 5;     ///< for each size
    unsigned repeats = 3;     ///< batches for each row: the median counts
    double batch_seconds = 5; ///< a batch that would take longer has fewer iterations
    bool check = true;        ///< values
    bool out_of_place_only = false;

    friend bool operator==(const BenchWork&, const BenchWork&) = default;
};

/// "8", "512K", "32M", "1G": powers of 1024, as of nccl-tests; nullopt for others, 0, and more than 1T.
std::optional<std::uint64_t> parse_size(std::string_view text);

/// From `first` on, each `factor` times the one before, up to `last`. Fails in words when there is none.
Result<std::vector<std::uint64_t>> sizes_between(std::uint64_t first, std::uint64_t last, unsigned factor);

/// Bytes of a type of nccl-tests' names; nullopt for others.
std::optional<unsigned> size_of_type(std::string_view type);
std::vector<std::string_view> bench_types();
std::vector<std::string_view> bench_reductions();

/// Median, least and greatest of batches that took so many seconds for each iteration; not empty.
BenchTimes times_of(std::vector<double> seconds, std::uint64_t bytes, double bus_factor);

nlohmann::json work_json(const BenchWork& work);
/// Fails on what no head of ours sends.
Result<BenchWork> read_work(const nlohmann::json& json);

nlohmann::json row_json(const BenchRow& row);
Result<BenchRow> read_row(const nlohmann::json& json);

} // namespace rdma_nccl
