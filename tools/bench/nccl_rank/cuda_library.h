// SPDX-License-Identifier: Apache-2.0
// CUDA's driver library, loaded on demand. It comes with the driver and has a stable interface, so no run-time library
// of a certain CUDA release is needed. NCCL's own run-time library uses the current context.
#pragma once

#include "lib/base/result.h"

#include <cuda.h>
#include <string>
#include <string_view>

namespace rdma_nccl {

struct CudaLibrary {
    decltype(&::cuInit) init;
    decltype(&::cuGetErrorString) error_string;
    decltype(&::cuDeviceGetCount) device_count;
    decltype(&::cuDeviceGet) device;
    decltype(&::cuDeviceGetName) device_name;
    decltype(&::cuDeviceGetPCIBusId) pci_address;
    decltype(&::cuDevicePrimaryCtxRetain) retain_context;
    decltype(&::cuDevicePrimaryCtxRelease) release_context;
    decltype(&::cuCtxSetCurrent) set_context;
    decltype(&::cuMemGetInfo) memory_info;
    decltype(&::cuMemAlloc) allocate;
    decltype(&::cuMemFree) free;
    decltype(&::cuMemcpyHtoDAsync) to_device;
    decltype(&::cuMemcpyDtoH) to_host;
    decltype(&::cuMemsetD8Async) fill;
    decltype(&::cuStreamCreate) create_stream;
    decltype(&::cuStreamQuery) query_stream;
    decltype(&::cuStreamDestroy) destroy_stream;

    /// Fails if there is no driver, or no GPU that this process can see.
    static Result<CudaLibrary> load();

    /// Fails with "WHAT: CUDA's message (error 2)".
    [[nodiscard]] Result<void> check(CUresult result, std::string_view what) const;
};

} // namespace rdma_nccl
