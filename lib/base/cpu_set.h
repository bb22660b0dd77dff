// SPDX-License-Identifier: Apache-2.0
// A value type for a set of CPU numbers, without cpu_set_t's limit of 1,024.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

/// The maximum that Linux supports (CONFIG_NR_CPUS is at most 8,192).
inline constexpr unsigned most_cpus = 8192;

class CpuSet {
public:
    CpuSet() = default;
    /// CPU n is bit n % 64 of word n / 64.
    explicit CpuSet(std::span<const std::uint64_t> words);
    /// Returns the CPUs `first` to `last`, both included.
    static CpuSet range(unsigned first, unsigned last);
    /// Parses the kernel's list format, "0-3,8,10-11", also with a stride, "0-7:2/4" (lib/bitmap.c). "" is the empty
    /// set. Returns nullopt for malformed text, or a CPU of 8,192 or more.
    static std::optional<CpuSet> parse_list(std::string_view text);

    /// Ignores numbers of most_cpus or more.
    void add(unsigned cpu);
    [[nodiscard]] bool contains(unsigned cpu) const { return (word(cpu / bits) >> cpu % bits & 1U) != 0; }
    [[nodiscard]] bool contains(const CpuSet& other) const;
    [[nodiscard]] bool intersects(const CpuSet& other) const;
    [[nodiscard]] bool empty() const { return words_.empty(); }
    [[nodiscard]] std::size_t size() const;
    /// Returns the lowest CPU; nullopt when empty.
    [[nodiscard]] std::optional<unsigned> first() const { return at_or_above(0); }
    /// Returns the lowest CPU above `cpu`; nullopt when there is none.
    [[nodiscard]] std::optional<unsigned> next(unsigned cpu) const { return at_or_above(cpu + 1); }
    [[nodiscard]] std::vector<unsigned> cpus() const;
    /// Returns the kernel's list format; "" when empty.
    [[nodiscard]] std::string list() const;

    /// Returns words as the constructor takes them, without zeros at the end.
    [[nodiscard]] std::span<const std::uint64_t> words() const { return words_; }

    CpuSet& operator|=(const CpuSet& other);
    CpuSet& operator&=(const CpuSet& other);
    CpuSet& operator-=(const CpuSet& other);
    friend CpuSet operator|(CpuSet a, const CpuSet& b) { return a |= b; }
    friend CpuSet operator&(CpuSet a, const CpuSet& b) { return a &= b; }
    friend CpuSet operator-(CpuSet a, const CpuSet& b) { return a -= b; }
    friend bool operator==(const CpuSet&, const CpuSet&) = default;

private:
    static constexpr unsigned bits = 64;
    void trim_words();
    [[nodiscard]] std::uint64_t word(std::size_t index) const { return index < words_.size() ? words_[index] : 0; }
    [[nodiscard]] std::optional<unsigned> at_or_above(unsigned cpu) const;

    std::vector<std::uint64_t> words_; ///< the last one is not 0: equal sets have equal words
};

} // namespace rdma_nccl
