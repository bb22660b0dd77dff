// SPDX-License-Identifier: Apache-2.0
// Memory that a process shares with its later children.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace rdma_nccl {

/// Returns zeroed memory that this process shares with its later children; nullptr if there is none or `bytes` is 0.
std::shared_ptr<void> shared_memory(std::size_t bytes);

/// Sentences that one process records for the others, 4 KiB of them.
class SharedSentences {
public:
    /// Call before the processes are forked. Returns nullopt if there is no memory.
    static std::optional<SharedSentences> create();

    /// Call in one process, once. Keeps the sentences that fit; they contain no line feed.
    void record(const std::vector<std::string>& sentences) const;
    /// Returns those that were recorded so far: all or none.
    [[nodiscard]] std::vector<std::string> all() const;

private:
    struct Lines {
        std::atomic<std::uint32_t> length; ///< of the text, stored last
        std::array<char, 4092> text;
    };
    explicit SharedSentences(std::shared_ptr<Lines> memory) : memory_(std::move(memory)) {}

    std::shared_ptr<Lines> memory_;
};

} // namespace rdma_nccl
