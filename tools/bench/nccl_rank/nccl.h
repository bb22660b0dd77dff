// SPDX-License-Identifier: Apache-2.0
// NCCL, loaded on demand: the one that the user's program would use. And a rank's part in a communicator.
#pragma once

#include "lib/base/dynamic_symbols.h"
#include "lib/base/result.h"
#include "tools/bench/nccl_rank/cuda.h"
#include "tools/bench/rank/order.h"

#include <cstddef>
#include <nccl.h>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace rdma_nccl::bench {

/// A failed call, with its cause.
struct NcclFailure {
    NcclFailure(std::string text, bool is_remote) : words(std::move(text)), remote(is_remote) {}
    NcclFailure(const Error& error) : words(error.message) {} // NOLINT(google-explicit-constructor): of CUDA, or local

    std::string words;
    bool remote = false; ///< caused by another rank's failure
};

template<typename T>
using NcclResult = tl::expected<T, NcclFailure>;

struct NcclLibrary {
    Symbols symbols;
    std::string path; ///< of the file
    decltype(&::ncclGetVersion) get_version = symbols.get("ncclGetVersion");
    decltype(&::ncclGetUniqueId) get_unique_id = symbols.get("ncclGetUniqueId");
    decltype(&::ncclCommInitRank) init_rank = symbols.get("ncclCommInitRank");
    decltype(&::ncclCommDestroy) destroy = symbols.get("ncclCommDestroy");
    decltype(&::ncclCommGetAsyncError) async_error = symbols.get("ncclCommGetAsyncError");
    decltype(&::ncclGetErrorString) error_string = symbols.get("ncclGetErrorString");
    decltype(&::ncclAllReduce) all_reduce = symbols.get("ncclAllReduce");
    decltype(&::ncclAllGather) all_gather = symbols.get("ncclAllGather");
    decltype(&::ncclReduceScatter) reduce_scatter = symbols.get("ncclReduceScatter");
    decltype(&::ncclBroadcast) broadcast = symbols.get("ncclBroadcast");
    decltype(&::ncclSend) send = symbols.get("ncclSend");
    decltype(&::ncclRecv) receive = symbols.get("ncclRecv");
    decltype(&::ncclGroupStart) group_start = symbols.get("ncclGroupStart");
    decltype(&::ncclGroupEnd) group_end = symbols.get("ncclGroupEnd");

    // Null in releases without them. The types are spelled out because the nccl.h used for the build may be older, too.
    /// Since 2.13.
    const char* (*last_error)(ncclComm_t comm) = symbols.get_if_any("ncclGetLastError");
    /// Since 2.28.
    ncclResult_t (*all_to_all)(const void*, void*, std::size_t, ncclDataType_t, ncclComm_t,
                               cudaStream_t) = symbols.get_if_any("ncclAlltoAll");

    int version = 0; ///< 22809 is 2.28.9

    /// `path`: a file, or the name that the dynamic loader searches for, "libnccl.so.2".
    static Result<NcclLibrary> load(const std::string& path);

    /// `what`: "ncclAllReduce". Adds NCCL's own message, and a cause or advice.
    [[nodiscard]] NcclFailure failure(std::string_view what, ncclResult_t result, ncclComm_t communicator) const;
    /// Returns "NCCL 2.28.9 (/usr/lib/libnccl.so.2)".
    [[nodiscard]] std::string text() const;
};

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

    /// Also waits for the other ranks. No destructor does so: after a failure it may wait for ranks that are gone.
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
    [[nodiscard]] NcclResult<void> check(std::string_view what, ncclResult_t result) const;

    const NcclLibrary* nccl_;
    const CudaDevice* gpu_;
    ncclComm_t communicator_ = nullptr;
    unsigned rank_;
    unsigned ranks_;
};

/// Reports the failure and exits at once, without cleanup: NCCL's threads may wait for ranks that are gone.
[[noreturn]] void end_failed(const RankChannel& channel, const NcclFailure& failure);

/// The measurement, done as in nccl-tests (BenchTime() in src/common.cu there): the time of a batch of consecutive
/// calls in the stream, divided by their number, averaged over the ranks. Called by all ranks with the same work; rank
/// 0 reports the rows. Ends the process after a failure: freeing GPU memory may wait for ranks that are gone, too.
void measure_all(const Communicator& communicator, const Work& work, const RankChannel& channel);

} // namespace rdma_nccl::bench
