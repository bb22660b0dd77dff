// SPDX-License-Identifier: Apache-2.0
#include "lib/base/json.h"
#include "tools/common/wall_time.h"
#include "tools/top/sample.h"

namespace rdma_nccl {

namespace {

Json bytes_json(const Bytes& bytes, const TopSample& sample) {
    return {{"tx_bytes", bytes.tx},
            {"rx_bytes", bytes.rx},
            {"tx_gbps", sample.gbps(bytes.tx)},
            {"rx_gbps", sample.gbps(bytes.rx)},
            {"at_least", bytes.at_least}};
}

Json processes_json(const std::vector<TopProcess>& processes) {
    auto list = Json::array();
    for (const auto& process : processes) {
        list.push_back({{"pid", process.pid},
                        {"name", process.name},
                        {"step", process.step},
                        {"kernel", process.pid == 0 && !process.name.empty()},
                        {"queue_pairs", process.queue_pairs}});
    }
    return list;
}

Json rate_json(double gbps) {
    return gbps > 0 ? Json(gbps) : Json();
}

Json port_json(const TopPort& port, const TopSample& sample) {
    Json json{{"port", port.traffic.port},
              {"netdev", port.netdev},
              {"state", port.state},
              {"rate_gbps", rate_json(port.rate_gbps)},
              {"expected", port.traffic.expected},
              {"source", name_of(port.traffic.source)}};
    json.update(bytes_json(port.traffic.bytes, sample));
    json["problem"] = port.traffic.problem;
    json["processes"] = processes_json(port.processes);
    return json;
}

std::string_view name_of(NetdevRole role) {
    return role == NetdevRole::Plain ? "plain" : role == NetdevRole::Ipoib ? "ipoib" : "includes rdma";
}

Json netdev_json(const TopNetdev& netdev, const TopSample& sample) {
    Json json{{"netdev", netdev.traffic.netdev},
              {"role", name_of(netdev.traffic.role)},
              {"port", netdev.port},
              {"rate_gbps", rate_json(netdev.rate_gbps)}};
    json.update(bytes_json(netdev.traffic.bytes, sample));
    json["problem"] = netdev.traffic.problem;
    return json;
}

} // namespace

std::string top_json(const TopSample& sample) {
    auto ports = Json::array();
    for (const auto& port : sample.ports) {
        ports.push_back(port_json(port, sample));
    }
    auto netdevs = Json::array();
    for (const auto& netdev : sample.netdevs) {
        netdevs.push_back(netdev_json(netdev, sample));
    }
    const bool moved = sample.rdma.most() + sample.sockets.most() > 0;
    Json json{{"schema", 1},
              {"host", sample.host},
              {"time", wall_time_text(sample.time_us)},
              {"seconds", sample.seconds},
              {"rdma", bytes_json(sample.rdma, sample)},
              {"sockets", bytes_json(sample.sockets, sample)},
              {"rdma_share", moved ? Json(sample.share(sample.rdma)) : Json()},
              {"estimate", sample.estimate},
              {"ports", std::move(ports)},
              {"netdevs", std::move(netdevs)},
              {"processes_known", sample.processes_known},
              {"processes_problem", sample.processes_problem},
              {"problems", sample.problems}};
    return json.dump();
}

} // namespace rdma_nccl
