// SPDX-License-Identifier: Apache-2.0
#include "lib/base/json.h"
#include "lib/base/report_fields.h"
#include "tools/explain/explain.h"
#include "tools/gids/gids.h"
#include "tools/topo/topo.h"

#include <algorithm>
#include <array>

namespace rdma_nccl {

static void fields(auto& f, Row<Rejected> /*row*/) {
    f("what", "a port or a GID", &Rejected::what);
    f("rule", "its name", &Rejected::rule);
    f("why", "in words", &Rejected::why);
}

static void fields(auto& f, Row<Explanation> /*row*/) {
    f("what", "is decided", &Explanation::what);
    f("decision", "", &Explanation::decision);
    f("why", "in words", &Explanation::why);
    f("rejected", "", &Explanation::rejected);
}

static void fields(auto& f, Row<Variable> /*row*/) {
    constexpr std::array<std::string_view, 4> actions = {"set", "keep", "leave", "unset"};
    f("name", "", &Variable::name);
    f("action", "", [actions](const Variable& v) { return actions.at(static_cast<std::size_t>(v.action)); });
    f("value", "", &Variable::value);
    f("source", "", &Variable::source);
    f("why", "in words", &Variable::why);
}

static void fields(auto& f, Row<Gpu> /*row*/) {
    f("pci", "0000:53:00.0", &Gpu::pci);
    f("vendor", "nvidia or amd", &Gpu::vendor);
    f("numa_node", "null: not known", &Gpu::numa_node);
    f("uuid", "empty: not known", &Gpu::uuid);
}

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
                        {"default_route", std::ranges::count(fabric.default_route_netdevs, netdev.name) > 0},
                        {"addresses", std::move(addresses)}});
    }
    return list;
}

} // namespace

Json explain_json(const NodePlan& node, const std::string& host) {
    const auto& fabric = node.facts.fabric;
    const Json gids = gids_json(host, view_gids(fabric, node.plan.fabric));
    return {
        {"schema", 1},
        {"host", host},
        {"settings", settings_json(node.settings)},
        {"step", step_json(node.facts)},
        {"fabric", {{"hcas", gids.at("hcas")}, {"netdevs", netdevs_json(fabric)}, {"gpus", report_json(fabric.gpus)}}},
        {"decisions", report_json(decisions_of(node))},
        {"places", places_json(node)},
        {"variables", report_json(node.variables)},
        {"warnings", node.plan.warnings},
        {"notes", notes_of(node)}};
}

} // namespace rdma_nccl
