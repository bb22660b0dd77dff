// SPDX-License-Identifier: Apache-2.0
#include "lib/evidence_plan.h"

#include "lib/format.h"
#include "lib/nccl_name_list.h"
#include "lib/users_nccl.h"

namespace rdma_nccl {

std::vector<std::string> expected_ports(const NodeFacts& facts, const Plan& plan) {
    std::vector<std::string> ports;
    const auto users = users_nccl_value(facts, "NCCL_IB_HCA");
    if (!users || users->empty()) {
        for (const auto* port : plan.fabric.used()) {
            ports.push_back(format_text("{}:{}", port->hca, port->port));
        }
        return ports;
    }
    const NcclNameList list(*users);
    for (const auto& hca : facts.fabric.hcas) {
        for (const auto& port : hca.ports) {
            if (port.state == "ACTIVE" && list.matches(hca.name, port.number)) {
                ports.push_back(format_text("{}:{}", hca.name, port.number));
            }
        }
    }
    return ports;
}

std::vector<std::string> causes_of(const NodeFacts& facts, const Plan& plan) {
    auto causes = judge_users_nccl(facts, plan.fabric);
    if (plan.fabric.used().empty()) {
        causes.insert(causes.end(), plan.fabric.warnings.begin(), plan.fabric.warnings.end());
    }
    const auto limits = judge_limits({facts.limits.memlock_kib, std::nullopt, std::nullopt}, true, 1);
    causes.insert(causes.end(), limits.begin(), limits.end());
    return causes;
}

std::optional<bool> gpu_direct_possible(const Root& root) {
    const bool module = root.exists("/sys/module/nvidia_peermem/version") ||
                        root.exists("/sys/kernel/mm/memory_peers/nv_mem/version") ||
                        root.exists("/sys/kernel/mm/memory_peers/nvidia-peermem/version");
    return module ? std::optional(true) : std::nullopt;
}

} // namespace rdma_nccl
