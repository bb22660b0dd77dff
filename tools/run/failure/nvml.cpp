// SPDX-License-Identifier: Apache-2.0
#include "tools/run/failure/hang.h"

#include "lib/base/dynamic_symbols.h"

#include <algorithm>

namespace rdma_nccl::run {

namespace {

// From nvml.h of CUDA 12: nvmlReturn_t is an enumeration with NVML_SUCCESS 0, nvmlDevice_t is a pointer, and
// nvmlUtilization_t has two percentages.
using Device = struct nvmlDevice_st*;
struct Utilization {
    unsigned gpu;    ///< percentage of time in which a kernel ran
    unsigned memory; ///< percentage of time in which memory was read or written
};
using Init = int (*)();
using FindDevice = int (*)(const char*, Device*);
using ReadUtilization = int (*)(Device, Utilization*);

} // namespace

struct Nvml::Library {
    Init shutdown = nullptr;
    ReadUtilization read = nullptr;
    std::vector<Device> devices;

    Library() = default;
    Library(const Library&) = delete;
    Library& operator=(const Library&) = delete;
    /// Does not unload the library, because it may have threads.
    ~Library() {
        if (shutdown != nullptr) {
            shutdown();
        }
    }

    [[nodiscard]] std::optional<unsigned> memory_use(Device device) const {
        Utilization use{};
        return read(device, &use) == 0 ? std::optional(use.memory) : std::nullopt;
    }
};

std::optional<Nvml> Nvml::open(const std::string& name, const std::vector<std::string>& gpus) {
    auto library = std::make_shared<Library>();
    void* const handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
        return std::nullopt;
    }
    Symbols symbols(handle);
    Init init = nullptr;
    Init shutdown = nullptr;
    FindDevice by_uuid = nullptr;
    FindDevice by_address = nullptr;
    symbols.find(init, "nvmlInit_v2");
    symbols.find(shutdown, "nvmlShutdown");
    symbols.find(by_uuid, "nvmlDeviceGetHandleByUUID");
    symbols.find(by_address, "nvmlDeviceGetHandleByPciBusId_v2");
    symbols.find(library->read, "nvmlDeviceGetUtilizationRates");
    if (!symbols.missing().empty() || init() != 0) {
        return std::nullopt;
    }
    library->shutdown = shutdown;
    for (const auto& gpu : gpus) {
        const bool uuid = gpu.starts_with("GPU-") || gpu.starts_with("MIG-");
        Device device = nullptr;
        if ((uuid ? by_uuid : by_address)(gpu.c_str(), &device) == 0 && library->memory_use(device)) {
            library->devices.push_back(device);
        }
    }
    if (library->devices.empty()) {
        return std::nullopt;
    }
    return Nvml(std::move(library));
}

bool Nvml::memory_used() const {
    return std::ranges::any_of(library_->devices,
                               [this](Device device) { return library_->memory_use(device).value_or(0) > 0; });
}

} // namespace rdma_nccl::run
