// SPDX-License-Identifier: Apache-2.0
#include "lib/base/dynamic_symbols.h"
#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/topology/gpu_links.h"

#include <algorithm>
#include <array>
#include <string>

namespace rdma_nccl {

namespace {

/// What is needed of NVML (nvml.h of CUDA 12.4; drivers from 550 on have it), in plain types, which are the same to a
/// sanitizer in both libraries. Its functions return 0 for success.
struct Nvml {
    using Device = void*;
    struct FabricInfo { // nvmlGpuFabricInfo_v2_t
        unsigned version = 2U << 24U | sizeof(FabricInfo);
        std::array<unsigned char, 16> domain{};
        int status = 0;
        unsigned clique = 0;
        unsigned char state = 0;
        unsigned health = 0;
    };

    Symbols symbols;
    int (*init)() = symbols.get("nvmlInit_v2");
    int (*find)(const char*, Device*) = symbols.get("nvmlDeviceGetHandleByPciBusId_v2");
    int (*get_fabric)(Device, void* info) = symbols.get("nvmlDeviceGetGpuFabricInfoV");
};

struct GpuFabrics {
    static constexpr std::string_view message_name = "gpu-fabrics";
    std::vector<GpuFabric> gpus;
};

void fields(auto& f, Is<GpuFabrics> auto& m) {
    constexpr std::size_t most_gpus = 1024;
    f("gpus", m.gpus, most_gpus);
}

std::string hexadecimal(std::span<const unsigned char> bytes) {
    std::string text;
    for (const auto byte : bytes) {
        text += format_text("{:02x}", byte);
    }
    return text;
}

/// For a child: NVML asks the driver, which hangs where a GPU does.
GpuFabrics ask_nvml(std::span<const Gpu> gpus) {
    const auto nvml = load_functions<Nvml>("libnvidia-ml.so.1", "", "");
    GpuFabrics found;
    if (!nvml || nvml->init() != 0) {
        return found;
    }
    for (const auto& gpu : gpus) {
        Nvml::Device device = nullptr;
        Nvml::FabricInfo info;
        if (nvml->find(gpu.pci.c_str(), &device) != 0 || nvml->get_fabric(device, &info) != 0 || info.state == 0 ||
            info.state > static_cast<unsigned>(GpuFabric::State::Joined)) {
            continue;
        }
        const bool is_beyond = std::ranges::any_of(info.domain, [](unsigned char byte) { return byte != 0; });
        found.gpus.push_back({gpu.pci, is_beyond ? hexadecimal(info.domain) : "", info.clique,
                              static_cast<GpuFabric::State>(info.state), static_cast<unsigned>(info.status),
                              info.health});
    }
    return found;
}

} // namespace

std::optional<std::vector<GpuFabric>> read_gpu_fabrics(std::span<const Gpu> gpus, std::chrono::milliseconds limit) {
    auto child = ChildValue<GpuFabrics>::start([gpus] { return ask_nvml(gpus); });
    auto answer = child.finish(std::chrono::steady_clock::now() + limit);
    return answer ? std::optional(std::move(answer->gpus)) : std::nullopt;
}

} // namespace rdma_nccl
