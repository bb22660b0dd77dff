// SPDX-License-Identifier: Apache-2.0
#include "lib/plan/ports_in_use.h"

#include "lib/plan/nccl_overrides.h"

#include <algorithm>
#include <optional>

namespace rdma_nccl {

bool nccl_opens(const Port& port) {
    return port.state == "ACTIVE" && port.link_layer != LinkLayer::Unknown;
}

std::vector<PortInUse> ports_in_use(const NodeFacts& facts, const FabricChoice& choice) {
    const auto value = nccl_override(facts, "NCCL_IB_HCA");
    const auto list = value ? std::optional(NcclNameList(*value)) : std::nullopt;
    const auto chosen = choice.used();
    const auto is_chosen = [&](const Hca& hca, const Port& port) {
        return std::ranges::any_of(
            chosen, [&](const PortChoice* one) { return one->hca == hca.name && one->port == port.number; });
    };
    std::vector<PortInUse> ports;
    for (const auto& hca : facts.fabric.hcas) {
        for (const auto& port : hca.ports) {
            if (list ? nccl_opens(port) && list->matches(hca.name, port.number) : is_chosen(hca, port)) {
                ports.push_back({&hca, &port});
            }
        }
    }
    return ports;
}

std::vector<std::string> names_of(const std::vector<PortInUse>& ports) {
    std::vector<std::string> names;
    for (const auto& port : ports) {
        names.push_back(port.name());
    }
    return names;
}

} // namespace rdma_nccl
