// SPDX-License-Identifier: Apache-2.0
#include "lib/format.h"
#include "lib/text.h"
#include "lib/traffic.h"

#include <limits>

namespace rdma_nccl {

namespace {

constexpr std::size_t longest_number = 64;

Count read_count(const Root& root, const std::string& path) {
    const auto text = root.read(path, longest_number);
    return text ? parse_number<std::uint64_t>(*text) : std::nullopt;
}

/// Absent when one of the files is, or the sum has no place.
Count read_sum(const Root& root, const CounterFiles& files) {
    std::uint64_t sum = 0;
    for (const auto& path : files.paths) {
        const auto value = read_count(root, path);
        if (!value || *value > std::numeric_limits<std::uint64_t>::max() - sum) {
            return std::nullopt;
        }
        sum += *value;
    }
    return files.paths.empty() ? std::nullopt : Count(sum);
}

} // namespace

TrafficReading read_traffic(const Root& root, const TrafficSources& sources) {
    TrafficReading reading;
    reading.time = std::chrono::steady_clock::now();
    for (const auto& port : sources.ports) {
        reading.ports.push_back({read_sum(root, port.tx), read_sum(root, port.rx)});
    }
    for (const auto& netdev : sources.netdevs) {
        const auto directory = format_text("/sys/class/net/{}/statistics", netdev.name);
        reading.netdevs.push_back(
            {read_count(root, directory + "/tx_bytes"), read_count(root, directory + "/rx_bytes")});
    }
    return reading;
}

} // namespace rdma_nccl
