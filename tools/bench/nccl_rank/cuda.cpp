// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/nccl_rank/cuda.h"

#include "lib/base/format.h"

#include <array>

namespace rdma_nccl::bench {

Result<CudaLibrary> CudaLibrary::load() {
    const auto symbols = Symbols::load("libcuda.so.1");
    if (!symbols) {
        return fail(format_text("no GPU: libcuda.so.1 is not there, which comes with NVIDIA's driver ({})",
                                symbols.error().message));
    }
    CudaLibrary cuda{*symbols};
    if (!cuda.symbols.missing().empty()) {
        return fail(format_text("libcuda.so.1 has no {}: NVIDIA's driver is too old", cuda.symbols.missing()));
    }
    int count = 0;
    const auto counted = cuda.check(cuda.init(0), "no GPU: cuInit").and_then([&] {
        return cuda.check(cuda.device_count(&count), "no GPU: cuDeviceGetCount");
    });
    if (!counted) {
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

Result<std::vector<CudaDeviceInfo>> list_devices(const CudaLibrary& cuda) {
    int count = 0;
    if (auto counted = cuda.check(cuda.device_count(&count), "cuDeviceGetCount"); !counted) {
        return tl::unexpected(counted.error());
    }
    std::vector<CudaDeviceInfo> gpus;
    for (int i = 0; i < count; ++i) {
        CUdevice device = 0;
        std::array<char, 256> name{};
        std::array<char, 32> pci{};
        if (auto found = cuda.check(cuda.device(&device, i), format_text("GPU {}", i)); !found) {
            return tl::unexpected(found.error());
        }
        (void)cuda.device_name(name.data(), static_cast<int>(name.size()) - 1, device);
        (void)cuda.pci_address(pci.data(), static_cast<int>(pci.size()) - 1, device);
        gpus.push_back({name.data(), pci.data()});
    }
    return gpus;
}

Result<CudaDevice> CudaDevice::open(const CudaLibrary& cuda, unsigned index) {
    CudaDevice gpu(cuda);
    return cuda.check(cuda.device(&gpu.device_, static_cast<int>(index)), format_text("GPU {}", index))
        .and_then([&] {
            return cuda.check(cuda.retain_context(&gpu.context_, gpu.device_),
                              format_text("GPU {} cannot be used", index));
        })
        .and_then([&] { return cuda.check(cuda.set_context(gpu.context_), "cuCtxSetCurrent"); })
        .and_then(
            [&] { return cuda.check(cuda.create_stream(&gpu.stream_, CU_STREAM_NON_BLOCKING), "cuStreamCreate"); })
        .map([&] { return std::move(gpu); });
}

CudaDevice::~CudaDevice() {
    if (stream_ != nullptr) {
        (void)cuda_->destroy_stream(stream_);
    }
    if (context_ != nullptr) {
        (void)cuda_->release_context(device_);
    }
}

Result<CudaMemory> CudaMemory::allocate(const CudaDevice& gpu, std::size_t size) {
    CudaMemory memory(gpu, size);
    return gpu.cuda()
        .check(gpu.cuda().allocate(&memory.address_, size),
               format_text("{} of the GPU's memory cannot be had (smaller sizes: -e)", format_bytes(size)))
        .map([&] { return std::move(memory); });
}

CudaMemory::~CudaMemory() {
    if (address_ != 0) {
        (void)gpu_->cuda().free(address_);
    }
}

std::byte* CudaMemory::at(std::size_t offset) const {
    // NCCL takes GPU addresses as pointers.
    return reinterpret_cast<std::byte*>(address_ + offset); // NOLINT
}

Result<void> CudaMemory::spoil() const {
    constexpr unsigned char all_ones = 0xFF; // NaN in all floating types
    return gpu_->cuda().check(gpu_->cuda().fill(address_, all_ones, size_, gpu_->stream()), "cuMemsetD8Async");
}

Result<void> CudaMemory::write(std::size_t offset, std::span<const std::byte> bytes) const {
    return gpu_->cuda().check(gpu_->cuda().to_device(address_ + offset, bytes.data(), bytes.size(), gpu_->stream()),
                              "cuMemcpyHtoDAsync");
}

Result<void> CudaMemory::read(std::size_t offset, std::span<std::byte> bytes) const {
    return gpu_->cuda().check(gpu_->cuda().to_host(bytes.data(), address_ + offset, bytes.size()), "cuMemcpyDtoH");
}

} // namespace rdma_nccl::bench
