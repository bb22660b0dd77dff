// SPDX-License-Identifier: Apache-2.0
#include "lib/base/cpu_set.h"

#include "lib/base/text.h"

#include <algorithm>
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

/// Returns true if `has` does so for a word of `one` and the word of `other` for the same CPUs.
bool any_word(const CpuSet& one, const CpuSet& other, const auto& has) {
    const auto words = one.words();
    const auto others = other.words();
    for (std::size_t i = 0; i < words.size(); ++i) {
        if (has(words[i], i < others.size() ? others[i] : 0)) {
            return true;
        }
    }
    return false;
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

CpuSet::CpuSet(std::span<const std::uint64_t> words) {
    const auto known = words.first(std::min<std::size_t>(words.size(), most_cpus / bits));
    words_.assign(known.begin(), known.end());
    trim_words();
}

void CpuSet::trim_words() {
    while (!words_.empty() && words_.back() == 0) {
        words_.pop_back();
    }
}

void CpuSet::add(unsigned cpu) {
    if (cpu < most_cpus) {
        words_.resize(std::max<std::size_t>(words_.size(), cpu / bits + 1));
        words_[cpu / bits] |= std::uint64_t{1} << cpu % bits;
    }
}

bool CpuSet::contains(const CpuSet& other) const {
    return !any_word(other, *this, [](auto others, auto own) { return (others & ~own) != 0; });
}

bool CpuSet::intersects(const CpuSet& other) const {
    return any_word(other, *this, [](auto others, auto own) { return (others & own) != 0; });
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
    words_.resize(std::max(words_.size(), other.words_.size()));
    std::ranges::transform(words_, other.words_, words_.begin(), std::bit_or());
    return *this;
}

CpuSet& CpuSet::operator&=(const CpuSet& other) {
    words_.resize(std::min(words_.size(), other.words_.size()));
    std::ranges::transform(words_, other.words_, words_.begin(), std::bit_and());
    trim_words();
    return *this;
}

CpuSet& CpuSet::operator-=(const CpuSet& other) {
    std::ranges::transform(words_, other.words_, words_.begin(), [](auto own, auto others) { return own & ~others; });
    trim_words();
    return *this;
}

} // namespace rdma_nccl
