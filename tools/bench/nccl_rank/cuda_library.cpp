// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/nccl_rank/cuda_library.h"

#include "lib/base/dynamic_symbols.h"
#include "lib/base/format.h"

#include <dlfcn.h>

namespace rdma_nccl {

namespace {

constexpr const char* library_name = "libcuda.so.1";

// <cuda.h> renames functions when they change, so look up the name that it uses.
#define RN_NAME_OF(function) RN_TEXT_OF(function)
#define RN_TEXT_OF(function) #function

} // namespace

Result<CudaLibrary> CudaLibrary::load() {
    void* const handle = ::dlopen(library_name, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
        return fail(format_text("no GPU: {} is not there, which comes with NVIDIA's driver ({})", library_name,
                                ::dlerror())); // NOLINT(concurrency-mt-unsafe): one thread
    }
    Symbols symbols(handle);
    CudaLibrary cuda{};
    symbols.find(cuda.init, RN_NAME_OF(cuInit));
    symbols.find(cuda.error_string, RN_NAME_OF(cuGetErrorString));
    symbols.find(cuda.device_count, RN_NAME_OF(cuDeviceGetCount));
    symbols.find(cuda.device, RN_NAME_OF(cuDeviceGet));
    symbols.find(cuda.device_name, RN_NAME_OF(cuDeviceGetName));
    symbols.find(cuda.pci_address, RN_NAME_OF(cuDeviceGetPCIBusId));
    symbols.find(cuda.retain_context, RN_NAME_OF(cuDevicePrimaryCtxRetain));
    symbols.find(cuda.release_context, RN_NAME_OF(cuDevicePrimaryCtxRelease));
    symbols.find(cuda.set_context, RN_NAME_OF(cuCtxSetCurrent));
    symbols.find(cuda.memory_info, RN_NAME_OF(cuMemGetInfo));
    symbols.find(cuda.allocate, RN_NAME_OF(cuMemAlloc));
    symbols.find(cuda.free, RN_NAME_OF(cuMemFree));
    symbols.find(cuda.to_device, RN_NAME_OF(cuMemcpyHtoDAsync));
    symbols.find(cuda.to_host, RN_NAME_OF(cuMemcpyDtoH));
    symbols.find(cuda.fill, RN_NAME_OF(cuMemsetD8Async));
    symbols.find(cuda.create_stream, RN_NAME_OF(cuStreamCreate));
    symbols.find(cuda.query_stream, RN_NAME_OF(cuStreamQuery));
    symbols.find(cuda.destroy_stream, RN_NAME_OF(cuStreamDestroy));
    if (!symbols.missing().empty()) {
        return fail(format_text("{} has no {}: NVIDIA's driver is too old", library_name, symbols.missing()));
    }
    if (const auto started = cuda.check(cuda.init(0), "no GPU: cuInit"); !started) {
        return tl::unexpected(started.error());
    }
    int count = 0;
    if (const auto counted = cuda.check(cuda.device_count(&count), "no GPU: cuDeviceGetCount"); !counted) {
        return tl::unexpected(counted.error());
    }
    if (count == 0) {
        return fail("no GPU: CUDA sees none (CUDA_VISIBLE_DEVICES, or the step has none: --gpus-per-node)");
    }
    return cuda;
}

Result<void> CudaLibrary::check(CUresult result, std::string_view what) const {
    if (result == CUDA_SUCCESS) {
        return {};
    }
    const char* text = nullptr;
    if (error_string(result, &text) != CUDA_SUCCESS || text == nullptr) {
        text = "an error that this driver does not know";
    }
    return fail(format_text("{}: {} (CUDA error {})", what, text, static_cast<int>(result)));
}

} // namespace rdma_nccl
