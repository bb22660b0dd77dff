// SPDX-License-Identifier: Apache-2.0
#include "plugin/stepd_task_masks.h"

#include "lib/sys/affinity.h"

#include <algorithm>
#include <span>
#include <sys/mman.h>

namespace rdma_nccl {

std::optional<TaskMasks> TaskMasks::create(std::size_t tasks) {
    TaskMasks masks(nullptr, tasks);
    if (tasks == 0) {
        return std::nullopt;
    }
    void* const memory =
        ::mmap(nullptr, masks.bytes(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        return std::nullopt;
    }
    masks.words_ = static_cast<std::uint64_t*>(memory);
    return masks;
}

TaskMasks::~TaskMasks() {
    if (words_ != nullptr) {
        ::munmap(words_, bytes());
    }
}

void TaskMasks::record(std::size_t local_id, pid_t pid) {
    if (local_id < tasks_) {
        const CpuSet mask = read_affinity(pid);
        const auto words = mask.words();
        std::ranges::copy(words, words_ + local_id * words_per_task);
    }
}

std::vector<CpuSet> TaskMasks::all() const {
    std::vector<CpuSet> masks;
    for (std::size_t task = 0; task < tasks_; ++task) {
        masks.emplace_back(std::span<const std::uint64_t>(words_ + task * words_per_task, words_per_task));
    }
    return masks;
}

} // namespace rdma_nccl
