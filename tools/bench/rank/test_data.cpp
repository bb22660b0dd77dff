// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/rank/batch.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace rdma_nccl::bench {

namespace {

/// IEEE 754's 16 bits (5 bits exponent, 10 mantissa), and bfloat16 (8, 7). They only get values that both types hold
/// exactly, or nearly, and round these.
struct Half {
    explicit Half(double value = 0) {
        if (value != 0) {
            int exponent = 0;
            const double mantissa = std::frexp(value, &exponent); // 0.5 to 1
            const auto fraction = static_cast<std::uint16_t>(std::lround((mantissa * 2 - 1) * 1024));
            bits = static_cast<std::uint16_t>(((exponent - 1 + 15) << 10) + fraction); // may carry into the exponent
        }
    }
    explicit operator double() const {
        const double sign = (bits & 0x8000U) != 0 ? -1 : 1;
        const int exponent = (bits >> 10) & 0x1F;
        const double mantissa = static_cast<double>(bits & 0x3FFU) / 1024;
        if (exponent == 0x1F) {
            return std::nan("");
        }
        return sign * (exponent == 0 ? std::ldexp(mantissa, -14) : std::ldexp(1 + mantissa, exponent - 15));
    }
    std::uint16_t bits = 0;
};

struct BFloat16 {
    explicit BFloat16(double value = 0)
        : bits(static_cast<std::uint16_t>((std::bit_cast<std::uint32_t>(static_cast<float>(value)) + 0x8000U) >> 16)) {}
    explicit operator double() const {
        return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16));
    }
    std::uint16_t bits;
};

/// Calls `work` with a value of the type. Integers are unsigned here: all values are 0 to 127.
template<typename Work>
auto with_type(std::string_view type, const Work& work) {
    if (type == "float") {
        return work(float());
    }
    if (type == "double") {
        return work(double());
    }
    if (type == "half") {
        return work(Half());
    }
    if (type == "bfloat16") {
        return work(BFloat16());
    }
    const auto size = size_of_type(type).value_or(4);
    if (size == 1) {
        return work(std::uint8_t());
    }
    if (size == 4) {
        return work(std::uint32_t());
    }
    return work(std::uint64_t());
}

bool is_floating(std::string_view type) {
    return type == "float" || type == "double" || type == "half" || type == "bfloat16";
}

/// Mantissas have 7, 10, 23 and 52 bits. An average is a product and sums, each of them rounded.
double tolerance_of(std::string_view type) {
    return type == "bfloat16" ? 0.02 : type == "half" ? 0.004 : 1e-5;
}

/// A value that differs between elements and between ranks, and that all types hold exactly.
double distinct_value(unsigned rank, std::uint64_t h) {
    return static_cast<double>((h * 7 + std::uint64_t{rank} * 13) % 101);
}

/// NCCL averages integers by dividing their sum and dropping the remainder. So values, of which the sum is at most 9
/// times this factor, are scaled up as far as the type has room: else many ranks would give 0.
double scale_of(const TileSettings& settings) {
    if (settings.redop != "avg" || is_floating(settings.type)) {
        return 1;
    }
    constexpr unsigned most_in_8_bits = 14;
    const bool small = size_of_type(settings.type) == 1U;
    return small ? std::min(settings.ranks, most_in_8_bits) : settings.ranks;
}

// For a sum or product, two ranks hold values that matter, and all others the neutral value: so sums do not grow with
// the number of ranks, and each rank is needed for some element.
double own_value(const TileSettings& settings, std::uint64_t h) {
    return scale_of(settings) * (2 + static_cast<double>(h % 5));
}
double help_value(const TileSettings& settings) {
    return scale_of(settings) * 3;
}
double of_two_ranks(const TileSettings& settings, std::uint64_t h) {
    return settings.redop == "prod" ? own_value(settings, h) * help_value(settings)
                                    : own_value(settings, h) + help_value(settings);
}

