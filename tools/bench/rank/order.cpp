// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/rank/order.h"

#include "lib/base/format.h"
#include "lib/base/text.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/types.h>

namespace rdma_nccl::bench {

namespace {

/// What a rank's buffer holds: all elements, one rank's part of them, or such a part for each rank.
enum class Buffer { All, Part, Parts };

struct CollectiveFacts {
    Collective collective;
    std::string_view name, other;
    bool reduces, in_place;
    Buffer send, receive;
    unsigned rounds; ///< in which the other ranks' parts pass a link; 0: all elements pass it once
};

constexpr auto collectives = std::to_array<CollectiveFacts>({
    {Collective::AllReduce, "all_reduce", "all_reduce", true, true, Buffer::All, Buffer::All, 2},
    {Collective::AllGather, "all_gather", "all_gather", false, true, Buffer::Part, Buffer::Parts, 1},
    {Collective::ReduceScatter, "reduce_scatter", "reduce_scatter", true, true, Buffer::Parts, Buffer::Part, 1},
    {Collective::AllToAll, "alltoall", "all_to_all", false, false, Buffer::Parts, Buffer::Parts, 1},
    {Collective::Broadcast, "broadcast", "broadcast", false, true, Buffer::All, Buffer::All, 0},
    {Collective::SendRecv, "sendrecv", "send_recv", false, false, Buffer::All, Buffer::All, 0},
});

const CollectiveFacts& facts_of(Collective collective) {
    return *find_by(collectives, &CollectiveFacts::collective, collective);
}

struct TypeSize {
    std::string_view name;
    unsigned bytes;
};

// In the order of ncclDataType_t (nccl.h).
constexpr auto types = std::to_array<TypeSize>({{"int8", 1},
                                                {"uint8", 1},
                                                {"int32", 4},
                                                {"uint32", 4},
                                                {"int64", 8},
                                                {"uint64", 8},
                                                {"half", 2},
                                                {"float", 4},
                                                {"double", 8},
                                                {"bfloat16", 2}});

constexpr unsigned part_alignment = 16; // bytes, as in nccl-tests
constexpr std::uint64_t greatest_size = std::uint64_t{1} << 40;
constexpr double longest_time_us = 1e12;

/// Returns the names of a table.
std::vector<std::string_view> names_in(const auto& table) {
    return mapped(table, [](const auto& entry) { return entry.name; });
}

} // namespace

std::string_view name_of(Collective collective) {
    return facts_of(collective).name;
}

std::optional<Collective> parse_collective(std::string_view name) {
    std::string word(name);
    std::ranges::replace(word, '-', '_');
    const auto* found = find_by(collectives, &CollectiveFacts::name, word);
    found = found != nullptr ? found : find_by(collectives, &CollectiveFacts::other, word);
    return found != nullptr ? std::optional(found->collective) : std::nullopt;
}

std::vector<std::string_view> collective_names() {
    return names_in(collectives);
}

bool has_reduction(Collective collective) {
    return facts_of(collective).reduces;
}

bool has_in_place(Collective collective) {
    return facts_of(collective).in_place;
}

CollectiveCounts counts_of(Collective collective, std::uint64_t bytes, unsigned type_size, unsigned ranks) {
    const std::uint64_t elements = bytes / type_size;
    const std::uint64_t unit = part_alignment / type_size;
    const std::uint64_t part = elements / ranks / unit * unit;
    const auto elements_in = [&](Buffer buffer) {
        return buffer == Buffer::All ? elements : buffer == Buffer::Part ? part : part * ranks;
    };
    const auto& facts = facts_of(collective);
    return {facts.send == Buffer::All ? elements : part, elements_in(facts.send), elements_in(facts.receive)};
}

double bus_factor(Collective collective, unsigned ranks) {
    const double others = (static_cast<double>(ranks) - 1) / static_cast<double>(ranks);
    const unsigned rounds = facts_of(collective).rounds;
    return rounds == 0 ? 1 : rounds * others;
}

std::optional<std::uint64_t> parse_message_size(std::string_view text) {
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
    for (std::uint64_t size = first; size <= last && sizes.size() < most_sizes; size *= factor) {
        sizes.push_back(size);
        if (size > last / factor) {
            break; // the next size may not fit into 64 bits
        }
    }
    return sizes;
}

std::optional<unsigned> size_of_type(std::string_view type) {
    const auto* const found = find_by(types, &TypeSize::name, type);
    return found != nullptr ? std::optional(found->bytes) : std::nullopt;
}

std::vector<std::string_view> type_names() {
    return names_in(types);
}

std::vector<std::string_view> reduction_names() {
    return {"sum", "prod", "max", "min", "avg"}; // in the order of ncclRedOp_t
}

Times times_of(std::vector<double> seconds, std::uint64_t bytes, double bus_factor) {
    std::sort(seconds.begin(), seconds.end());
    const std::size_t half = seconds.size() / 2;
    const double median = seconds.size() % 2 == 1 ? seconds[half] : (seconds[half - 1] + seconds[half]) / 2;
    const double algbw = median > 0 ? static_cast<double>(bytes) / 1e9 / median : 0;
    return {.time_us = median * 1e6,
            .min_us = seconds.front() * 1e6,
            .max_us = seconds.back() * 1e6,
            .algbw = algbw,
            .busbw = algbw * bus_factor,
            .wrong = {}};
}

bool can_be_done(const Work& work) {
    const auto reductions = reduction_names();
    return !work.operations.empty() && !work.sizes.empty() && std::ranges::is_sorted(work.sizes) &&
           work.sizes.front() > 0 && work.sizes.back() <= greatest_size && size_of_type(work.type) &&
           std::ranges::find(reductions, work.redop) != reductions.end() && work.root >= 0 && work.iterations > 0 &&
           work.repeats > 0;
}

void fields(auto& f, Is<Times> auto& times) {
    f("time", times.time_us, longest_time_us);
    f("time_min", times.min_us, longest_time_us);
    f("time_max", times.max_us, longest_time_us);
    f("alg_bw", times.algbw);
    f("bus_bw", times.busbw);
    f("nwrong", times.wrong);
}

void fields(auto& f, Is<ResultRow> auto& row) {
    f("operation", row.operation);
    f("size", row.bytes);
    f("count", row.count);
    f("type", row.type);
    f("redop", row.redop);
    f("root", row.root);
    f("out_of_place", row.out_of_place);
    f("in_place", row.in_place);
}

Result<Work> read_work_order(const Json& json) {
    auto work = read_exactly<Work>(json);
    return work && can_be_done(*work)
               ? Result<Work>(std::move(*work))
               : fail("an order that cannot be carried out: other versions of rdma-nccl on these nodes?");
}

/// Writes null for absent values, because readers of the output expect the keys.
Json row_json(const ResultRow& row) {
    auto json = written(row);
    (void)json["in_place"];
    for (const auto* const name : {"out_of_place", "in_place"}) {
        if (auto& times = json[name]; times.is_object()) {
            (void)times["nwrong"];
        }
    }
    return json;
}

Result<ResultRow> read_result_row(const Json& json) {
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
    auto row = read_exactly<ResultRow>(plain);
    return row ? Result<ResultRow>(std::move(*row)) : fail("a result that cannot be read");
}

RankChannel::RankChannel(int fd) : fd_(fd) {
    (void)::fcntl(fd_, F_SETFD, FD_CLOEXEC);
}

void RankChannel::say(const Json& message) const {
    // Texts of libraries may hold any bytes; dump() replaces those that are not UTF-8.
    const auto line = message.dump() + "\n";
    for (std::string_view rest = line; !rest.empty();) {
        const auto count = ::send(fd_, rest.data(), rest.size(), MSG_NOSIGNAL);
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count <= 0) {
            return;
        }
        rest.remove_prefix(static_cast<std::size_t>(count));
    }
}

Result<Json> RankChannel::hear(const char* key) {
    for (;;) {
        if (const auto end = received_.find('\n'); end != std::string::npos) {
            const auto message = Json::parse(std::string_view(received_).substr(0, end));
            received_.erase(0, end + 1);
            if (message && message->contains(key)) {
                return message->at(key);
            }
            continue;
        }
        std::array<char, 65536> bytes{};
        const auto count = ::recv(fd_, bytes.data(), bytes.size(), 0);
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count <= 0) {
            return fail(format_text("who started this rank is gone{}{}", count < 0 ? ": " : "",
                                    count < 0 ? std::strerror(errno) : ""));
        }
        received_.append(bytes.data(), static_cast<std::size_t>(count));
    }
}

} // namespace rdma_nccl::bench
