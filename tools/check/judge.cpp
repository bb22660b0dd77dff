// SPDX-License-Identifier: Apache-2.0
#include "tools/check/judge.h"

#include "lib/base/format.h"

#include <algorithm>
#include <utility>

namespace rdma_nccl {

std::string JudgedPort::file(std::string_view file_name) const {
    return format_text("/sys/class/infiniband/{}/ports/{}/{}", hca.name, port.number, file_name);
}

void judge_number(CheckResult& result, std::size_t found, unsigned expected, std::string_view key,
                  std::string missing) {
    result.expected = format_text("{}", expected);
    if (found != expected) {
        result.set(found < expected ? CheckStatus::Fail : CheckStatus::Warn,
                   format_text("{}, {} expected", result.message, expected),
                   found < expected ? std::move(missing) : format_text("correct {} in the file of expectations", key));
    }
}

bool is_gpu_node(const CheckFacts& facts) {
    return !facts.fabric.gpus.empty();
}

std::vector<JudgedPort> ports_of(const CheckFacts& facts) {
    std::vector<JudgedPort> ports;
    auto choice = facts.choice.ports.begin(); // in the order of the fabric
    for (const auto& hca : facts.fabric.hcas) {
        for (const auto& port : hca.ports) {
            if (choice == facts.choice.ports.end()) {
                return ports;
            }
            ports.push_back({hca, port, *choice++});
        }
    }
    return ports;
}

std::vector<JudgedPort> used_ports_of(const CheckFacts& facts) {
    std::vector<JudgedPort> used;
    for (const auto& port : ports_of(facts)) {
        if (port.choice.used()) {
            used.push_back(port);
        }
    }
    return used;
}

std::vector<const Hca*> used_hcas_of(const CheckFacts& facts) {
    std::vector<const Hca*> hcas;
    for (const auto& port : used_ports_of(facts)) {
        if (hcas.empty() || hcas.back() != &port.hca) {
            hcas.push_back(&port.hca);
        }
    }
    return hcas;
}

const Netdev* netdev_of(const CheckFacts& facts, const JudgedPort& port) {
    if (port.choice.gid_index) {
        const auto is_it = [index = *port.choice.gid_index](const Gid& gid) { return gid.index == index; };
        const auto gid = std::find_if(port.port.gids.begin(), port.port.gids.end(), is_it);
        return gid == port.port.gids.end() ? nullptr : facts.fabric.find_netdev(gid->netdev);
    }
    return port.hca.netdevs.empty() ? nullptr : facts.fabric.find_netdev(port.hca.netdevs.front());
}

CheckResults judge_node(const CheckFacts& facts, const Expectations& expected) {
    CheckResults all;
    for (auto& group :
         {judge_devices(facts, expected), judge_verbs(facts), judge_ports(facts, expected), judge_gids(facts),
          judge_ethernet(facts, expected), judge_changes(facts, expected), judge_limits(facts, expected),
          judge_gpus(facts, expected), judge_pcie(facts, expected), judge_isolation(facts)}) {
        all.insert(all.end(), group.begin(), group.end());
    }
    std::erase_if(all, [&](const CheckResult& result) { return expected.ignore.contains(result.id); });
    for (auto& result : all) {
        if (result.status == CheckStatus::Fail && expected.warn.contains(result.id)) {
            result.status = CheckStatus::Warn;
        }
    }
    return all;
}

void warn_of_the_unexpected(CheckResults& results, const Expectations& expected) {
    for (auto& result : results) {
        if (result.status == CheckStatus::Fail && !expects(expected, result.id)) {
            result.status = CheckStatus::Warn;
        }
    }
}

} // namespace rdma_nccl
