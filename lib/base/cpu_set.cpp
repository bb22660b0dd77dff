// SPDX-License-Identifier: Apache-2.0
#include "lib/base/cpu_set.h"

#include "lib/base/text.h"

#include <bit>
#include <functional>
#include <numeric>

namespace rdma_nccl {

namespace {

/// Adds "A", "A-B" or "A-B:USED/GROUP"; returns false for anything else.
bool add_part(CpuSet& set, std::string_view part) {
    const auto [range, stride] = split_once(part, ':');
    const auto [first_text, last_text] = split_once(range, '-');
    const auto first = parse_number<unsigned>(first_text);
    const auto last = last_text ? parse_number<unsigned>(*last_text) : first;
    if (!first || !last || *last < *first || *last >= most_cpus || (stride && !last_text)) {
        return false;
    }
    const auto [used_text, group_text] = split_once(stride.value_or("1/1"), '/');
    const auto used = parse_number<unsigned>(used_text);
    const auto group = parse_number<unsigned>(group_text.value_or(""));
    if (!used || !group || *group == 0 || *used > *group) {
        return false;
    }
    for (unsigned cpu = *first; cpu <= *last; ++cpu) {
        if ((cpu - *first) % *group < *used) {
            set.add(cpu);
        }
    }
    return true;
}

} // namespace

CpuSet CpuSet::range(unsigned first, unsigned last) {
    CpuSet set;
    for (unsigned cpu = first; cpu <= last && cpu < most_cpus; ++cpu) {
        set.add(cpu);
    }
    return set;
}

std::optional<CpuSet> CpuSet::parse_list(std::string_view text) {
    CpuSet set;
    text = trim(text);
    if (text.empty()) {
        return set;
    }
    for (const auto part : split(text, ',')) {
        if (!add_part(set, trim(part))) {
            return std::nullopt;
        }
    }
    return set;
}

void CpuSet::add(unsigned cpu) {
    if (cpu < most_cpus) {
        words_[cpu / bits] |= std::uint64_t{1} << cpu % bits;
    }
}

// These two are called thousands of times to place the ranks of a node, in each of its tasks: they make no set of 1
// KiB, and the loop over all words, without a way out, becomes one of vector instructions.

bool CpuSet::contains(const CpuSet& other) const {
    const auto lacks = [](std::uint64_t own, std::uint64_t others) { return others & ~own; };
    return std::transform_reduce(words_.begin(), words_.end(), other.words_.begin(), std::uint64_t{0}, std::bit_or(),
                                 lacks) == 0;
}

bool CpuSet::intersects(const CpuSet& other) const {
    return std::transform_reduce(words_.begin(), words_.end(), other.words_.begin(), std::uint64_t{0}, std::bit_or(),
                                 std::bit_and()) != 0;
}

std::size_t CpuSet::size() const {
    const auto count = [](std::size_t sum, std::uint64_t word) {
        return sum + static_cast<unsigned>(std::popcount(word));
    };
    return std::accumulate(words_.begin(), words_.end(), std::size_t{0}, count);
}

std::optional<unsigned> CpuSet::at_or_above(unsigned cpu) const {
    std::uint64_t rest = word(cpu / bits) >> cpu % bits << cpu % bits;
    for (std::size_t index = cpu / bits; index < words_.size(); rest = word(++index)) {
        if (rest != 0) {
            return static_cast<unsigned>(index) * bits + static_cast<unsigned>(std::countr_zero(rest));
        }
    }
    return std::nullopt;
}

std::vector<unsigned> CpuSet::cpus() const {
    std::vector<unsigned> result;
    for (auto cpu = first(); cpu; cpu = next(*cpu)) {
        result.push_back(*cpu);
    }
    return result;
}

std::string CpuSet::list() const {
    return fold_numbers(cpus());
}

CpuSet& CpuSet::operator|=(const CpuSet& other) {
    std::ranges::transform(words_, other.words_, words_.begin(), std::bit_or());
    return *this;
}

CpuSet& CpuSet::operator&=(const CpuSet& other) {
    std::ranges::transform(words_, other.words_, words_.begin(), std::bit_and());
    return *this;
}

CpuSet& CpuSet::operator-=(const CpuSet& other) {
    std::ranges::transform(words_, other.words_, words_.begin(), [](auto own, auto others) { return own & ~others; });
    return *this;
}

} // namespace rdma_nccl
