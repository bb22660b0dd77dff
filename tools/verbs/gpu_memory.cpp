// SPDX-License-Identifier: Apache-2.0
#include "tools/verbs/gpu_memory.h"

#include "lib/base/dynamic_symbols.h"
#include "lib/base/format.h"

#include <dlfcn.h>
#include <utility>

namespace rdma_nccl {

namespace {

// From the CUDA driver API (cuda.h): CUresult, CUdevice, CUcontext, CUdeviceptr, CUmemRangeHandleType.
using Status = int;
using Device = int;
using Context = void*;
using Pointer = unsigned long long;
constexpr Status success = 0;
constexpr int range_handle_dma_buf = 1;

struct CudaDriver {
    Status (*init)(unsigned flags);
    Status (*device_get)(Device*, int ordinal);
    Status (*error_name)(Status, const char**);
    Status (*retain)(Context*, Device);
    Status (*release)(Device);
    Status (*set_current)(Context);
    Status (*allocate)(Pointer*, std::size_t);
    Status (*free)(Pointer);
    Status (*copy_in)(Pointer, const void*, std::size_t);
    Status (*copy_out)(void*, Pointer, std::size_t);
    Status (*range_handle)(void* handle, Pointer, std::size_t, int type, unsigned long long flags); ///< since CUDA 11.7

    static Result<CudaDriver> load();
    /// Returns text like "cuInit: CUDA_ERROR_NO_DEVICE".
    [[nodiscard]] std::string text(const char* call, Status status) const;
};

Result<CudaDriver> CudaDriver::load() {
    void* const handle = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL); // never closed, because it has threads
    if (handle == nullptr) {
        return fail(format_text("no GPU: the NVIDIA driver's libcuda.so.1 cannot be loaded ({})", ::dlerror()));
    }
    CudaDriver driver{};
    Symbols symbols(handle);
    symbols.find(driver.init, "cuInit");
    symbols.find(driver.device_get, "cuDeviceGet");
    symbols.find(driver.error_name, "cuGetErrorName");
    symbols.find(driver.retain, "cuDevicePrimaryCtxRetain");
    symbols.find(driver.release, "cuDevicePrimaryCtxRelease_v2");
    symbols.find(driver.set_current, "cuCtxSetCurrent");
    symbols.find(driver.allocate, "cuMemAlloc_v2");
    symbols.find(driver.free, "cuMemFree_v2");
    symbols.find(driver.copy_in, "cuMemcpyHtoD_v2");
    symbols.find(driver.copy_out, "cuMemcpyDtoH_v2");
    if (!symbols.missing().empty()) {
        return fail(format_text("no GPU: libcuda.so.1 has no {}: update the NVIDIA driver", symbols.missing()));
    }
    Symbols(handle).find(driver.range_handle, "cuMemGetHandleForAddressRange");
    return driver;
}

std::string CudaDriver::text(const char* call, Status status) const {
    const char* name = nullptr;
    return error_name(status, &name) == success ? format_text("{}: {}", call, name)
                                                : format_text("{}: CUDA error {}", call, status);
}

class DriverMemory final : public GpuMemory {
public:
    explicit DriverMemory(const CudaDriver& driver) : driver_(driver) {}
    ~DriverMemory() override {
        if (pointer_ != 0) {
            driver_.free(pointer_);
        }
        if (retained_) {
            driver_.release(device_);
        }
    }
    DriverMemory(const DriverMemory&) = delete;
    DriverMemory& operator=(const DriverMemory&) = delete;

    Result<void> make(unsigned gpu, std::size_t bytes) {
        if (const auto status = driver_.init(0); status != success) {
            return fail("no GPU: " + driver_.text("cuInit", status));
        }
        if (const auto status = driver_.device_get(&device_, static_cast<int>(gpu)); status != success) {
            return fail(format_text("no GPU {}: {}", gpu, driver_.text("cuDeviceGet", status)));
        }
        Context context = nullptr;
        if (auto done = good("cuDevicePrimaryCtxRetain", driver_.retain(&context, device_)); !done) {
            return done;
        }
        retained_ = true;
        if (auto done = good("cuCtxSetCurrent", driver_.set_current(context)); !done) {
            return done;
        }
        bytes_ = bytes;
        return good("cuMemAlloc", driver_.allocate(&pointer_, bytes));
    }

    [[nodiscard]] std::uint64_t address() const override { return pointer_; }

    [[nodiscard]] Result<UniqueFd> dmabuf() const override {
        if (driver_.range_handle == nullptr) {
            return fail("the NVIDIA driver gives no DMA-BUF: it is older than CUDA 11.7");
        }
        int descriptor = -1;
        const auto status = driver_.range_handle(&descriptor, pointer_, bytes_, range_handle_dma_buf, 0);
        if (status != success) {
            return fail(driver_.text("cuMemGetHandleForAddressRange", status));
        }
        return UniqueFd(descriptor);
    }

    Result<void> copy_in(std::size_t offset, std::span<const std::byte> bytes) override {
        return good("cuMemcpyHtoD", driver_.copy_in(pointer_ + offset, bytes.data(), bytes.size()));
    }
    [[nodiscard]] Result<void> copy_out(std::size_t offset, std::span<std::byte> bytes) const override {
        return good("cuMemcpyDtoH", driver_.copy_out(bytes.data(), pointer_ + offset, bytes.size()));
    }

private:
    [[nodiscard]] Result<void> good(const char* call, Status status) const {
        if (status != success) {
            return fail(driver_.text(call, status));
        }
        return {};
    }

    CudaDriver driver_;
    Device device_ = 0;
    bool retained_ = false;
    Pointer pointer_ = 0;
    std::size_t bytes_ = 0;
};

} // namespace

Result<std::unique_ptr<GpuMemory>> GpuMemory::allocate(unsigned gpu, std::size_t bytes) {
    // DMA-BUF requires whole GPU pages.
    constexpr std::size_t page = std::size_t{64} << 10;
    const auto driver = CudaDriver::load();
    if (!driver) {
        return tl::unexpected(driver.error());
    }
    auto memory = std::make_unique<DriverMemory>(*driver);
    if (const auto made = memory->make(gpu, (bytes + page - 1) / page * page); !made) {
        return tl::unexpected(made.error());
    }
    return std::unique_ptr<GpuMemory>(std::move(memory));
}

} // namespace rdma_nccl
