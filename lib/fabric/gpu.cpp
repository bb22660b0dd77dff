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

std::optional<Gpu> read_gpu(const SysRoot& root, const std::string& address) {
    const std::string path = format_text("{}/{}", pci_directory, address);
    const auto pci_class = root.read(path + "/class", short_file);
    if (!pci_class || !may_be_gpu(*pci_class)) { // most devices are skipped here, after reading one small file
        return std::nullopt;
    }
    const auto function = root.directory(path);
    if (!function) {
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

} // namespace

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
        } else if (trim(key) == "GPU UUID" && trim(value.value_or("")).starts_with("GPU-")) {
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
        if (auto gpu = read_gpu(root, address)) {
            gpus.push_back(std::move(*gpu));
        }
    }
    return gpus;
}

} // namespace rdma_nccl
