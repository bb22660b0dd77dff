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
    CUcontext context = nullptr;
    CUstream stream = nullptr;
    auto& device = gpu.context_.get_deleter().device;
    return cuda.check(cuda.device(&device, static_cast<int>(index)), format_text("GPU {}", index))
        .and_then([&] {
            return cuda.check(cuda.retain_context(&context, device), format_text("GPU {} cannot be used", index));
        })
        .and_then([&] {
            gpu.context_.reset(context);
            return cuda.check(cuda.set_context(context), "cuCtxSetCurrent");
        })
        .and_then([&] { return cuda.check(cuda.create_stream(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate"); })
        .map([&] {
            gpu.stream_.reset(stream);
            return std::move(gpu);
        });
}

Result<CudaMemory> CudaMemory::allocate(const CudaDevice& gpu, std::size_t size) {
    CUdeviceptr address = 0;
    return gpu.cuda()
        .check(gpu.cuda().allocate(&address, size),
               format_text("{} of the GPU's memory cannot be had (smaller sizes: -e)", format_bytes(size)))
        .map([&] { return CudaMemory(gpu, address, size); });
}

Result<void> CudaMemory::spoil() const {
    constexpr unsigned char all_ones = 0xFF; // NaN in all floating types
    return gpu_->cuda().check(gpu_->cuda().fill(address(0), all_ones, size_, gpu_->stream()), "cuMemsetD8Async");
}

Result<void> CudaMemory::write(std::size_t offset, std::span<const std::byte> bytes) const {
    return gpu_->cuda().check(gpu_->cuda().to_device(address(offset), bytes.data(), bytes.size(), gpu_->stream()),
                              "cuMemcpyHtoDAsync");
}

Result<void> CudaMemory::read(std::size_t offset, std::span<std::byte> bytes) const {
    return gpu_->cuda().check(gpu_->cuda().to_host(bytes.data(), address(offset), bytes.size()), "cuMemcpyDtoH");
}

} // namespace rdma_nccl::bench
