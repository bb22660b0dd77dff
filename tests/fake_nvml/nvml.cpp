// SPDX-License-Identifier: Apache-2.0
// A part of NVML's interface (nvml.h of CUDA 12.4) over fixed values: two GPUs with NVLinks to each other, two at
// NVSwitches, of which one is in a fabric of several nodes, one that hangs, one of whose fabric nothing is known, and
// one that can have none.
#include <array>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <unistd.h>

namespace {

constexpr int success = 0;
constexpr int invalid_argument = 2;
constexpr int not_supported = 3;
constexpr int not_found = 6;
constexpr int unknown = 999;
constexpr int version_mismatch = 25;

enum Peer : unsigned { PeerGpu, PeerCpu, PeerSwitch };

struct Link {
    unsigned active;
    Peer peer;
    unsigned bus; // of a GPU
};

struct Device {
    std::string_view address;
    std::array<Link, 4> links;
};

constexpr std::array<Device, 6> devices = {{
    {"0000:1b:00.0", {{{1, PeerGpu, 0x43}, {1, PeerGpu, 0x43}, {0, PeerGpu, 0x43}, {1, PeerCpu, 0}}}},
    {"0000:43:00.0", {{{1, PeerGpu, 0x1b}, {1, PeerGpu, 0x1b}, {0, PeerGpu, 0x1b}, {1, PeerCpu, 0}}}},
    {"0000:52:00.0", {{{1, PeerSwitch, 0}, {1, PeerSwitch, 0}, {1, PeerSwitch, 0}, {1, PeerSwitch, 0}}}},
    {"0000:9d:00.0", {{{1, PeerSwitch, 0}, {1, PeerSwitch, 0}, {1, PeerSwitch, 0}, {0, PeerSwitch, 0}}}},
    {"0000:c1:00.0", {}},
    {"0000:c2:00.0", {}},
}};
constexpr std::string_view hanging = "0000:ff:00.0";

struct PciInfo {
    std::array<char, 16> legacy_id;
    unsigned domain, bus, device, ids, subsystem_ids;
    std::array<char, 32> id;
};

struct FabricInfo { // nvmlGpuFabricInfo_v2_t
    unsigned version;
    std::array<unsigned char, 16> domain;
    int status;
    unsigned clique;
    unsigned char state;
    unsigned health;
};

} // namespace

extern "C" {

int nvmlInit_v2();
int nvmlDeviceGetHandleByPciBusId_v2(const char* address, void** device);
int nvmlDeviceGetNvLinkState(void* device, unsigned link, unsigned* active);
int nvmlDeviceGetNvLinkRemoteDeviceType(void* device, unsigned link, unsigned* type);
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void* device, unsigned link, void* info);
int nvmlDeviceGetGpuFabricInfoV(void* device, void* info);

int nvmlInit_v2() {
    return success;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char* address, void** device) {
    while (address == hanging) {
        ::pause();
    }
    for (const auto& each : devices) {
        if (each.address == address) {
            *device = const_cast<Device*>(&each);
            return success;
        }
    }
    return not_found;
}

int nvmlDeviceGetNvLinkState(void* device, unsigned link, unsigned* active) {
    const auto& links = static_cast<const Device*>(device)->links;
    if (link >= links.size()) {
        return invalid_argument;
    }
    *active = links.at(link).active;
    return success;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(void* device, unsigned link, unsigned* type) {
    *type = static_cast<const Device*>(device)->links.at(link).peer;
    return success;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(void* device, unsigned link, void* info) {
    PciInfo found{};
    found.bus = static_cast<const Device*>(device)->links.at(link).bus;
    std::memcpy(info, &found, sizeof found);
    return success;
}

int nvmlDeviceGetGpuFabricInfoV(void* device, void* info) {
    FabricInfo found{};
    std::memcpy(&found.version, info, sizeof found.version);
    if (found.version != 0x02000024) {
        return version_mismatch;
    }
    if (static_cast<const Device*>(device)->address == "0000:c1:00.0") {
        return unknown;
    }
    if (static_cast<const Device*>(device)->address == "0000:c2:00.0") {
        return not_supported;
    }
    const bool is_beyond = static_cast<const Device*>(device)->address == "0000:9d:00.0";
    const bool has_switch = static_cast<const Device*>(device)->links.front().peer == PeerSwitch;
    if (is_beyond) {
        found.domain = {0x5a, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
        found.clique = 7;
        found.health = 0xaa;
    }
    found.status = is_beyond ? success : 15; // counts only when the GPU has joined
    found.state = is_beyond ? 3 : has_switch ? 2 : 0;
    std::memcpy(info, &found, sizeof found);
    return success;
}

} // extern "C"
