// SPDX-License-Identifier: Apache-2.0
#include "lib/base/format.h"
#include "lib/fabric/readers.h"

#include <cerrno>

namespace rdma_nccl {

namespace {

constexpr std::string_view pci_directory = "/sys/bus/pci/devices";
constexpr std::size_t short_file = 64;

/// class is 0xCCSSPP: class, subclass, programming interface. GPUs are 0300 (VGA) and 0302 (3D controller); AMD's
/// compute cards also 0380 (other display controller) and 1200 (processing accelerator).
bool may_be_gpu(std::string_view pci_class) {
    const auto kind = pci_class.substr(0, 6);
    return kind == "0x0300" || kind == "0x0302" || kind == "0x0380" || kind == "0x1200";
}

void read_amd(const SysRoot& root, const std::string& path, Gpu& gpu) {
    if (const auto id = root.read(path + "/unique_id", short_file)) {
        gpu.uuid = "GPU-" + printable(*id, 36); // the name in ROCR_VISIBLE_DEVICES and HIP_VISIBLE_DEVICES
    }
    for (const auto& name : root.list(path + "/drm").value_or(std::vector<std::string>{})) {
        if (name.starts_with("renderD") && parse_number<unsigned>(name.substr(7))) {
            gpu.device_file = "/dev/dri/" + name;
        }
    }
}

std::optional<Gpu> read_gpu(const SysRoot& root, const std::string& address, Notes& notes) {
    const std::string path = format_text("{}/{}", pci_directory, address);
    const auto pci_class = root.read(path + "/class", short_file);
    if (pci_class && !may_be_gpu(*pci_class)) { // most devices are skipped here, after reading one small file
        return std::nullopt;
    }
    const auto function = root.directory(path);
    if (!pci_class || !function) {
        notes.add_unless_absent(pci_class ? function.error() : pci_class.error());
        return std::nullopt;
    }
    Gpu gpu;
    gpu.vendor = gpu_vendor(*pci_class, function->read("vendor", short_file).value_or(""));
    if (gpu.vendor.empty()) {
        return std::nullopt;
    }
    gpu.pci = address;
    gpu.pci_path = root.resolve(path).value_or("");
    gpu.numa_node = read_numa_node(*function);
    gpu.local_cpus = read_local_cpus(*function);
    if (gpu.vendor == "nvidia") {
        const auto text = root.read(format_text("/proc/driver/nvidia/gpus/{}/information", address));
        const auto information = parse_nvidia_information(text.value_or(""));
        gpu.minor = information.minor;
        gpu.uuid = information.uuid;
        gpu.device_file = gpu.minor ? format_text("/dev/nvidia{}", *gpu.minor) : "";
    } else {
        read_amd(root, path, gpu);
    }
    return gpu;
}

/// Returns the address of a KFD node's function. The number of a partition is in the highest bits of location_id, but
/// in the lowest ones of some kernels (6.5), so that only function 0 is on the bus (RCCL 2.21, xml.cc, getPciPath).
std::string address_of_node(std::string_view properties, const std::vector<Gpu>& gpus) {
    const auto location = kfd_number(properties, "location_id");
    const auto card = format_text("{:04x}:{:02x}:{:02x}.", kfd_number(properties, "domain"), location >> 8U & 0xffU,
                                  location >> 3U & 0x1fU);
    auto address = format_text("{}{:x}", card, location & 7U);
    return find_by(gpus, &Gpu::pci, address) != nullptr ? address : card + "0";
}

/// Reads the GPU of a KFD node; nullopt for a node without compute units, as a CPU's.
std::optional<Gpu> read_kfd_gpu(const SysRoot& root, const std::string& node, const std::vector<Gpu>& gpus) {
    const auto properties = root.read(format_text("{}/{}/properties", kfd_nodes, node)).value_or("");
    if (kfd_number(properties, "simd_count") == 0) {
        return std::nullopt;
    }
    const auto address = address_of_node(properties, gpus);
    const auto* const on_bus = find_by(gpus, &Gpu::pci, address);
    Gpu gpu = on_bus == nullptr ? Gpu() : *on_bus;
    gpu.pci = address;
    gpu.vendor = "amd";
    gpu.kfd_node = parse_number<unsigned>(node);
    if (const auto minor = kfd_number(properties, "drm_render_minor"); minor != 0) {
        gpu.device_file = format_text("/dev/dri/renderD{}", minor); // each partition has its own
    }
    if (const auto unique = kfd_number(properties, "unique_id"); unique != 0) {
        gpu.uuid = format_text("GPU-{:016x}", unique);
    }
    return gpu;
}

/// Puts AMD's GPUs in the order of KFD's nodes, in which ROCr and with it HIP count them, each partition for itself
/// (ROCr 6.4, amd_topology.cpp, BuildTopology; clr 6.2, rocdevice.cpp, Device::init). Leaves out GPUs without a node:
/// HIP cannot use them. If the kernel refuses to read a node, as it does without the right to the GPU's device file,
/// GPUs without a node are hidden ones. Changes nothing if KFD knows no GPU.
void number_by_kfd(const SysRoot& root, std::vector<Gpu>& gpus, Notes& notes) {
    std::vector<Gpu> known;
    bool all_readable = true;
    for (const auto& node : root.list(kfd_nodes).value_or(std::vector<std::string>{})) {
        const auto id = root.read(format_text("{}/{}/gpu_id", kfd_nodes, node), short_file);
        all_readable = all_readable && id;
        if (auto gpu = read_kfd_gpu(root, node, gpus); gpu && id.value_or("0") != "0") {
            known.push_back(std::move(*gpu));
        }
    }
    if (known.empty() && all_readable) {
        return;
    }
    for (auto& gpu : gpus) {
        gpu.hidden = gpu.vendor == "amd" && find_by(known, &Gpu::pci, gpu.pci) == nullptr;
        if (gpu.hidden && all_readable) {
            notes.add(format_text("{} (AMD) is left out: amdkfd does not list it, so HIP cannot use it", gpu.pci));
        }
    }
    std::erase_if(gpus,
                  [all_readable](const Gpu& gpu) { return gpu.vendor == "amd" && (all_readable || !gpu.hidden); });
    append(known, std::move(gpus));
    gpus = std::move(known);
}

} // namespace

std::vector<std::string> keep_one_vendor(std::vector<Gpu>& gpus) {
    const auto nvidia = static_cast<std::size_t>(std::ranges::count(gpus, "nvidia", &Gpu::vendor));
    const std::string_view vendor = 2 * nvidia >= gpus.size() ? "nvidia" : "amd";
    const auto others = selected(gpus, [vendor](const Gpu& gpu) { return gpu.vendor != vendor; });
    std::erase_if(gpus, [vendor](const Gpu& gpu) { return gpu.vendor != vendor; });
    return mapped(others, [vendor](const Gpu& gpu) {
        return format_text("{} ({}) is left out: ranks use {}'s", gpu.pci, gpu.vendor == "amd" ? "AMD" : "NVIDIA",
                           vendor == "amd" ? "AMD" : "NVIDIA");
    });
}

std::uint64_t kfd_number(std::string_view properties, std::string_view name) {
    for (const auto line : split(properties, '\n')) {
        if (const auto [key, value] = split_once(line, ' '); key == name) {
            return parse_number<std::uint64_t>(trim(value.value_or(""))).value_or(0);
        }
    }
    return 0;
}

std::string gpu_vendor(std::string_view pci_class, std::string_view vendor) {
    if (!may_be_gpu(pci_class)) {
        return "";
    }
    return vendor == "0x10de" ? "nvidia" : vendor == "0x1002" ? "amd" : "";
}

std::string find_peer_memory(const SysRoot& root) {
    for (const std::string_view path :
         {"/sys/module/nvidia_peermem", "/sys/module/nv_peer_mem", "/sys/kernel/mm/memory_peers/nv_mem/version",
          "/sys/kernel/mm/memory_peers/nv_mem_nc/version", "/sys/kernel/mm/memory_peers/nvidia-peermem/version",
          "/sys/kernel/mm/memory_peers/amdkfd/version"}) {
        if (root.exists(path)) {
            return std::string(path);
        }
    }
    return {};
}

NvidiaInformation parse_nvidia_information(std::string_view text) {
    NvidiaInformation information;
    for (const auto line : split(text, '\n')) {
        const auto [key, value] = split_once(line, ':');
        if (trim(key) == "Device Minor") {
            information.minor = parse_number<unsigned>(trim(value.value_or("")));
        } else if (trim(key) == "GPU UUID" && trim(value.value_or("")).starts_with("GPU-") &&
                   value->find('?') == std::string_view::npos) { // "GPU-????????-...": the driver does not know it
            information.uuid = printable(trim(*value), 40);
        }
    }
    return information;
}

std::vector<Gpu> read_gpus(const SysRoot& root, Notes& notes) {
    const auto addresses = root.list(pci_directory);
    if (!addresses) {
        if (addresses.error().os_error != ENOENT) {
            notes.add(addresses.error().message);
        }
        return {};
    }
    std::vector<Gpu> gpus; // the names are hex digits of equal length, so the list is in PCI order
    for (const auto& address : *addresses) {
        if (!is_pci_address(address)) {
            continue;
        }
        if (auto gpu = read_gpu(root, address, notes)) {
            gpus.push_back(std::move(*gpu));
        }
    }
    number_by_kfd(root, gpus, notes);
    for (auto& note : keep_one_vendor(gpus)) {
        notes.add(std::move(note));
    }
    // NVIDIA's driver lists the GPUs that it drives; a container shows those that it was given.
    const bool listed = std::ranges::any_of(gpus, [](const Gpu& gpu) { return gpu.minor.has_value(); });
    for (auto& gpu : gpus) {
        gpu.hidden = gpu.hidden || (listed && !gpu.minor);
    }
    return gpus;
}

} // namespace rdma_nccl
