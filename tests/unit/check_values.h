// SPDX-License-Identifier: Apache-2.0
// Nodes as plain values, for tests of the checks.
#pragma once

#include "tests/unit/fabric_values.h"
#include "tools/check/judge.h"

#include <algorithm>
#include <string>

namespace rdma_nccl::test {

/// A good node: two RoCE rails beside two GPUs, each below a switch of its own, all links as they should be.
inline check::Facts good_node() {
    check::Facts facts;
    facts.host = "n01";
    facts.live = true;
    facts.root = true;
    for (unsigned i = 0; i < 2; ++i) {
        const auto bridge = "/sys/devices/pci0000:" + std::to_string(10 * (i + 1));
        const auto root_port = "0000:" + std::to_string(10 * (i + 1)) + ":01.0";
        const auto upstream = "0000:" + std::to_string(10 * (i + 1) + 1) + ":00.0";
        const auto downstream = "0000:" + std::to_string(10 * (i + 1) + 2) + ":0";
        const auto place = bridge + "/" + root_port + "/" + upstream + "/";
        const auto hca_address = "0000:" + std::to_string(10 * (i + 1) + 3) + ":00.0";
        const auto gpu_address = "0000:" + std::to_string(10 * (i + 1) + 4) + ":00.0";
        const auto name = "mlx5_" + std::to_string(i + 1);
        auto& hca = add_roce(facts.fabric, name, "eth" + std::to_string(i + 1), "10.0." + std::to_string(i + 1) + ".1",
                             place + downstream + "0.0/" + hca_address);
        hca.device_access = DeviceAccess::Open;
        hca.device_file = "/dev/infiniband/uverbs" + std::to_string(i);
        hca.numa_node = static_cast<int>(i);
        hca.board = "MT_0000000223";
        hca.firmware = "20.35.1012";
        hca.system_image_guid = name;
        facts.fabric.netdevs.back().mtu = 9000;
        Gpu gpu;
        gpu.pci = gpu_address;
        gpu.pci_path = place + downstream + "4.0/" + gpu_address;
        gpu.vendor = "nvidia";
        gpu.numa_node = static_cast<int>(i);
        facts.fabric.gpus.push_back(gpu);
        facts.kernel.nvidia_gpus.insert(gpu.pci);
        for (const auto& [address, path] : {std::pair(root_port, bridge + "/" + root_port),
                                            {upstream, bridge + "/" + root_port + "/" + upstream},
                                            {downstream + "0.0", place + downstream + "0.0"},
                                            {downstream + "4.0", place + downstream + "4.0"},
                                            {hca_address, hca.pci_path},
                                            {gpu_address, gpu.pci_path}}) {
            check::PciFunction function;
            function.path = path;
            function.width = function.max_width = 16;
            function.speed = function.max_speed = 16;
            function.config_known = function.config_extended = true;
            function.relaxed_orders = true;
            function.acs_redirects = false;
            function.iommu_type = "identity";
            facts.pci.emplace(address, function);
        }
        facts.verbs.devices.insert(name);
        facts.sysctls["eth" + std::to_string(i + 1)] = {2, 0, 0};
        facts.now.counts[name + ":1 symbol_error"] = 7;
        facts.now.counts[name + ":1 link_downed"] = 3;
        facts.now.counts[name + ":1 local_ack_timeout_err"] = 1000;
        facts.now.gid_indices[name + ":1"] = 3;
    }
    facts.verbs.asked = true;
    facts.verbs.path = "/usr/lib/libibverbs.so.1";
    facts.kernel.release = "6.1.0";
    facts.kernel.modules_known = facts.kernel.dev_known = facts.kernel.rdma_cm_file = true;
    facts.kernel.modules = {"ib_uverbs", "rdma_ucm"};
    facts.kernel.nvidia_version = "550.54.15";
    facts.kernel.peer_memory = "/sys/module/nvidia_peermem";
    facts.limits.known = facts.limits.shm_known = true;
    facts.limits.whose = "slurmd";
    facts.limits.shm_mib = 1 << 16;
    facts.has_state_file = true;
    facts.now.time_us = 600'000'000;
    facts.before = facts.now;
    facts.before->time_us = 0;
    facts.choice = choose_fabric(facts.fabric, facts.settings);
    return facts;
}

/// After a change of the fabric.
inline void choose_again(check::Facts& facts) {
    facts.choice = choose_fabric(facts.fabric, facts.settings);
}

inline check::Findings of_check(const check::Findings& results, std::string_view id) {
    check::Findings found;
    std::copy_if(results.begin(), results.end(), std::back_inserter(found),
                 [id](const check::Finding& result) { return result.id == id; });
    return found;
}

/// The one result of a check on an item; a result without id when there is none.
inline check::Finding result_of(const check::Facts& facts, std::string_view id, std::string_view item = "",
                                const check::Expectations& expected = {}) {
    for (auto& result : check::judge_node(facts, expected)) {
        if (result.id == id && result.item == item) {
            return result;
        }
    }
    return {};
}

} // namespace rdma_nccl::test
