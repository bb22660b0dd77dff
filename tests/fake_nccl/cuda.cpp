// SPDX-License-Identifier: Apache-2.0
// See README.md. Memory is the host's; a stream is always done.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda.h>

// <cuda.h> declares them with C linkage.

CUresult cuInit(unsigned) {
    return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char** text) {
    *text = error == CUDA_ERROR_OUT_OF_MEMORY ? "out of memory" : "an emulated error";
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) {
    const char* const text = std::getenv("FAKE_CUDA_GPUS");
    *count = text != nullptr ? std::atoi(text) : 1;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
    int count = 0;
    (void)cuDeviceGetCount(&count);
    *device = ordinal;
    return ordinal < count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetName(char* name, int length, CUdevice) {
    (void)std::snprintf(name, static_cast<std::size_t>(length), "emulated GPU");
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char* id, int length, CUdevice device) {
    (void)std::snprintf(id, static_cast<std::size_t>(length), "0000:%02X:00.0", static_cast<unsigned>(device) + 1);
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice) {
    *context = nullptr;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice) {
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext) {
    return CUDA_SUCCESS;
}

CUresult cuMemGetInfo(std::size_t* free, std::size_t* total) {
    *free = *total = std::size_t{1} << 30;
    return CUDA_SUCCESS;
}

CUresult cuMemAlloc(CUdeviceptr* address, std::size_t size) {
    void* const memory = size > (std::size_t{1} << 30) ? nullptr : std::malloc(size);
    *address = reinterpret_cast<CUdeviceptr>(memory);
    return memory == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult cuMemFree(CUdeviceptr address) {
    std::free(reinterpret_cast<void*>(address));
    return CUDA_SUCCESS;
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, std::size_t size, CUstream) {
    std::memcpy(reinterpret_cast<void*>(to), from, size);
    return CUDA_SUCCESS;
}

CUresult cuMemcpyDtoH(void* to, CUdeviceptr from, std::size_t size) {
    std::memcpy(to, reinterpret_cast<const void*>(from), size);
    return CUDA_SUCCESS;
}

CUresult cuMemsetD8Async(CUdeviceptr address, unsigned char value, std::size_t size, CUstream) {
    std::memset(reinterpret_cast<void*>(address), value, size);
    return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream* stream, unsigned) {
    static int one;
    *stream = reinterpret_cast<CUstream>(&one);
    return CUDA_SUCCESS;
}

CUresult cuStreamQuery(CUstream) {
    return CUDA_SUCCESS;
}

CUresult cuStreamDestroy(CUstream) {
    return CUDA_SUCCESS;
}
