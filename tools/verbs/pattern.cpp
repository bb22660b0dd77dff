// SPDX-License-Identifier: Apache-2.0
#include "tools/verbs/pattern.h"

#include <algorithm>
#include <cstring>

namespace rdma_nccl {

namespace {

constexpr std::size_t word = sizeof(std::uint64_t);

/// A permutation of 64-bit numbers (the finalizer of splitmix64), so the words of one seed are all different.
std::uint64_t mix(std::uint64_t value) {
    value = (value ^ (value >> 30)) * 0xbf58'476d'1ce4'e5b9;
    value = (value ^ (value >> 27)) * 0x94d0'49bb'1331'11eb;
    return value ^ (value >> 31);
}

std::uint64_t word_at(std::uint64_t seed, std::size_t offset) {
    return mix(mix(seed) + offset / word);
}

} // namespace

void fill_pattern(std::span<std::byte> bytes, std::uint64_t seed, std::size_t offset) {
    for (std::size_t at = 0; at < bytes.size(); at += word) {
        const auto value = word_at(seed, offset + at);
        std::memcpy(&bytes[at], &value, std::min(word, bytes.size() - at));
    }
}

bool has_pattern(std::span<const std::byte> bytes, std::uint64_t seed, std::size_t offset) {
    for (std::size_t at = 0; at < bytes.size(); at += word) {
        const auto value = word_at(seed, offset + at);
        if (std::memcmp(&bytes[at], &value, std::min(word, bytes.size() - at)) != 0) {
            return false;
        }
    }
    return true;
}

} // namespace rdma_nccl
