// SPDX-License-Identifier: Apache-2.0
#include "lib/counters.h"

#include "lib/format.h"
#include "lib/text.h"

#include <algorithm>
#include <optional>

namespace rdma_nccl {

namespace {

/// "mlx5_1/1/port_xmit_data" or "eth0/tx_bytes" to the path of its file.
std::string path_of(const std::string& name) {
    const auto parts = split(name, '/');
    if (parts.size() == 3) {
        return format_text("/sys/class/infiniband/{}/ports/{}/counters/{}", parts[0], parts[1], parts[2]);
    }
    return format_text("/sys/class/net/{}/statistics/{}", parts[0], parts.back());
}

std::optional<std::uint64_t> read_counter(const Root& root, const std::string& name) {
    const auto text = root.read(path_of(name), 64);
    return text ? parse_number<std::uint64_t>(trim(*text)) : std::nullopt;
}

void add(const Root& root, std::vector<CounterReading>& counters, std::string name) {
    if (const auto value = read_counter(root, name)) {
        counters.push_back({std::move(name), *value, *value});
    }
}

} // namespace

std::vector<CounterReading> read_counters(const Root& root, std::span<const std::string> ports,
                                          std::span<const std::string> netdevs) {
    std::vector<CounterReading> counters;
    for (const auto& port : ports) {
        const auto [hca, number] = split_once(port, ':');
        for (const auto* name : {"port_xmit_data", "port_rcv_data"}) {
            add(root, counters, format_text("{}/{}/{}", hca, number.value_or("1"), name));
        }
    }
    for (const auto& netdev : netdevs) {
        for (const auto* name : {"tx_bytes", "rx_bytes"}) {
            add(root, counters, format_text("{}/{}", netdev, name));
        }
    }
    return counters;
}

void read_again(const Root& root, std::vector<CounterReading>& counters) {
    std::erase_if(counters, [&root](CounterReading& counter) {
        const auto value = read_counter(root, counter.name);
        counter.after = value.value_or(0);
        return !value;
    });
}

} // namespace rdma_nccl
