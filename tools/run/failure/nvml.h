// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl::run {

/// NVIDIA's management library, opened at run time. Any call may hang if a GPU hangs.
class Nvml {
public:
    /// Returns nullopt if there is no library or no driver, or if it knows none of the GPUs (UUIDs "GPU-..." or
    /// "MIG-...", or PCI addresses).
    static std::optional<Nvml> open(const std::string& name, const std::vector<std::string>& gpus);

    /// Returns the number of GPUs that report the use of their memory (MIG instances do not).
    [[nodiscard]] std::size_t gpus() const;
    /// Returns true if any of them accessed its memory recently (in the last 1/6 to 1 second, as described for
    /// nvmlUtilization_t).
    [[nodiscard]] bool memory_used() const;

private:
    struct Library;
    explicit Nvml(std::shared_ptr<Library> library) : library_(std::move(library)) {}
    std::shared_ptr<Library> library_;
};

} // namespace rdma_nccl::run
