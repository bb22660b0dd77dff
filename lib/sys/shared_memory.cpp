// SPDX-License-Identifier: Apache-2.0
#include "lib/sys/shared_memory.h"

#include "lib/base/text.h"

#include <algorithm>
#include <string_view>
#include <sys/mman.h>

namespace rdma_nccl {

std::shared_ptr<void> shared_memory(std::size_t bytes) {
    void* const memory =
        bytes == 0 ? MAP_FAILED
                   : ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? nullptr : std::shared_ptr<void>(memory, [bytes](void* it) { ::munmap(it, bytes); });
}

std::optional<SharedSentences> SharedSentences::create() {
    const auto memory = shared_memory(sizeof(Lines));
    return memory ? std::optional(SharedSentences({memory, static_cast<Lines*>(memory.get())})) : std::nullopt;
}

void SharedSentences::record(const std::vector<std::string>& sentences) const {
    std::size_t length = 0;
    for (const auto& sentence : sentences) {
        if (sentence.size() < memory_->text.size() - length) {
            length += sentence.copy(&memory_->text[length], sentence.size());
            memory_->text[length++] = '\n';
        }
    }
    memory_->length = static_cast<std::uint32_t>(length);
}

std::vector<std::string> SharedSentences::all() const {
    const auto length = std::min<std::size_t>(memory_->length, memory_->text.size());
    const auto lines = split(std::string_view(memory_->text.data(), length), '\n');
    return {lines.begin(), length == 0 ? lines.begin() : lines.end() - 1};
}

} // namespace rdma_nccl
