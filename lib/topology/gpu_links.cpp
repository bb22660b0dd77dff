// SPDX-License-Identifier: Apache-2.0
#include "lib/topology/gpu_links.h"

#include "lib/base/dynamic_symbols.h"
#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "lib/fabric/readers.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <sys/prctl.h>
#include <unistd.h>

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

using NvmlDevice = void*;

/// Calls `take` for each GPU that NVML knows, in a child: NVML asks the driver, which hangs where a GPU does. The child
/// does not outlive the thread that calls.
/// `Functions`: what is needed of NVML, which the driver brings, for load_functions(): drivers differ in what they
/// have. All are in plain types, which are the same to a sanitizer in both libraries, and return 0 for success.
/// `Found`: a message; empty where there is no such NVML.
template<typename Functions, typename Found>
ChildValue<Found> ask_nvml(std::span<const Gpu> gpus,
                           void (*take)(const Functions&, NvmlDevice, const std::string& pci, Found&)) {
    return ChildValue<Found>::start([gpus, take, parent = ::getpid()] {
        Found found;
        (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (::getppid() != parent) {
            return found;
        }
        auto nvml = load_functions<Functions>("libnvidia-ml.so.1", "", "");
        if (!nvml) {
            return found;
        }
        int (*const init)() = nvml->symbols.get("nvmlInit_v2");
        int (*const find)(const char*, NvmlDevice*) = nvml->symbols.get("nvmlDeviceGetHandleByPciBusId_v2");
        if (!nvml->symbols.missing().empty() || init() != 0) {
            return found;
        }
        for (const auto& gpu : gpus) {
            NvmlDevice device = nullptr;
            if (find(gpu.pci.c_str(), &device) == 0) {
                take(*nvml, device, gpu.pci, found);
            }
        }
        return found;
    });
}

struct LinkFunctions { // of nvml.h of CUDA 11.8
    struct Pci {       // nvmlPciInfo_t
        std::array<char, 16> legacy_id;
        unsigned domain, bus, device, ids, subsystem_ids;
        std::array<char, 32> id;
    };
    enum Peer : unsigned { Gpu, Cpu, Switch }; // nvmlIntNvLinkDeviceType_t

    Symbols symbols;
    int (*get_state)(NvmlDevice, unsigned, unsigned*) = symbols.get("nvmlDeviceGetNvLinkState");
    int (*get_peer_type)(NvmlDevice, unsigned, unsigned*) = symbols.get("nvmlDeviceGetNvLinkRemoteDeviceType");
    int (*get_peer)(NvmlDevice, unsigned, void* pci) = symbols.get("nvmlDeviceGetNvLinkRemotePciInfo_v2");
};

struct FabricFunctions { // of nvml.h of CUDA 12.4; drivers from 550 on have it
    struct Info {        // nvmlGpuFabricInfo_v2_t
        unsigned version = 2U << 24U | sizeof(Info);
        std::array<unsigned char, 16> domain{};
        int status = 0;
        unsigned clique = 0;
        unsigned char state = 0;
        unsigned health = 0;
    };

    Symbols symbols;
    int (*get_fabric)(NvmlDevice, void* info) = symbols.get("nvmlDeviceGetGpuFabricInfoV");
};

/// Counts a GPU's active links by the peer's address, which is empty for NVSwitches. Leaves out links to CPUs.
std::map<std::string, unsigned> count_nvlinks(const LinkFunctions& nvml, NvmlDevice device) {
    std::map<std::string, unsigned> counts;
    unsigned active = 0;
    for (unsigned link = 0; link < 64 && nvml.get_state(device, link, &active) == 0; ++link) {
        unsigned type = 0;
        LinkFunctions::Pci peer{};
        if (active == 0 || nvml.get_peer_type(device, link, &type) != 0) {
            continue;
        }
        if (type == LinkFunctions::Switch) {
            ++counts[""];
        } else if (type == LinkFunctions::Gpu && nvml.get_peer(device, link, &peer) == 0) {
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

void add_links(const LinkFunctions& nvml, NvmlDevice device, const std::string& pci, NvLinks& found) {
    for (const auto& [peer, count] : count_nvlinks(nvml, device)) {
        found.links.push_back({pci, peer, GpuLink::Kind::NvLink, count});
    }
}

void add_fabric(const FabricFunctions& nvml, NvmlDevice device, const std::string& pci, GpuFabrics& found) {
    constexpr int not_supported = 3; // NVML_ERROR_NOT_SUPPORTED: this GPU has no fabric
    FabricFunctions::Info info;
    const int error = nvml.get_fabric(device, &info);
    found.has_answered = found.has_answered || error == 0 || error == not_supported;
    if (error != 0 || info.state == 0 || info.state > static_cast<unsigned>(GpuFabric::State::Joined)) {
        return;
    }
    std::string domain;
    if (std::ranges::any_of(info.domain, [](unsigned char byte) { return byte != 0; })) {
        for (const auto byte : info.domain) {
            domain += format_text("{:02x}", byte);
        }
    }
    found.gpus.push_back({pci, std::move(domain), info.clique, static_cast<GpuFabric::State>(info.state),
                          static_cast<unsigned>(info.status), info.health});
}

} // namespace

std::vector<GpuLink> read_gpu_links(const SysRoot& root, std::span<const Gpu> gpus, std::chrono::milliseconds limit) {
    if (find_by(gpus, &Gpu::vendor, "nvidia") == nullptr) {
        return xgmi_links(root, gpus);
    }
    if (!root.is_live()) {
        return {};
    }
    return ask_nvml(gpus, add_links).finish(std::chrono::steady_clock::now() + limit).value_or(NvLinks()).links;
}

ChildValue<GpuFabrics> ask_gpu_fabrics(std::span<const Gpu> gpus) {
    return ask_nvml(gpus, add_fabric);
}

std::optional<std::vector<GpuFabric>> read_gpu_fabrics(std::span<const Gpu> gpus, std::chrono::milliseconds limit) {
    auto found = ask_gpu_fabrics(gpus).finish(std::chrono::steady_clock::now() + limit);
    return found ? std::optional(std::move(found->gpus)) : std::nullopt;
}

std::string clique_of(const GpuFabric& gpu) {
    const bool has_joined = gpu.state == GpuFabric::State::Joined && gpu.error == 0;
    return has_joined && !gpu.domain.empty() ? format_text("clique {} of NVLink domain {}", gpu.clique, gpu.domain)
                                             : "";
}

std::string cliques_of(std::span<const GpuFabric> gpus) {
    std::set<std::string> cliques;
    for (const auto& gpu : gpus) {
        cliques.insert(clique_of(gpu));
    }
    cliques.erase("");
    return joined(cliques);
}

bool has_imex_channel(const SysRoot& root) {
    const auto names = root.list("/dev/nvidia-caps-imex-channels").value_or(std::vector<std::string>{});
    return std::ranges::any_of(names, [](const std::string& name) { return name.starts_with("channel"); });
}

bool may_cross_nodes(const std::optional<GpuFabrics>& answer) {
    return !answer || !answer->has_answered ||
           std::ranges::any_of(answer->gpus, [](const GpuFabric& gpu) { return !clique_of(gpu).empty(); });
}

} // namespace rdma_nccl
