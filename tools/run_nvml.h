// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl {

/// NVIDIA's management library, opened at run time. Any call may hang where a GPU does.
class Nvml {
public:
    /// Absent where there is no library, no driver, or none of the GPUs (UUIDs, "GPU-..." or "MIG-...", or PCI
    /// addresses) is known to it.
    static std::optional<Nvml> open(const std::string& name, const std::vector<std::string>& gpus);

    /// How many GPUs can tell the use of their memory (parts of a GPU, MIG, cannot).
    [[nodiscard]] std::size_t gpus() const;
    /// Whether any of them read or wrote its memory lately (over the last sixth of a second to second, as
    /// nvmlUtilization_t has it).
    [[nodiscard]] bool memory_used() const;

private:
    struct Library;
    explicit Nvml(std::shared_ptr<Library> library) : library_(std::move(library)) {}
    std::shared_ptr<Library> library_;
};

} // namespace rdma_nccl
