// SPDX-License-Identifier: Apache-2.0
// NCCL, loaded on demand: the one that the user's program would use, not the one this program was built with.
#pragma once

#include "lib/base/result.h"

#include <cstddef>
#include <nccl.h>
#include <string>
#include <string_view>

namespace rdma_nccl {

struct NcclLibrary {
    decltype(&::ncclGetVersion) get_version;
    decltype(&::ncclGetUniqueId) get_unique_id;
    decltype(&::ncclCommInitRank) init_rank;
    decltype(&::ncclCommDestroy) destroy;
    decltype(&::ncclCommGetAsyncError) async_error;
    decltype(&::ncclGetErrorString) error_string;
    decltype(&::ncclAllReduce) all_reduce;
    decltype(&::ncclAllGather) all_gather;
    decltype(&::ncclReduceScatter) reduce_scatter;
    decltype(&::ncclBroadcast) broadcast;
    decltype(&::ncclSend) send;
    decltype(&::ncclRecv) receive;
    decltype(&::ncclGroupStart) group_start;
    decltype(&::ncclGroupEnd) group_end;

    // Null in releases without them. The types are spelled out because the nccl.h used for the build may be older, too.
    const char* (*last_error)(ncclComm_t comm);                                                            ///< 2.13
    ncclResult_t (*all_to_all)(const void*, void*, std::size_t, ncclDataType_t, ncclComm_t, cudaStream_t); ///< 2.28

    int version = 0;  ///< 22809 is 2.28.9
    std::string path; ///< of the file

    /// `path`: a file, or the name that the dynamic loader searches for, "libnccl.so.2".
    static Result<NcclLibrary> load(const std::string& path);

    /// Returns "NCCL 2.28.9 (/usr/lib/libnccl.so.2)".
    [[nodiscard]] std::string text() const;
};

/// A failed call, with its cause.
struct NcclFailure {
    std::string words;
    bool remote = false; ///< caused by another rank's failure
};

/// `what`: "rank 3 of 16: ncclAllReduce". `detail`: the text of ncclGetLastError(); may be empty.
NcclFailure nccl_failure(std::string_view what, ncclResult_t result, std::string_view text, std::string_view detail);

} // namespace rdma_nccl
