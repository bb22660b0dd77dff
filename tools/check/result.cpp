// SPDX-License-Identifier: Apache-2.0
#include "tools/check/result.h"

#include <algorithm>
#include <array>
#include <tuple>

namespace rdma_nccl::check {

namespace {

constexpr std::array names = {
    CheckName{"check", "the check itself: what it expects could be read, and it ended in time"},
    CheckName{"hca.count", "RDMA devices (HCAs) on the node"},
    CheckName{"hca.answers", "the driver of each HCA answers"},
    CheckName{"hca.firmware", "HCAs of one model have the same firmware"},
    CheckName{"modules", "the kernel modules that RDMA programs need"},
    CheckName{"device.file", "/dev/infiniband/uverbsN of each HCA can be opened"},
    CheckName{"verbs.library", "libibverbs.so.1 can be loaded by this process"},
    CheckName{"verbs.provider", "libibverbs finds a provider library for each HCA"},
    CheckName{"port.count", "HCA ports that NCCL would use"},
    CheckName{"port.state", "each port that should carry traffic is ACTIVE"},
    CheckName{"port.rate", "the rate of each used port"},
    CheckName{"port.pkey", "each used InfiniBand port is a full member of a partition"},
    CheckName{"link.layer", "InfiniBand or RoCE, as expected"},
    CheckName{"gid.usable", "each RoCE port that is up has a GID to use"},
    CheckName{"gid.index", "the GID in use has the same index as at the last check"},
    CheckName{"mtu", "MTU of the interfaces of used RoCE ports"},
    CheckName{"roce.ecn", "ECN on the interfaces of used RoCE ports, where the driver shows it"},
    CheckName{"roce.traffic_class", "traffic class that the site wants, where the driver shows it"},
    CheckName{"rp_filter", "reverse path filter of used interfaces that share a network"},
    CheckName{"arp", "ARP settings of used interfaces that share a network"},
    CheckName{"link.flaps", "no link went down since the last check"},
    CheckName{"port.errors", "no link errors since the last check"},
    CheckName{"port.timeouts", "no retransmissions for want of an answer since the last check"},
    CheckName{"memlock", "locked memory that a step may have"},
    CheckName{"limits.nofile", "open files that a step may have"},
    CheckName{"shm", "free memory in /dev/shm"},
    CheckName{"gpu.count", "GPUs on the node that their driver knows"},
    CheckName{"gpu.hca", "each GPU has a used HCA on its NUMA node"},
    CheckName{"gpu.fabric", "each GPU behind NVSwitches has joined their fabric, which is healthy"},
    CheckName{"gpu.imex", "an IMEX channel, where NVLink connects GPUs of several nodes"},
    CheckName{"gdr", "GPUDirect RDMA: peer memory module or DMA-BUF"},
    CheckName{"pcie.width", "PCIe lanes of HCAs and GPUs, and of the links above HCAs"},
    CheckName{"pcie.speed", "PCIe speed of HCAs and of the links above them"},
    CheckName{"pcie.bandwidth", "PCIe carries the rate of the ports behind it"},
    CheckName{"pcie.relaxed_ordering", "HCAs may use relaxed ordering"},
    CheckName{"pci.acs", "PCIe switches between GPUs and HCAs do not redirect peer to peer traffic"},
    CheckName{"iommu", "the IOMMU does not translate for GPUs and HCAs"},
    CheckName{"fabric.profile", "the fabric profile of this kind of machine, and files of profiles that are ignored"},
};

} // namespace

std::string_view name_of(Status status) {
    constexpr std::array<std::string_view, 5> texts = {"PASS", "WARN", "FAIL", "SKIP", "ERROR"};
    return texts.at(static_cast<std::size_t>(status));
}

std::string_view name_of(NodeStatus status) {
    constexpr std::array<std::string_view, 4> texts = {"OK", "WARNING", "CRITICAL", "UNKNOWN"};
    return texts.at(static_cast<std::size_t>(status));
}

Finding& Finding::set(Status new_status, std::string new_message, std::string new_hint) {
    status = new_status;
    message = std::move(new_message);
    hint = std::move(new_hint);
    return *this;
}

std::size_t count(std::span<const Finding> results, Status status) {
    return static_cast<std::size_t>(std::ranges::count(results, status, &Finding::status));
}

NodeStatus overall(std::span<const Finding> results) {
    if (count(results, Status::Fail) > 0) {
        return NodeStatus::Critical;
    }
    if (count(results, Status::Error) > 0) {
        return NodeStatus::Unknown;
    }
    return count(results, Status::Warn) > 0 ? NodeStatus::Warning : NodeStatus::Ok;
}

std::span<const CheckName> check_names() {
    return names;
}

Findings grouped(std::span<const Finding> results) {
    const auto key = [](const Finding& r) { return std::tie(r.id, r.status, r.message, r.expected, r.hint); };
    Findings groups;
    for (const auto& result : results) {
        const auto same = std::ranges::find(groups, key(result), key);
        if (same == groups.end()) {
            groups.push_back(result);
        } else if (!result.item.empty()) {
            same->item += (same->item.empty() ? "" : ", ") + result.item;
        }
    }
    return groups;
}

} // namespace rdma_nccl::check
