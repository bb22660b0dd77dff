// SPDX-License-Identifier: Apache-2.0
#include "tools/verbs/port.h"

#include "lib/base/format.h"
#include "lib/base/unique_fd.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/mman.h>
#include <utility>
#include <vector>

namespace rdma_nccl {

// --- The pattern ---

namespace {

constexpr std::size_t word = sizeof(std::uint64_t);

/// A permutation of 64-bit numbers (the finalizer of splitmix64), so the words of one seed are all different.
std::uint64_t mix(std::uint64_t value) {
    value = (value ^ (value >> 30)) * 0xbf58'476d'1ce4'e5b9;
    value = (value ^ (value >> 27)) * 0x94d0'49bb'1331'11eb;
    return value ^ (value >> 31);
}

std::uint64_t word_at(std::uint64_t seed, std::size_t offset) {
    return mix(mix(seed) + offset / word);
}

} // namespace

void fill_pattern(std::span<std::byte> bytes, std::uint64_t seed, std::size_t offset) {
    for (std::size_t at = 0; at < bytes.size(); at += word) {
        const auto value = word_at(seed, offset + at);
        std::memcpy(&bytes[at], &value, std::min(word, bytes.size() - at));
    }
}

bool has_pattern(std::span<const std::byte> bytes, std::uint64_t seed, std::size_t offset) {
    for (std::size_t at = 0; at < bytes.size(); at += word) {
        const auto value = word_at(seed, offset + at);
        if (std::memcmp(&bytes[at], &value, std::min(word, bytes.size() - at)) != 0) {
            return false;
        }
    }
    return true;
}

#ifdef HAVE_IBVERBS

// --- Memory of a GPU ---

namespace {

// The CUDA driver's functions and types are declared here: they are a stable ABI, so that CUDA is not needed to build.
// From cuda.h: CUresult, CUdevice, CUcontext, CUdeviceptr, CUmemRangeHandleType.
using Status = int;
using Device = int;
using Context = void*;
using Pointer = unsigned long long;
constexpr Status success = 0;
constexpr int range_handle_dma_buf = 1;

struct CudaDriver {
    Symbols symbols;
    Status (*init)(unsigned flags) = symbols.get("cuInit");
    Status (*device_get)(Device*, int ordinal) = symbols.get("cuDeviceGet");
    Status (*error_name)(Status, const char**) = symbols.get("cuGetErrorName");
    Status (*retain)(Context*, Device) = symbols.get("cuDevicePrimaryCtxRetain");
    Status (*release)(Device) = symbols.get("cuDevicePrimaryCtxRelease_v2");
    Status (*set_current)(Context) = symbols.get("cuCtxSetCurrent");
    Status (*allocate)(Pointer*, std::size_t) = symbols.get("cuMemAlloc_v2");
    Status (*free)(Pointer) = symbols.get("cuMemFree_v2");
    Status (*copy_in)(Pointer, const void*, std::size_t) = symbols.get("cuMemcpyHtoD_v2");
    Status (*copy_out)(void*, Pointer, std::size_t) = symbols.get("cuMemcpyDtoH_v2");
    /// Since CUDA 11.7.
    Status (*range_handle)(void* handle, Pointer, std::size_t, int type,
                           unsigned long long flags) = symbols.get_if_any("cuMemGetHandleForAddressRange");

    /// Fails with "cuInit: CUDA_ERROR_NO_DEVICE".
    [[nodiscard]] Result<void> check(const char* call, Status status) const {
        if (status == success) {
            return {};
        }
        const char* name = nullptr;
        return fail(error_name(status, &name) == success ? format_text("{}: {}", call, name)
                                                         : format_text("{}: CUDA error {}", call, status));
    }
};

} // namespace

class GpuMemory {
public:
    /// `gpu`: CUDA's number of the GPU. Fails with "no GPU: ..." if there is no driver or no such GPU.
    static Result<std::shared_ptr<GpuMemory>> allocate(unsigned gpu, std::size_t bytes) {
        const auto symbols = Symbols::load("libcuda.so.1");
        if (!symbols) {
            return fail(
                format_text("no GPU: the NVIDIA driver's libcuda.so.1 cannot be loaded ({})", symbols.error().message));
        }
        CudaDriver driver{*symbols};
        if (const auto& missing = driver.symbols.missing(); !missing.empty()) {
            return fail(format_text("no GPU: libcuda.so.1 has no {}: update the NVIDIA driver", missing));
        }
        auto memory = std::make_shared<GpuMemory>(std::move(driver));
        return memory->make(gpu, bytes).map([&] { return memory; });
    }

