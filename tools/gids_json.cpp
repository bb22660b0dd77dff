// SPDX-License-Identifier: Apache-2.0
#include "tools/gids_json.h"

#include "lib/fabric_parse.h"
#include "tools/json.h"

#include <nlohmann/json.hpp>

namespace rdma_nccl {

namespace {

using Json = nlohmann::ordered_json;

template<typename Number>
Json or_null(const std::optional<Number>& number) {
    return number ? Json(*number) : Json();
}

Json gid_json(const Port& port, const GidView& view) {
    const auto& gid = view.gid;
    return {{"index", gid.index},
            {"gid", gid_text(gid.value)},
            {"ipv4", gid.value.is_ipv4() ? Json(gid.value.text()) : Json()},
            {"type", gid_type_text(port, gid)},
            {"netdev", json_ascii(gid.netdev)},
            {"used", view.verdict.used()},
            {"rule", rule_name(view.verdict.rule)},
            {"reason", json_ascii(view.verdict.reason)}};
}

Json port_json(const PortView& view) {
    Json gids = Json::array();
    for (const auto& gid : view.gids) {
        gids.push_back(gid_json(view.port, gid));
    }
    return {{"port", view.port.number},
            {"state", json_ascii(view.port.state)},
            {"physical_state", json_ascii(view.port.physical_state)},
            {"link_layer", link_layer_text(view.port.link_layer)},
            {"rate_gbps", view.port.believable_rate_gbps()},
            {"selected", view.choice.used()},
            {"rule", rule_name(view.choice.rule)},
            {"reason", json_ascii(view.choice.reason)},
            {"gid_index", or_null(view.choice.gid_index)},
            {"nccl_alone", or_null(view.choice.nccl_alone)},
            {"nccl_told", or_null(view.choice.nccl_told)},
            {"gids", std::move(gids)}};
}

Json hca_json(const HcaView& view, const FabricChoice& choice) {
    const auto& hca = view.hca;
    Json ports = Json::array();
    for (const auto& port : view.ports) {
        ports.push_back(port_json(port));
    }
    return {{"name", json_ascii(hca.name)},
            {"driver", json_ascii(hca.driver)},
            {"pci", json_ascii(hca.pci)},
            {"numa_node", or_null(hca.numa_node)},
            {"node_type", json_ascii(hca.node_type)},
            {"firmware", json_ascii(hca.firmware)},
            {"board", json_ascii(hca.board)},
            {"physical_function", json_ascii(hca.physical_function)},
            {"device_file", json_ascii(hca.device_file)},
            {"netdevs", texts_json(hca.netdevs)},
            {"selected", choice.uses(hca.name)},
            {"reason", json_ascii(choice.reason_for(hca.name))},
            {"ports", std::move(ports)}};
}

} // namespace

nlohmann::ordered_json gids_json(const std::string& host, const GidsView& view) {
    Json hcas = Json::array();
    for (const auto& hca : view.hcas) {
        hcas.push_back(hca_json(hca, view.choice));
    }
    return {
        {"schema", 1}, {"host", json_ascii(host)}, {"hcas", std::move(hcas)}, {"warnings", texts_json(view.warnings)}};
}

nlohmann::ordered_json gids_json(const std::string& host, const Fabric& fabric, const FabricChoice& choice) {
    return gids_json(host, view_gids(fabric, choice));
}

} // namespace rdma_nccl
