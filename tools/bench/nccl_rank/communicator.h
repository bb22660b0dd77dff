// SPDX-License-Identifier: Apache-2.0
// A rank's part in a communicator: the operations, on its GPU's stream.
#pragma once

#include "tools/bench/nccl_rank/cuda_device.h"
#include "tools/bench/nccl_rank/nccl_library.h"
#include "tools/bench/rank/collective.h"

#include <cstddef>
#include <optional>
#include <string_view>
#include <tl/expected.hpp>

namespace rdma_nccl {

template<typename T>
using NcclResult = tl::expected<T, NcclFailure>;

std::optional<ncclDataType_t> nccl_type(std::string_view name);
std::optional<ncclRedOp_t> nccl_reduction(std::string_view name);

/// One call of an operation. The buffers are this rank's, in GPU memory.
struct CollectiveCall {
    Collective operation = Collective::AllReduce;
    const std::byte* send = nullptr;
    std::byte* receive = nullptr;
    std::size_t count = 0; ///< the argument that NCCL takes for this operation
    ncclDataType_t type = ncclFloat;
    unsigned type_size = 4;
    ncclRedOp_t reduction = ncclSum;
    int root = 0;
};

class Communicator {
public:
    /// Called by all ranks at the same time, with the same id. `nccl` and `gpu` must outlive the result.
    static NcclResult<Communicator> join(const NcclLibrary& nccl, const CudaDevice& gpu, const ncclUniqueId& id,
                                         unsigned rank, unsigned ranks);
    Communicator(Communicator&& other) noexcept
        : nccl_(other.nccl_), gpu_(other.gpu_), communicator_(std::exchange(other.communicator_, nullptr)),
          rank_(other.rank_), ranks_(other.ranks_) {}
    Communicator(const Communicator&) = delete;
    Communicator& operator=(const Communicator&) = delete;
    Communicator& operator=(Communicator&&) = delete;
    ~Communicator() = default; ///< no ncclCommDestroy: after a failure it may wait for ranks that are gone

    /// Also waits for the other ranks.
    NcclResult<void> destroy();

    [[nodiscard]] unsigned rank() const { return rank_; }
    [[nodiscard]] unsigned ranks() const { return ranks_; }
    [[nodiscard]] const CudaDevice& gpu() const { return *gpu_; }

    /// Puts the call into the stream.
    [[nodiscard]] NcclResult<void> start(const CollectiveCall& call) const;
    /// Waits for the stream. Fails if NCCL reports an error, after which the stream would never finish.
    [[nodiscard]] NcclResult<void> finish() const;
    /// Returns the sum of all ranks' values. No rank returns before all have called it. `memory`: at least 8 bytes.
    [[nodiscard]] NcclResult<double> sum(double value, const CudaMemory& memory) const;

private:
    Communicator(const NcclLibrary& nccl, const CudaDevice& gpu, unsigned rank, unsigned ranks)
        : nccl_(&nccl), gpu_(&gpu), rank_(rank), ranks_(ranks) {}
    [[nodiscard]] ncclResult_t call(const CollectiveCall& call) const;
    [[nodiscard]] ncclResult_t exchange(const CollectiveCall& call) const;
    [[nodiscard]] NcclFailure failure(std::string_view what, ncclResult_t result) const;

    const NcclLibrary* nccl_;
    const CudaDevice* gpu_;
    ncclComm_t communicator_ = nullptr;
    unsigned rank_;
    unsigned ranks_;
};

} // namespace rdma_nccl
