// SPDX-License-Identifier: Apache-2.0
#include "tools/explain/explain.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/report_fields.h"
#include "lib/base/text.h"
#include "lib/fabric/fabric.h"
#include "lib/fabric/kernel_text.h"
#include "lib/plan/node_placement.h"
#include "tools/common/print.h"
#include "tools/gids/gids.h"
#include "tools/topo/topo.h"

#include <algorithm>

namespace rdma_nccl {

namespace {

// The decisions.

struct Rejected {
    std::string what; ///< "mlx5_0 port 1", "GID 1 fe80::..."
    std::string rule; ///< the rule's name
    std::string why;
};

struct Explanation {
    std::string what;     ///< "layout", "HCA ports", "GID of mlx5_1 port 1", ...
    std::string decision; ///< "rank", "=mlx5_1:1,...", "index 3, 10.0.0.1"
    std::string why;
    std::vector<Rejected> rejected;
};

Explanation head_address_decision(const Plan& plan) {
    if (!plan.users_head) {
        return {"MASTER_ADDR", plan.head.address ? plan.head.address->text() : "none", plan.head.why, {}};
    }
    Explanation decision{"MASTER_ADDR", *plan.users_head, "set before, kept", {}};
    if (plan.head.address) {
        decision.rejected.push_back({plan.head.address->text(), "user", plan.head.why});
    }
    return decision;
}

Explanation interface_decision(const Plan& plan) {
    const auto& sockets = plan.sockets;
    std::string text = sockets.interface.empty() ? "none" : sockets.interface;
    if (sockets.address) {
        text += ", " + sockets.address->text();
    }
    return {"socket interface", std::move(text), sockets.why, {}};
}

Explanation ports_decision(const NodePlan& node) {
    const auto& choice = node.plan.fabric;
    Explanation decision{"HCA ports", choice.used().empty() ? "none" : choice.nccl_ib_hca(), {}, {}};
    if (node.facts.fabric.hcas.empty()) {
        decision.why = "no RDMA device in /sys/class/infiniband";
        return decision;
    }
    decision.why = format_text("{} of {} ports pass all rules", choice.used().size(), choice.ports.size());
    for (const auto& port : choice.ports) {
        if (!port.used()) {
            decision.rejected.push_back(
                {format_text("{} port {}", port.hca, port.port), std::string(rule_name(port.rule)), port.reason});
        }
    }
    return decision;
}

/// Returns the GID index that NCCL 2.21 and newer would use for the port by itself, and with our settings.
std::string nccl_text(const PortChoice& choice) {
    if (!choice.nccl_default || !choice.nccl_effective) {
        return {};
    }
    const std::string alone = *choice.nccl_default == *choice.gid_index
                                  ? "NCCL alone takes the same"
                                  : format_text("NCCL alone takes {}", *choice.nccl_default);
    return *choice.nccl_effective == *choice.gid_index ? alone
                                                       : format_text("{}, told {}", alone, *choice.nccl_effective);
}

Explanation gid_decision(const PortView& port) {
    Explanation decision{format_text("GID of {} port {}", port.choice.hca, port.choice.port), {}, {}, {}};
    for (const auto& entry : port.gids) {
        const auto& verdict = entry.verdict;
        const std::string text = format_text("index {}, {}", entry.gid.index, entry.gid.value.text());
        if (verdict.used()) {
            decision.decision = text;
            decision.why = format_text("{}; {}", verdict.reason, nccl_text(port.choice));
        } else {
            decision.rejected.push_back({text, std::string(rule_name(verdict.rule)), verdict.reason});
        }
    }
    return decision;
}

void add_gid_decisions(const NodePlan& node, bool with_gids, std::vector<Explanation>& decisions) {
    const auto& choice = node.plan.fabric;
    bool any = false;
    for (const auto& hca : view_gids(node.facts.fabric, choice).hcas) {
        for (const auto& port : hca.ports) {
            any = any || port.choice.gid_index;
            if (with_gids && port.choice.gid_index) {
                decisions.push_back(gid_decision(port));
            }
        }
    }
    if (any && choice.common_gid_index) {
        decisions.push_back(
            {"GID index", format_text("{}", *choice.common_gid_index), "the same on all used ports", {}});
    } else if (any) {
        decisions.push_back(
            {"GID index", "per port", "the used ports differ: NCCL 2.21 or newer finds each port's by itself", {}});
    }
}

Explanation order_decision(const NodeFacts& facts) {
    const auto& environment = facts.environment;
    if (!set_up_by_plugin(environment, facts.step)) {
        return {"order of nodes", "open", "its nodes agree when a step starts, and srun says why with verbose=2", {}};
    }
    if (!environment.ours().contains(node_order_variable)) {
        return {"order of nodes", "Slurm's", "srun says why when the step starts, with verbose=2", {}};
    }
    const auto place = environment.get("SLURM_TOPOLOGY_ADDR").value_or("");
    return {"order of nodes", "topology", format_text("SLURM_TOPOLOGY_ADDR is {}", printable(place, 60)), {}};
}

/// Returns the decisions in the order they are made, those on the GIDs of ports if `with_gids`. If the step is left
/// alone, returns only that decision.
std::vector<Explanation> decisions_of(const NodePlan& node, bool with_gids) {
    const auto& plan = node.plan;
    if (plan.leave_alone) {
        return {{"step", "left alone", plan.leave_alone_why, {}}};
    }
    std::vector<Explanation> decisions = {
        {"layout", std::string(layout_name(plan.layout.layout)), plan.layout.why, {}}};
    if (!plan.meets()) {
        decisions.push_back({"ranks", "each task is a world of its own", plan.layout.alone, {}});
    } else if (node.facts.step.job_id != 0) { // outside a job there are no other nodes to meet
        decisions.push_back({"head node", plan.head_node.name, plan.head_node.why, {}});
        decisions.push_back(head_address_decision(plan));
        decisions.push_back({"MASTER_PORT", format_text("{}", plan.port.first), plan.port.why, {}});
        if (asks_for_order(node)) {
            decisions.push_back(order_decision(node.facts));
        }
    }
    decisions.push_back({"GPUs of a task", format_text("{}", plan.visible_gpus), plan.visible_gpus_source, {}});
    decisions.push_back(interface_decision(plan));
    decisions.push_back(ports_decision(node));
    add_gid_decisions(node, with_gids, decisions);
    return decisions;
}

/// Returns what could not be read of the node, of each HCA and of each port.
std::vector<std::string> notes_of(const NodePlan& node) {
    std::vector<std::string> notes = node.plan.notes;
    append(notes, problems_of(view_gids(node.facts.fabric, node.plan.fabric)));
    return notes;
}

// The text.

constexpr std::string_view indent = "  ";

/// The first row has the titles.
std::string table_or_none(const std::vector<TableRow>& rows) {
    return rows.size() > 1 ? aligned_table(rows, indent) : "  none\n";
}

std::string settings_text(const Settings& settings) {
    if (settings.given.empty()) {
        return "  all at their defaults\n";
    }
    const auto rows = mapped(settings.given, [](const auto& key) {
        return TableRow{key.first, printable(key.second.text), printable(key.second.place)};
    });
    return aligned_table(rows, indent);
}

std::string step_text(const NodePlan& node) {
    const Step& step = node.facts.step;
    if (step.job_id == 0) {
        return "  none: not inside a Slurm job\n";
    }
    const std::string nodes = step.nodes.empty() ? "" : format_text(" ({})", printable(joined(step.nodes, ",")));
    return format_text("  {}: {} on {}{}\n  environment of {}\n", step.name(), format_count(step.task_count, "task"),
                       format_count(step.node_count, "node"), nodes, node.subject);
}

std::string speed_text(double gbps) {
    return gbps > 0 ? format_text("{:g}", gbps) : "-";
}

std::string hcas_text(const Fabric& fabric) {
    std::vector<TableRow> rows = {{"HCA", "PORT", "LINK", "STATE", "Gb/s", "GIDS", "DRIVER", "PCI", "NUMA", "NETDEV"}};
    for (const auto& hca : fabric.hcas) {
        for (const auto& port : hca.ports) {
            rows.push_back({hca.name, format_text("{}", port.number), link_layer_text(port.link_layer),
                            or_dash(printable(port.state)), speed_text(port.believable_rate_gbps()),
                            format_text("{}/{}", port.gids.size(), port.gid_table_length), or_dash(hca.driver),
                            or_dash(hca.pci), number_text(hca.numa_node), or_dash(joined(hca.netdevs, ","))});
        }
        if (hca.ports.empty()) {
            rows.push_back({hca.name, "-", "-", "-", "-", "-", or_dash(hca.driver), or_dash(hca.pci)});
        }
    }
    return table_or_none(rows);
}

/// Returns the HCAs that share a PCIe switch with the GPU.
std::string near_text(const Fabric& fabric, const Gpu& gpu) {
    const auto is_near = [&gpu](const Hca& hca) { return share_pcie_switch(hca.pci_path, gpu.pci_path); };
    return or_dash(joined(mapped(selected(fabric.hcas, is_near), &Hca::name), ","));
}

std::string gpus_text(const Fabric& fabric) {
    std::vector<TableRow> rows = {{"PCI", "VENDOR", "NUMA", "HCAS ON THE SAME SWITCH"}};
    for (const auto& gpu : fabric.gpus) {
        rows.push_back({gpu.pci, gpu.vendor, number_text(gpu.numa_node), near_text(fabric, gpu)});
    }
    return table_or_none(rows);
}

std::string address_text(const InterfaceAddress& entry) {
    return format_text("{}/{}", entry.address.text(), entry.prefix_length);
}

std::string addresses_text(const Netdev& netdev) {
    const auto addresses = selected(netdev.addresses, [](const auto& entry) { return !entry.address.is_link_local(); });
    return or_dash(joined(mapped(addresses, address_text), ","));
}

std::string remark_text(const Fabric& fabric, const Netdev& netdev) {
    const std::string upper = netdev.upper.empty() ? "" : "below " + netdev.upper;
    return std::ranges::count(fabric.default_route_netdevs, netdev.name) == 0 ? upper
           : upper.empty()                                                    ? "default route"
                                                                              : "default route," + upper;
}

std::string netdevs_text(const Fabric& fabric) {
    std::vector<TableRow> rows = {{"NETDEV", "LINK", "Gb/s", "MTU", "ADDRESSES", ""}};
    for (const auto& netdev : fabric.netdevs) {
        if (!netdev.loopback) {
            rows.push_back({netdev.name, netdev.up ? "up" : "down", speed_text(netdev.speed_gbps),
                            format_text("{}", netdev.mtu), addresses_text(netdev), remark_text(fabric, netdev)});
        }
    }
    return table_or_none(rows);
}

/// Returns "0 wrong-version, 1 less-preferred". There are many similar rejected GIDs; `gids --all` has full sentences.
std::string short_rejects(const PortChoice& choice) {
    const auto rejected = selected(choice.gids, [](const GidVerdict& verdict) { return !verdict.used(); });
    return or_dash(joined(mapped(rejected, [](const GidVerdict& verdict) {
        return format_text("{} {}", verdict.index, rule_name(verdict.rule));
    })));
}

/// Returns the used entries of each port's GID table, with what NCCL 2.21 or newer would use by itself and with our
/// settings.
std::string gids_text(const NodePlan& node) {
    std::vector<TableRow> rows = {{"PORT", "GID", "ADDRESS", "WHY", "NCCL ALONE", "AS TOLD", "REJECTED"}};
    for (const auto& hca : view_gids(node.facts.fabric, node.plan.fabric).hcas) {
        for (const auto& port : hca.ports) {
            const PortChoice& choice = port.choice;
            for (const auto& entry : port.gids) {
                if (choice.gid_index && entry.verdict.used()) {
                    rows.push_back({choice.name(), format_text("{}", entry.gid.index), entry.gid.value.text(),
                                    entry.verdict.reason, number_text(choice.nccl_default),
                                    number_text(choice.nccl_effective), short_rejects(choice)});
                }
            }
        }
    }
    return rows.size() > 1 ? aligned_table(rows, "      ") : "";
}

std::string decision_text(const Explanation& decision) {
    std::string text = format_text("  {}: {} ({})\n", decision.what, or_dash(printable(decision.decision, 400)),
                                   or_dash(printable(decision.why, 400)));
    MessageGroups sentences;
    for (const auto& rejected : decision.rejected) {
        sentences.add(rejected.rule + rejected.why, rejected.what,
                      format_text("{} {} [{}]", rejected.what, printable(rejected.why, 400), rejected.rule));
    }
    for (const auto& sentence : sentences.texts()) {
        text += format_text("      rejected: {}\n", sentence);
    }
    return text;
}

/// Shows GID decisions as one table, which is easier to read than a paragraph for each port.
std::string decisions_text(const NodePlan& node) {
    std::string text;
    for (const auto& decision : decisions_of(node, false)) {
        text += decision_text(decision);
    }
    return text + gids_text(node);
}

std::string_view name_of(VariableAction action) {
    switch (action) {
    case VariableAction::Set:
        return "set";
    case VariableAction::Keep:
        return "keep";
    case VariableAction::Restore:
        return "restore";
    case VariableAction::Leave:
        return "leave";
    case VariableAction::Unset:
        return "unset";
    }
    return {};
}

std::string action_text(const Variable& variable) {
    switch (variable.action) {
    case VariableAction::Leave:
        return variable.name + " left unset";
    case VariableAction::Unset:
        return variable.name + " removed";
    default:
        return format_text("{}={}", variable.name, printable(variable.value, 400));
    }
}

std::string variables_text(const std::vector<Variable>& variables) {
    std::string text;
    for (const auto& variable : variables) {
        text += format_text("  {}  [{}: {}]\n", action_text(variable), printable(variable.source),
                            printable(variable.why, 400));
    }
    return text.empty() ? "  none\n" : text;
}

/// Returns an empty text if there is nothing to say. A fault may have several lines.
std::string fabric_profile_text(const NodePlan& node) {
    std::string text;
    if (const auto& profile = node.plan.fabric_profile) {
        text += format_text("  {}: {}\n", profile->file, profile->machine);
        text += profile->note.empty() ? "" : format_text("  note: {}\n", profile->note);
        for (const auto& [value, use, why] : profile->values) {
            text += format_text("  {}={}  [{}: {}]\n", value.name, value.value, name_of(use), why);
            const std::string from = value.source.empty() ? "" : format_text("({})", value.source);
            const std::string reason = value.why + (value.why.empty() || from.empty() ? "" : " ") + from;
            text += reason.empty() ? "" : format_text("      {}\n", reason);
        }
    }
    for (const auto& fault : node.facts.fabric_profile_faults) {
        for (const auto line : split(fault, '\n')) {
            text += format_text("  {}\n", line);
        }
    }
    return text.empty() ? "" : "\nfabric profile\n" + text;
}

/// Returns the places of this node's ranks; `topo` shows the machine itself.
std::string placement_text(const NodePlan& node) {
    if (node.plan.leave_alone) {
        return "";
    }
    const auto& places = node.places;
    if (places.problem) {
        return format_text("\nplaces\n  ranks are not bound: {}\n", *places.problem);
    }
    std::string text = format_text("\nplaces: {} ({})\n{}", binding_why(places.placed), places.masks_source,
                                   ranks_table(node, indent));
    const auto& placement = places.placed.placement;
    return text + titled_lines("  warning", placement.warnings) + titled_lines("  note", placement.notes);
}

std::string lines_text(const std::vector<std::string>& lines) {
    std::string text;
    for (const auto& line : lines) {
        text += format_text("  {}\n", line);
    }
    return text.empty() ? "  none\n" : text;
}

} // namespace

bool asks_for_order(const NodePlan& node) {
    const bool in_job = !node.plan.leave_alone && node.plan.meets() && node.facts.step.job_id != 0;
    return in_job &&
           (node.settings.order != OrderChoice::Slurm || node.facts.environment.ours().contains(node_order_variable));
}

std::string explain_text(const Explained& explained) {
    const auto& node = explained.node;
    const auto& fabric = node.facts.fabric;
    std::string text = format_text("host {}\n", or_dash(printable(explained.host)));
    text += "\nsettings\n" + settings_text(node.settings);
    text += "\nstep\n" + step_text(node);
    text += "\nHCAs\n" + hcas_text(fabric);
    text += "\nGPUs\n" + gpus_text(fabric);
    text += "\ninterfaces\n" + netdevs_text(fabric);
    text += "\ndecisions\n" + decisions_text(node);
    text += explained.order ? "\norder by the network\n" + order::order_text(*explained.order) : "";
    text += fabric_profile_text(node);
    text += placement_text(node);
    text += "\nvariables\n" + variables_text(node.variables);
    text += "\nwarnings\n" + lines_text(node.plan.warnings);
    if (const auto notes = notes_of(node); !notes.empty()) {
        text += "\nnot readable\n" + lines_text(notes);
    }
    return text;
}

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
    f("name", "", &Variable::name);
    f("action", "", [](const Variable& v) { return name_of(v.action); });
    f("value", "", &Variable::value);
    f("source", "", &Variable::source);
    f("why", "in words", &Variable::why);
}

