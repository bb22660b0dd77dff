// SPDX-License-Identifier: Apache-2.0
#include "lib/base/json.h"
#include "tools/explain/explain.h"
#include "tools/gids/output.h"
#include "tools/topo/topo.h"

#include <algorithm>
#include <array>

namespace rdma_nccl {

namespace {

Json settings_json(const Settings& settings) {
    auto list = Json::array();
    for (const auto& [key, given] : settings.given) {
        list.push_back({{"key", key}, {"value", given.text}, {"source", given.place}});
    }
    return list;
}

Json step_json(const NodeFacts& facts) {
    const Step& step = facts.step;
    if (step.job_id == 0) {
        return nullptr;
    }
    return {{"job_id", step.job_id},
            {"step_id", step.step_id},
            {"tasks", step.task_count},
            {"nodes", step.nodes},
            {"head_node", facts.head_node.name}};
}

Json netdevs_json(const Fabric& fabric) {
    const auto& defaults = fabric.default_route_netdevs;
    auto list = Json::array();
    for (const auto& netdev : fabric.netdevs) {
        auto addresses = Json::array();
        for (const auto& entry : netdev.addresses) {
            addresses.push_back(entry.address.text() + "/" + std::to_string(entry.prefix_length));
        }
        list.push_back({{"name", netdev.name},
                        {"up", netdev.up},
                        {"speed_gbps", netdev.speed_gbps},
                        {"mtu", netdev.mtu},
                        {"pci", netdev.pci_path.substr(netdev.pci_path.rfind('/') + 1)},
                        {"upper", netdev.upper},
                        {"lowers", netdev.lowers},
                        {"default_route", std::find(defaults.begin(), defaults.end(), netdev.name) != defaults.end()},
                        {"addresses", std::move(addresses)}});
    }
    return list;
}

Json gpus_json(const Fabric& fabric) {
    auto list = Json::array();
    for (const auto& gpu : fabric.gpus) {
        list.push_back({{"pci", gpu.pci}, {"vendor", gpu.vendor}, {"numa_node", gpu.numa_node}, {"uuid", gpu.uuid}});
    }
    return list;
}

Json decisions_json(const NodePlan& node) {
    auto list = Json::array();
    for (const auto& decision : decisions_of(node)) {
        auto rejected = Json::array();
        for (const auto& entry : decision.rejected) {
            rejected.push_back({{"what", entry.what}, {"rule", entry.rule}, {"why", entry.why}});
        }
        list.push_back({{"what", decision.what},
                        {"decision", decision.decision},
                        {"why", decision.why},
                        {"rejected", std::move(rejected)}});
    }
    return list;
}

std::string_view action_name(VariableAction action) {
    constexpr std::array<std::string_view, 4> names = {"set", "keep", "leave", "unset"};
    return names.at(static_cast<std::size_t>(action));
}

Json variables_json(const std::vector<Variable>& variables) {
    auto list = Json::array();
    for (const auto& variable : variables) {
        list.push_back({{"name", variable.name},
                        {"action", action_name(variable.action)},
                        {"value", variable.value},
                        {"source", variable.source},
                        {"why", variable.why}});
    }
    return list;
}

} // namespace

Json explain_json(const NodePlan& node, const std::string& host) {
    const auto& fabric = node.facts.fabric;
    const Json gids = gids_json(host, view_gids(fabric, node.plan.fabric));
    return {{"schema", 1},
            {"host", host},
            {"settings", settings_json(node.settings)},
            {"step", step_json(node.facts)},
            {"fabric", {{"hcas", gids.at("hcas")}, {"netdevs", netdevs_json(fabric)}, {"gpus", gpus_json(fabric)}}},
            {"decisions", decisions_json(node)},
            {"places", places_json(node)},
            {"variables", variables_json(node.variables)},
            {"warnings", node.plan.warnings},
            {"notes", notes_of(node)}};
}

} // namespace rdma_nccl
