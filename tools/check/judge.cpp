// SPDX-License-Identifier: Apache-2.0
#include "tools/check/judge.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"

#include <utility>

namespace rdma_nccl::check {

std::string JudgedPort::file(std::string_view file_name) const {
    return format_text("/sys/class/infiniband/{}/ports/{}/{}", hca.name, port.number, file_name);
}

void judge_number(Finding& result, std::size_t found, unsigned expected, std::string_view key, std::string missing) {
    result.expected = format_text("{}", expected);
    if (found != expected) {
        result.set(found < expected ? Status::Fail : Status::Warn,
                   format_text("{}, {} expected", result.message, expected),
                   found < expected ? std::move(missing) : format_text("correct {} in the file of expectations", key));
    }
}

std::vector<JudgedPort> ports_of(const Facts& facts) {
    std::vector<JudgedPort> ports;
    auto choice = facts.choice.ports.begin(); // in the order of the fabric
    for (const auto& hca : facts.fabric.hcas) {
        for (const auto& port : hca.ports) {
            if (choice == facts.choice.ports.end()) {
                return ports;
            }
            const auto index = choice->gid_index;
            const Gid* const gid = index ? find_by(port.gids, &Gid::index, *index) : nullptr;
            const std::string netdev = gid != nullptr                 ? gid->netdev
                                       : index || hca.netdevs.empty() ? ""
                                                                      : hca.netdevs.front();
            ports.push_back({hca, port, *choice++, gid, facts.fabric.find_netdev(netdev)});
        }
    }
    return ports;
}

std::vector<JudgedPort> used_ports_of(const Facts& facts) {
    return selected(ports_of(facts), [](const JudgedPort& port) { return port.choice.used(); });
}

std::vector<const Hca*> used_hcas_of(const Facts& facts) {
    std::vector<const Hca*> hcas;
    for (const auto& port : used_ports_of(facts)) {
        if (hcas.empty() || hcas.back() != &port.hca) {
            hcas.push_back(&port.hca);
        }
    }
    return hcas;
}

Findings judge_node(const Facts& facts, const Expectations& expected) {
    Findings all;
    for (auto* const judge : {judge_devices, judge_ports, judge_ethernet, judge_changes, judge_limits, judge_gpus,
                              judge_pcie, judge_fabric_profile}) {
        judge(facts, expected, all);
    }
    for (auto& result : all) {
        if (expected.ignore.contains(result.id)) {
            result.skip("is ignored, as the file of expectations says");
        } else if (result.status == Status::Fail && expected.warn.contains(result.id)) {
            result.status = Status::Warn;
        }
    }
    return all;
}

void warn_of_the_unexpected(Findings& results, const Expectations& expected) {
    for (auto& result : results) {
        if (result.status == Status::Fail && !expects(expected, result.id)) {
            result.status = Status::Warn;
        }
    }
}

} // namespace rdma_nccl::check