static void fields(auto& f, Row<FabricProfileDecision> /*row*/) {
    f("name", "", [](const FabricProfileDecision& d) { return d.value.name; });
    f("value", "", [](const FabricProfileDecision& d) { return d.value.value; });
    f("use", "set, advised, kept, impossible or withheld",
      [](const FabricProfileDecision& d) { return name_of(d.use); });
    f("why", "of use, in words", &FabricProfileDecision::why);
    f("reason", "of the value", [](const FabricProfileDecision& d) { return d.value.why; });
    f("source", "its public source", [](const FabricProfileDecision& d) { return d.value.source; });
}

static void fields(auto& f, Row<PlannedFabricProfile> /*row*/) {
    f("file", "", &PlannedFabricProfile::file);
    f("machine", "why it is for this one", &PlannedFabricProfile::machine);
    f("note", "", &PlannedFabricProfile::note);
    f("values", "", &PlannedFabricProfile::values);
}

static void fields(auto& f, Row<Gpu> /*row*/) {
    f("pci", "0000:53:00.0", &Gpu::pci);
    f("vendor", "nvidia or amd", &Gpu::vendor);
    f("numa_node", "null: not known", &Gpu::numa_node);
    f("uuid", "empty: not known", &Gpu::uuid);
}

namespace {

Json settings_json(const Settings& settings) {
    return mapped(settings.given, [](const auto& key) {
        return Json{{"key", key.first}, {"value", key.second.text}, {"source", key.second.place}};
    });
}

Json step_json(const NodePlan& node) {
    const Step& step = node.facts.step;
    if (step.job_id == 0) {
        return nullptr;
    }
    return {{"job_id", step.job_id},
            {"step_id", step.step_id},
            {"tasks", step.task_count},
            {"nodes", step.nodes},
            {"head_node", node.facts.head_node.name},
            {"environment_of", node.subject}};
}

Json netdevs_json(const Fabric& fabric) {
    return mapped(fabric.netdevs, [&](const Netdev& netdev) {
        return Json{{"name", netdev.name},
                    {"up", netdev.up},
                    {"speed_gbps", netdev.speed_gbps},
                    {"mtu", netdev.mtu},
                    {"pci", base_name(netdev.pci_path)},
                    {"upper", netdev.upper},
                    {"lowers", netdev.lowers},
                    {"default_route", std::ranges::count(fabric.default_route_netdevs, netdev.name) > 0},
                    {"addresses", mapped(netdev.addresses, address_text)}};
    });
}

} // namespace

Json explain_json(const Explained& explained) {
    const auto& [node, host, order] = explained;
    const auto& fabric = node.facts.fabric;
    const Json gids = gids_json(host, view_gids(fabric, node.plan.fabric));
    return {
        {"schema", 1},
        {"host", host},
        {"settings", settings_json(node.settings)},
        {"step", step_json(node)},
        {"fabric", {{"hcas", gids.at("hcas")}, {"netdevs", netdevs_json(fabric)}, {"gpus", report_json(fabric.gpus)}}},
        {"decisions", report_json(decisions_of(node, true))},
        {"order", order ? order::format_json(*order) : Json()},
        {"fabric_profile", report_json(node.plan.fabric_profile)},
        {"fabric_profile_faults", node.facts.fabric_profile_faults},
        {"places", placement_json(node)},
        {"variables", report_json(node.variables)},
        {"warnings", node.plan.warnings},
        {"notes", notes_of(node)}};
}

} // namespace rdma_nccl
