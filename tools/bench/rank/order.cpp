// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/rank/order.h"

#include "lib/base/format.h"
#include "lib/base/json.h"
#include "lib/base/text.h"
#include "tools/common/json_fields.h"

#include <algorithm>
#include <array>

namespace rdma_nccl {

namespace {

struct TypeSize {
    std::string_view name;
    unsigned bytes;
};

constexpr std::array<TypeSize, 10> types = {{{"int8", 1},
                                             {"uint8", 1},
                                             {"int32", 4},
                                             {"uint32", 4},
                                             {"int64", 8},
                                             {"uint64", 8},
                                             {"half", 2},
                                             {"float", 4},
                                             {"double", 8},
                                             {"bfloat16", 2}}};

constexpr std::uint64_t greatest_size = std::uint64_t{1} << 40;

} // namespace

std::optional<std::uint64_t> parse_bench_size(std::string_view text) {
    const auto size = parse_size(text);
    return size && *size > 0 && *size <= greatest_size ? size : std::nullopt;
}

Result<std::vector<std::uint64_t>> sizes_between(std::uint64_t first, std::uint64_t last, unsigned factor) {
    if (first > last) {
        return fail(format_text("the first size, {}, is greater than the last, {}", first, last));
    }
    if (factor < 2) {
        return fail("sizes grow by a factor of 2 at least");
    }
    std::vector<std::uint64_t> sizes;
    for (std::uint64_t size = first; size <= last && sizes.size() < most_bench_sizes; size *= factor) {
        sizes.push_back(size);
        if (size > last / factor) {
            break; // the next size may not fit into 64 bits
        }
    }
    return sizes;
}

std::optional<unsigned> size_of_type(std::string_view type) {
    for (const auto& entry : types) {
        if (entry.name == type) {
            return entry.bytes;
        }
    }
    return std::nullopt;
}

std::vector<std::string_view> bench_types() {
    std::vector<std::string_view> names;
    names.reserve(types.size());
    for (const auto& entry : types) {
        names.push_back(entry.name);
    }
    return names;
}

std::vector<std::string_view> bench_reductions() {
    return {"sum", "prod", "max", "min", "avg"};
}

BenchTimes times_of(std::vector<double> seconds, std::uint64_t bytes, double bus_factor) {
    std::sort(seconds.begin(), seconds.end());
    const std::size_t half = seconds.size() / 2;
    const double median = seconds.size() % 2 == 1 ? seconds[half] : (seconds[half - 1] + seconds[half]) / 2;
    BenchTimes times;
    times.time_us = median * 1e6;
    times.min_us = seconds.front() * 1e6;
    times.max_us = seconds.back() * 1e6;
    times.algbw = median > 0 ? static_cast<double>(bytes) / 1e9 / median : 0;
    times.busbw = times.algbw * bus_factor;
    return times;
}

bool can_be_done(const BenchWork& work) {
    const auto reductions = bench_reductions();
    return !work.operations.empty() && !work.sizes.empty() && std::ranges::is_sorted(work.sizes) &&
           work.sizes.front() > 0 && work.sizes.back() <= greatest_size && size_of_type(work.type) &&
           std::ranges::find(reductions, work.redop) != reductions.end() && work.root >= 0 && work.iterations > 0 &&
           work.repeats > 0;
}

Json work_json(const BenchWork& work) {
    return written(work);
}

Result<BenchWork> read_work(const Json& json) {
    auto work = read_exactly<BenchWork>(json);
    if (!work || !can_be_done(*work)) {
        return fail("an order that cannot be carried out: other versions of rdma-nccl on these nodes?");
    }
    return std::move(*work);
}

/// Writes null for absent values, because readers of the output expect the keys.
Json row_json(const BenchRow& row) {
    auto json = written(row);
    (void)json["in_place"];
    for (const auto* const name : {"out_of_place", "in_place"}) {
        if (auto& times = json[name]; times.is_object()) {
            (void)times["nwrong"];
        }
    }
    return json;
}

Result<BenchRow> read_row(const Json& json) {
    auto plain = json;
    for (const auto* const name : {"out_of_place", "in_place"}) {
        if (!plain.contains(name)) {
            continue;
        }
        auto& times = plain[name];
        if (const auto* const wrong = times.find("nwrong"); wrong && wrong->is_null()) {
            times.erase("nwrong");
        }
        if (times.is_null()) {
            plain.erase(name);
        }
    }
    auto row = read_exactly<BenchRow>(plain);
    if (!row) {
        return fail("a result that cannot be read");
    }
    return std::move(*row);
}

} // namespace rdma_nccl
