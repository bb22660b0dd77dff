// SPDX-License-Identifier: Apache-2.0
#include "lib/base/lists.h"
#include "lib/base/report_fields.h"
#include "tools/common/wall_time.h"
#include "tools/top/top.h"

namespace rdma_nccl {

static void fields(auto& f, Row<TopProcess> /*row*/) {
    f("pid", "0: the kernel, or a process outside of our pid namespace", &TopProcess::pid);
    f("name", "of the command, or of the kernel's user", &TopProcess::name);
    f("step", "empty outside of Slurm", &TopProcess::step);
    f("kernel", "they are the kernel's", [](const TopProcess& p) { return p.pid == 0 && !p.name.empty(); });
    f("queue_pairs", "", &TopProcess::queue_pairs);
}

namespace {

Json bytes_json(const Bytes& bytes, const TopSample& sample) {
    return {{"tx_bytes", bytes.tx},
            {"rx_bytes", bytes.rx},
            {"tx_gbps", sample.gbps(bytes.tx)},
            {"rx_gbps", sample.gbps(bytes.rx)},
            {"at_least", bytes.at_least}};
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
    json["processes"] = report_json(port.processes);
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
    const bool moved = sample.rdma.most() + sample.sockets.most() > 0;
    const Json json{
        {"schema", 1},
        {"host", sample.host},
        {"time", wall_time_text(sample.time_us)},
        {"seconds", sample.seconds},
        {"rdma", bytes_json(sample.rdma, sample)},
        {"sockets", bytes_json(sample.sockets, sample)},
        {"rdma_share", moved ? Json(sample.share(sample.rdma)) : Json()},
        {"estimate", sample.estimate},
        {"ports", mapped(sample.ports, [&](const TopPort& port) { return port_json(port, sample); })},
        {"netdevs", mapped(sample.netdevs, [&](const TopNetdev& netdev) { return netdev_json(netdev, sample); })},
        {"processes_known", sample.processes_known},
        {"processes_problem", sample.processes_problem},
        {"problems", sample.problems}};
    return json.dump();
}

} // namespace rdma_nccl
