// SPDX-License-Identifier: Apache-2.0
// Whether a job hangs: nothing written, no work on the GPUs and no byte over RDMA for a while.
#pragma once

#include "lib/environment.h"
#include "lib/root.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <sys/types.h>
#include <vector>

namespace rdma_nccl {

/// What moves on this node. Asks sysfs and, where there is one, NVIDIA's library NVML (opened at the first use).
class ActivityProbe {
public:
    /// `ports`: as NCCL_IB_HCA and UCX_NET_DEVICES name them ("mlx5_1:1"); `gpu_uuids` or PCI addresses of the ranks'.
    ActivityProbe(const Root& root, std::vector<std::string> ports, std::vector<std::string> gpus);
    ~ActivityProbe();
    ActivityProbe(const ActivityProbe&) = delete;
    ActivityProbe& operator=(const ActivityProbe&) = delete;

    /// Whether anything moved since the last call; `output_bytes`: written by all ranks so far. A NCCL kernel that
    /// waits for a peer keeps a GPU 100 % busy but its memory idle: what counts is the memory's use.
    bool moved(std::uint64_t output_bytes);
    /// What is looked at, for the report: "output, RDMA bytes of mlx5_0:1, memory use of 8 GPUs".
    [[nodiscard]] std::string watched() const;

private:
    struct State;
    std::unique_ptr<State> state_;
};

/// A program that shows the stacks of a process: py-spy for Python where it is installed, else gdb; absent without
/// both.
std::optional<std::vector<std::string>> stack_command(pid_t pid, const Environment& environment);

} // namespace rdma_nccl