    explicit GpuMemory(CudaDriver driver) : driver_(std::move(driver)) {}
    GpuMemory(const GpuMemory&) = delete;
    GpuMemory& operator=(const GpuMemory&) = delete;
    ~GpuMemory() {
        if (address_ != 0) {
            driver_.free(address_);
        }
        if (retained_) {
            driver_.release(device_);
        }
    }

    [[nodiscard]] std::uint64_t address() const { return address_; }

    /// For ibv_reg_dmabuf_mr(). Fails if driver or GPU do not support it; then nvidia_peermem is needed.
    [[nodiscard]] Result<UniqueFd> dmabuf() const {
        if (driver_.range_handle == nullptr) {
            return fail("the NVIDIA driver gives no DMA-BUF: it is older than CUDA 11.7");
        }
        int descriptor = -1;
        const auto status = driver_.range_handle(&descriptor, address_, bytes_, range_handle_dma_buf, 0);
        return driver_.check("cuMemGetHandleForAddressRange", status).map([&] { return UniqueFd(descriptor); });
    }

    Result<void> copy_in(std::size_t offset, std::span<const std::byte> bytes) {
        return driver_.check("cuMemcpyHtoD", driver_.copy_in(address_ + offset, bytes.data(), bytes.size()));
    }

    [[nodiscard]] Result<void> copy_out(std::size_t offset, std::span<std::byte> bytes) const {
        return driver_.check("cuMemcpyDtoH", driver_.copy_out(bytes.data(), address_ + offset, bytes.size()));
    }

private:
    Result<void> make(unsigned gpu, std::size_t bytes) {
        if (const auto done = driver_.check("cuInit", driver_.init(0)); !done) {
            return fail("no GPU: " + done.error().message);
        }
        if (const auto done = driver_.check("cuDeviceGet", driver_.device_get(&device_, static_cast<int>(gpu)));
            !done) {
            return fail(format_text("no GPU {}: {}", gpu, done.error().message));
        }
        Context context = nullptr;
        if (auto done = driver_.check("cuDevicePrimaryCtxRetain", driver_.retain(&context, device_)); !done) {
            return done;
        }
        retained_ = true;
        constexpr std::size_t page = std::size_t{64} << 10; // DMA-BUF requires whole GPU pages
        bytes_ = (bytes + page - 1) / page * page;
        return driver_.check("cuCtxSetCurrent", driver_.set_current(context)).and_then([this] {
            return driver_.check("cuMemAlloc", driver_.allocate(&address_, bytes_));
        });
    }

