// SPDX-License-Identifier: Apache-2.0
// Reports of nodes as tests of the exchange need them.
#pragma once

#include "lib/exchange/messages.h"

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace rdma_nccl::test {

inline IpAddress ip(std::string_view text) {
    return IpAddress::parse(text).value();
}

inline InterfaceAddress ip(std::string_view text, unsigned prefix_length) {
    return {ip(text), prefix_length};
}

/// A RoCE port of 100 Gb/s.
inline ReportedPort roce_port(std::string hca, const InterfaceAddress& address) {
    return {std::move(hca), 1, LinkLayer::Ethernet, 100, 9000, RoceVersion::V2, address};
}

inline ReportedAddress fabric_address(std::string netdev, const InterfaceAddress& address) {
    return {std::move(netdev), address, true};
}

inline ReportedAddress other_address(std::string netdev, const InterfaceAddress& address) {
    return {std::move(netdev), address, false};
}

/// One task and no fabric: n01 for 0, n02 for 1.
inline NodeReport plain_report(unsigned index) {
    NodeReport report;
    report.node = (index < 9 ? "n0" : "n") + std::to_string(index + 1);
    report.job_id = 7;
    report.first_task = index;
    return report;
}

/// Two ports and their addresses on two networks; the head's block, and the listener of its connection test.
inline NodeReport fabric_report(unsigned index, std::uint16_t listener = 29400) {
    NodeReport report = plain_report(index);
    report.gpus = 8;
    report.hcas = 2;
    report.active_ports = 2;
    report.fabric = "2 HCA ports (mlx5_0, mlx5_1), GID index 3";
    for (unsigned rail = 0; rail < 2; ++rail) {
        const auto address = ip("10." + std::to_string(rail + 1) + ".0." + std::to_string(index + 1), 24);
        report.ports.push_back(roce_port("mlx5_" + std::to_string(rail), address));
        report.addresses.push_back(fabric_address("eth" + std::to_string(rail), address));
    }
    if (index == 0) {
        report.block = PortBlock{29400, 29401, "derived", "of job 7", {}};
        report.listener = listener;
    }
    return report;
}

/// What srun sent.
template<typename Message>
Message from_server(std::string_view text) {
    auto message = read_server_message(text);
    if (!message) {
        throw std::runtime_error(message.error().message);
    }
    return std::get<Message>(std::move(*message));
}

} // namespace rdma_nccl::test
