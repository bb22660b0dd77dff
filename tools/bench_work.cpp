// SPDX-License-Identifier: Apache-2.0
#include "tools/bench_work.h"

#include "lib/format.h"
#include "lib/text.h"
#include "tools/json.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

namespace rdma_nccl {

namespace {

using Json = nlohmann::json;

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
constexpr std::size_t most_sizes = 1000;

Json times_json(const BenchTimes& times) {
    Json json = {{"time", times.time_us},
                 {"time_min", times.min_us},
                 {"time_max", times.max_us},
                 {"alg_bw", times.algbw},
                 {"bus_bw", times.busbw}};
    json["nwrong"] = times.wrong ? Json(*times.wrong) : Json(nullptr);
    return json;
}

BenchTimes read_times(const Json& json) {
    BenchTimes times;
    times.time_us = json.at("time").get<double>();
    times.min_us = json.at("time_min").get<double>();
    times.max_us = json.at("time_max").get<double>();
    times.algbw = json.at("alg_bw").get<double>();
    times.busbw = json.at("bus_bw").get<double>();
    if (const auto& wrong = json.at("nwrong"); !wrong.is_null()) {
        times.wrong = wrong.get<std::uint64_t>();
    }
    return times;
}

/// nlohmann's exceptions end here.
template<typename Read>
auto guarded(std::string_view what, const Read& read) -> Result<decltype(read())> {
    try {
        return read();
    } catch (const Json::exception& fault) {
        return fail(format_text("{} that cannot be read: {}", what, printable(fault.what(), 200)));
    }
}

} // namespace

std::optional<std::uint64_t> parse_size(std::string_view text) {
    unsigned shift = 0;
    if (!text.empty()) {
        switch (text.back()) {
        case 'k':
        case 'K':
            shift = 10;
            break;
        case 'm':
        case 'M':
            shift = 20;
            break;
        case 'g':
        case 'G':
            shift = 30;
            break;
        default:
            break;
        }
    }
    if (shift != 0) {
        text.remove_suffix(1);
    }
    const auto number = parse_number<std::uint64_t>(text);
    if (!number || *number == 0 || *number > (greatest_size >> shift)) {
        return std::nullopt;
    }
    return *number << shift;
}

Result<std::vector<std::uint64_t>> sizes_between(std::uint64_t first, std::uint64_t last, unsigned factor) {
    if (first > last) {
        return fail(format_text("the first size, {}, is greater than the last, {}", first, last));
    }
    if (factor < 2) {
        return fail("sizes grow by a factor of 2 at least");
    }
    std::vector<std::uint64_t> sizes;
    for (std::uint64_t size = first; size <= last && sizes.size() < most_sizes; size *= factor) {
        sizes.push_back(size);
        if (size > last / factor) {
            break; // the next may be beyond what 64 bits hold
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

Json work_json(const BenchWork& work) {
    Json operations = Json::array();
    for (const auto operation : work.operations) {
        operations.push_back(name_of(operation));
    }
    return {{"operations", operations},
            {"sizes", work.sizes},
            {"type", work.type},
            {"redop", work.redop},
            {"root", work.root},
            {"iterations", work.iterations},
            {"warm_up", work.warm_up},
            {"repeats", work.repeats},
            {"batch_seconds", work.batch_seconds},
            {"check", work.check},
            {"out_of_place_only", work.out_of_place_only}};
}

Result<BenchWork> read_work(const Json& json) {
    auto work = guarded("an order", [&json] {
        BenchWork read;
        read.operations.clear();
        for (const auto& name : json.at("operations")) {
            if (const auto operation = parse_collective(name.get<std::string>())) {
                read.operations.push_back(*operation);
            }
        }
        read.sizes = json.at("sizes").get<std::vector<std::uint64_t>>();
        read.type = json.at("type").get<std::string>();
        read.redop = json.at("redop").get<std::string>();
        read.root = json.at("root").get<int>();
        read.iterations = json.at("iterations").get<unsigned>();
        read.warm_up = json.at("warm_up").get<unsigned>();
        read.repeats = json.at("repeats").get<unsigned>();
        read.batch_seconds = json.at("batch_seconds").get<double>();
        read.check = json.at("check").get<bool>();
        read.out_of_place_only = json.at("out_of_place_only").get<bool>();
        return read;
    });
    if (work && (work->operations.empty() || work->sizes.empty() || !size_of_type(work->type) ||
                 work->iterations == 0 || work->repeats == 0 || work->sizes.back() > greatest_size)) {
        return fail("an order that cannot be carried out: other versions of rdma-nccl on these nodes?");
    }
    return work;
}

Json row_json(const BenchRow& row) {
    return {{"operation", row.operation},
            {"size", row.bytes},
            {"count", row.count},
            {"type", row.type},
            {"redop", row.redop},
            {"root", row.root},
            {"out_of_place", times_json(row.out_of_place)},
            {"in_place", row.in_place ? times_json(*row.in_place) : Json(nullptr)}};
}

Result<BenchRow> read_row(const Json& json) {
    return guarded("a result", [&json] {
        BenchRow row;
        row.operation = printable(json.at("operation").get<std::string>());
        row.bytes = json.at("size").get<std::uint64_t>();
        row.count = json.at("count").get<std::uint64_t>();
        row.type = printable(json.at("type").get<std::string>());
        row.redop = printable(json.at("redop").get<std::string>());
        row.root = json.at("root").get<int>();
        row.out_of_place = read_times(json.at("out_of_place"));
        if (const auto& in_place = json.at("in_place"); !in_place.is_null()) {
            row.in_place = read_times(in_place);
        }
        return row;
    });
}

} // namespace rdma_nccl