    CudaDriver driver_;
    Device device_ = 0;
    bool retained_ = false;
    Pointer address_ = 0;
    std::size_t bytes_ = 0;
};

// --- Registered memory ---

namespace {

constexpr std::size_t chunk_bytes = std::size_t{1} << 20; // of host memory, for a copy of GPU memory

/// Calls `work(offset, chunk)` for each chunk of `size` bytes.
template<typename Work>
Result<void> for_chunks(std::size_t size, const Work& work) {
    std::vector<std::byte> chunk(std::min(chunk_bytes, size));
    for (std::size_t at = 0; at < size; at += chunk.size()) {
        chunk.resize(std::min(chunk.size(), size - at));
        if (auto done = work(at, std::span(chunk)); !done) {
            return done;
        }
    }
    return {};
}

constexpr int access_rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

tl::unexpected<Error> not_registered(std::size_t bytes, int code) {
    const char* const hint = code == ENOMEM  ? "; raise the limit of locked memory: `ulimit -l`, LimitMEMLOCK of slurmd"
                             : code == EPERM ? "; see the rights of the device and its cgroup"
                                             : "";
    return fail(format_text("{} KiB of memory cannot be registered: {}{}", bytes >> 10, std::strerror(code), hint),
                code);
}

ibv_mr* register_host(const VerbsPort& port, std::byte* pages, std::size_t bytes, VerbsMemory::Order order) {
    const auto& library = port.library;
    if (order == VerbsMemory::Order::Relaxed && library.reg_mr_iova2 != nullptr) {
        // The library removes optional rights that the device does not support.
        const auto address = reinterpret_cast<std::uintptr_t>(pages);
        return library.reg_mr_iova2(port.domain.get(), pages, bytes, address,
                                    access_rights | IBV_ACCESS_RELAXED_ORDERING);
    }
    return library.reg_mr(port.domain.get(), pages, bytes, access_rights);
}

Result<ibv_mr*> register_gpu(const VerbsPort& port, const GpuMemory& memory, std::size_t bytes) {
    const auto& library = port.library;
    const auto file = memory.dmabuf();
    std::string why = file ? "libibverbs is too old for it" : file.error().message;
    if (file && library.reg_dmabuf_mr != nullptr) {
        if (auto* const region = library.reg_dmabuf_mr(port.domain.get(), 0, bytes, memory.address(), file->get(),
                                                       access_rights | IBV_ACCESS_RELAXED_ORDERING)) {
            return region;
        }
        why = std::strerror(errno);
    }
    auto* const address = reinterpret_cast<void*>(memory.address()); // NOLINT(performance-no-int-to-ptr): of the GPU
    if (auto* const region = library.reg_mr(port.domain.get(), address, bytes, access_rights)) {
        return region;
    }
    const int code = errno;
    return fail(format_text("the HCA cannot reach the GPU's memory, neither by DMA-BUF ({}) nor by nvidia_peermem "
                            "({}): load nvidia_peermem, or use the open kernel modules of NVIDIA's driver",
                            why, std::strerror(code)),
                code);
}

} // namespace

void VerbsMemory::Unmap::operator()(std::byte* pages) const {
    ::munmap(pages, bytes);
}

Result<VerbsMemory> VerbsMemory::of_host(const VerbsPort& port, std::size_t bytes, Order order) {
    void* const pages = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) {
        const int code = errno;
        return os_failure(format_text("{} KiB of memory", bytes >> 10), code);
    }
    VerbsMemory memory;
    memory.pages_ = {static_cast<std::byte*>(pages), Unmap{bytes}};
    std::memset(pages, 0, bytes);
    memory.address_ = reinterpret_cast<std::uintptr_t>(pages);
    memory.region_ = {register_host(port, memory.host(), bytes, order), {port.library.dereg_mr}};
    if (!memory.region_) {
        return not_registered(bytes, errno);
    }
    return memory;
}

Result<VerbsMemory> VerbsMemory::of_gpu(const VerbsPort& port, std::size_t bytes, unsigned gpu) {
    VerbsMemory memory;
    auto allocated = GpuMemory::allocate(gpu, bytes);
    const auto region = allocated ? register_gpu(port, **allocated, bytes) : tl::unexpected(allocated.error());
    if (!region) {
        return tl::unexpected(region.error());
    }
    memory.gpu_ = std::move(*allocated);
    memory.address_ = memory.gpu_->address();
    memory.region_ = {*region, {port.library.dereg_mr}};
    return memory;
}

Result<void> VerbsMemory::fill(std::size_t offset, std::size_t size, std::uint64_t seed) {
    if (!gpu_) {
        fill_pattern({host() + offset, size}, seed, 0);
        return {};
    }
    return for_chunks(size, [&](std::size_t at, std::span<std::byte> chunk) {
        fill_pattern(chunk, seed, at);
        return gpu_->copy_in(offset + at, chunk);
    });
}

Result<bool> VerbsMemory::is_filled(std::size_t offset, std::size_t size, std::uint64_t seed) const {
    if (!gpu_) {
        return has_pattern({host() + offset, size}, seed, 0);
    }
    bool good = true;
    const auto done = for_chunks(size, [&](std::size_t at, std::span<std::byte> chunk) -> Result<void> {
        if (!good) {
            return {}; // one wrong chunk is the answer
        }
        return gpu_->copy_out(offset + at, chunk).map([&] { good = has_pattern(chunk, seed, at); });
    });
    return done.map([&] { return good; });
}

#endif

} // namespace rdma_nccl