/// Returns element h of a rank. Values that are only moved are never 0, which memory may hold anyway.
double value_of(const TileSettings& settings, unsigned rank, std::uint64_t h) {
    if (settings.redop == "max" || settings.redop == "min") {
        return distinct_value(rank, h);
    }
    if (settings.redop == "none") {
        return 1 + distinct_value(rank, h);
    }
    const std::uint64_t n = settings.ranks;
    const bool owns = h % n == rank;
    const bool helps = (h / n + 1) % n == rank;
    const double neutral = settings.redop == "prod" ? 1 : 0;
    return owns && helps ? of_two_ranks(settings, h)
           : owns        ? own_value(settings, h)
           : helps       ? help_value(settings)
                         : neutral;
}

double reduced_value(const TileSettings& settings, std::uint64_t h) {
    if (settings.redop == "max" || settings.redop == "min") {
        double best = value_of(settings, 0, h);
        for (unsigned rank = 1; rank < settings.ranks; ++rank) {
            const double value = value_of(settings, rank, h);
            best = settings.redop == "max" ? std::max(best, value) : std::min(best, value);
        }
        return best;
    }
    const double both = of_two_ranks(settings, h);
    return settings.redop == "avg" ? both / settings.ranks : both;
}

template<typename Value>
std::vector<std::byte> make_tile(const TileSettings& settings, const Value& value) {
    return with_type(settings.type, [&](auto element) {
        std::vector<std::byte> tile(tile_elements * sizeof element);
        for (std::size_t i = 0; i < tile_elements; ++i) {
            element = static_cast<decltype(element)>(value((i + settings.seed) % tile_elements));
            std::memcpy(&tile[i * sizeof element], &element, sizeof element);
        }
        return tile;
    });
}

std::uint64_t count_unequal(std::span<const std::byte> expected, std::span<const std::byte> values, std::size_t size) {
    if (std::memcmp(expected.data(), values.data(), values.size()) == 0) {
        return 0;
    }
    std::uint64_t wrong = 0;
    for (std::size_t at = 0; at < values.size(); at += size) {
        wrong += std::memcmp(&expected[at], &values[at], size) != 0 ? 1U : 0U;
    }
    return wrong;
}

std::uint64_t count_far(std::string_view type, std::span<const std::byte> expected, std::span<const std::byte> values) {
    return with_type(type, [&](auto want) {
        auto have = want;
        std::uint64_t wrong = 0;
        for (std::size_t at = 0; at < values.size(); at += sizeof want) {
            std::memcpy(&want, &expected[at], sizeof want);
            std::memcpy(&have, &values[at], sizeof have);
            const double off = std::abs(static_cast<double>(have) - static_cast<double>(want));
            wrong += off <= tolerance_of(type) * static_cast<double>(want) ? 0U : 1U; // NaN counts as wrong, too
        }
        return wrong;
    });
}

} // namespace

std::vector<std::byte> sent_tile(const TileSettings& settings, unsigned rank) {
    return make_tile(settings, [&](std::uint64_t h) { return value_of(settings, rank, h); });
}

std::vector<std::byte> reduced_tile(const TileSettings& settings) {
    return make_tile(settings, [&](std::uint64_t h) { return reduced_value(settings, h); });
}

std::uint64_t count_wrong(const TileSettings& settings, std::span<const std::byte> tile,
                          std::span<const std::byte> values, std::uint64_t first) {
    const std::size_t size = size_of_type(settings.type).value_or(4);
    const bool rounded = settings.redop == "avg" && is_floating(settings.type);
    std::uint64_t wrong = 0;
    auto at = static_cast<std::size_t>(first % tile_elements) * size;
    while (!values.empty()) {
        const auto part = values.first(std::min(values.size(), tile.size() - at));
        const auto expected = tile.subspan(at, part.size());
        wrong += rounded ? count_far(settings.type, expected, part) : count_unequal(expected, part, size);
        values = values.subspan(part.size());
        at = 0;
    }
    return wrong;
}

} // namespace rdma_nccl::bench
