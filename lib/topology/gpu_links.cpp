// SPDX-License-Identifier: Apache-2.0
#include "lib/topology/gpu_links.h"

#include "lib/base/dynamic_symbols.h"
#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/fabric/readers.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <string>

namespace rdma_nccl {

namespace {

/// KFD calls XGMI what the GPUs of a hive have between them, be it over a third one, as rocm-smi --showtopo does.
std::vector<GpuLink> xgmi_links(const SysRoot& root, std::span<const Gpu> gpus) {
    constexpr std::uint64_t xgmi = 11; // amdkfd/kfd_crat.h, CRAT_IOLINK_TYPE_XGMI
    std::vector<GpuLink> links;
    for (const auto& gpu : gpus) {
        if (!gpu.kfd_node) {
            continue;
        }
        const auto directory = format_text("{}/{}/io_links", kfd_nodes, *gpu.kfd_node);
        for (const auto& name : root.list(directory).value_or(std::vector<std::string>{})) {
            const auto link = root.read(format_text("{}/{}/properties", directory, name)).value_or("");
            const std::optional peer_node(static_cast<unsigned>(kfd_number(link, "node_to")));
            const auto* const peer = find_by(gpus, &Gpu::kfd_node, peer_node);
            // Both ends tell of a link, and each partition of a card.
            if (peer != nullptr && gpu.pci < peer->pci && kfd_number(link, "type") == xgmi) {
                add_once(links, {gpu.pci, peer->pci, GpuLink::Kind::Xgmi, 0});
            }
        }
    }
    return links;
}

/// What is needed of NVML (nvml.h of CUDA 11.8; the driver brings the library), in plain types, which are the same to
/// a sanitizer in both libraries. Its functions return 0 for success.
struct Nvml {
    using Device = void*;
    struct Pci { // nvmlPciInfo_t
        std::array<char, 16> legacy_id;
        unsigned domain, bus, device, ids, subsystem_ids;
        std::array<char, 32> id;
    };
    enum Peer : unsigned { Gpu, Cpu, Switch }; // nvmlIntNvLinkDeviceType_t

    Symbols symbols;
    int (*init)() = symbols.get("nvmlInit_v2");
    int (*find)(const char*, Device*) = symbols.get("nvmlDeviceGetHandleByPciBusId_v2");
    int (*get_state)(Device, unsigned, unsigned*) = symbols.get("nvmlDeviceGetNvLinkState");
    int (*get_peer_type)(Device, unsigned, unsigned*) = symbols.get("nvmlDeviceGetNvLinkRemoteDeviceType");
    int (*get_peer)(Device, unsigned, void* pci) = symbols.get("nvmlDeviceGetNvLinkRemotePciInfo_v2");
};

/// Counts a GPU's active links by the peer's address, which is empty for NVSwitches. Leaves out links to CPUs.
std::map<std::string, unsigned> count_nvlinks(const Nvml& nvml, Nvml::Device device) {
    std::map<std::string, unsigned> counts;
    unsigned active = 0;
    for (unsigned link = 0; link < 64 && nvml.get_state(device, link, &active) == 0; ++link) {
        unsigned type = 0;
        Nvml::Pci peer{};
        if (active == 0 || nvml.get_peer_type(device, link, &type) != 0) {
            continue;
        }
        if (type == Nvml::Switch) {
            ++counts[""];
        } else if (type == Nvml::Gpu && nvml.get_peer(device, link, &peer) == 0) {
            ++counts[format_text("{:04x}:{:02x}:{:02x}.0", peer.domain, peer.bus, peer.device)];
        }
    }
    return counts;
}

struct NvLinks {
    static constexpr std::string_view message_name = "nvlinks";
    std::vector<GpuLink> links;
};

void fields(auto& f, Is<NvLinks> auto& m) {
    constexpr std::size_t most_links = 10'000;
    f("links", m.links, most_links);
}

/// For a child: NVML asks the driver, which hangs where a GPU does.
NvLinks ask_nvml(std::span<const Gpu> gpus) {
    const auto nvml = load_functions<Nvml>("libnvidia-ml.so.1", "", "");
    NvLinks found;
    if (!nvml || nvml->init() != 0) {
        return found;
    }
    for (const auto& gpu : gpus) {
        Nvml::Device device = nullptr;
        if (nvml->find(gpu.pci.c_str(), &device) == 0) {
            for (const auto& [peer, count] : count_nvlinks(*nvml, device)) {
                found.links.push_back({gpu.pci, peer, GpuLink::Kind::NvLink, count});
            }
        }
    }
    return found;
}

} // namespace

std::vector<GpuLink> read_gpu_links(const SysRoot& root, std::span<const Gpu> gpus, std::chrono::milliseconds limit) {
    if (find_by(gpus, &Gpu::vendor, "nvidia") == nullptr) {
        return xgmi_links(root, gpus);
    }
    if (!root.is_live()) {
        return {};
    }
    auto child = ChildValue<NvLinks>::start([gpus] { return ask_nvml(gpus); });
    return child.finish(std::chrono::steady_clock::now() + limit).value_or(NvLinks()).links;
}

} // namespace rdma_nccl
