// SPDX-License-Identifier: Apache-2.0
#include "tools/explain/explain.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/sys/sysroot.h"
#include "tools/common/command_line.h"
#include "tools/common/commands.h"
#include "tools/common/print.h"
#include "tools/gids/gids.h"

#include <memory>

namespace rdma_nccl {

namespace {

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
    Explanation decision{format_text("{}{} port {}", gid_of, port.choice.hca, port.choice.port), {}, {}, {}};
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

void add_gid_decisions(const NodePlan& node, std::vector<Explanation>& decisions) {
    const auto& choice = node.plan.fabric;
    bool any = false;
    for (const auto& hca : view_gids(node.facts.fabric, choice).hcas) {
        for (const auto& port : hca.ports) {
            if (port.choice.gid_index) {
                decisions.push_back(gid_decision(port));
                any = true;
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

} // namespace

std::vector<Explanation> decisions_of(const NodePlan& node) {
    const auto& plan = node.plan;
    if (plan.leave_alone) {
        return {{"step", "left alone", plan.leave_alone_why, {}}};
    }
    std::vector<Explanation> decisions = {
        {"layout", std::string(layout_name(plan.layout.layout)), plan.layout.why, {}}};
    if (node.facts.step.job_id != 0) { // outside a job there are no other nodes to meet
        decisions.push_back({"head node", plan.head_node.name, plan.head_node.why, {}});
        decisions.push_back(head_address_decision(plan));
        decisions.push_back({"MASTER_PORT", format_text("{}", plan.port.first), plan.port.why, {}});
    }
    decisions.push_back({"GPUs of a task", format_text("{}", plan.visible_gpus), plan.visible_gpus_source, {}});
    decisions.push_back(interface_decision(plan));
    decisions.push_back(ports_decision(node));
    add_gid_decisions(node, decisions);
    return decisions;
}

std::vector<std::string> notes_of(const NodePlan& node) {
    std::vector<std::string> notes = node.plan.notes;
    append(notes, problems_of(view_gids(node.facts.fabric, node.plan.fabric)));
    return notes;
}

namespace {

struct ExplainOptions {
    SettingsOptions settings;
    bool json = false;
    std::string save;
};

int run_explain(const ExplainOptions& options) {
    const auto settings = settings_from(options.settings);
    if (!settings) {
        print_error(settings.error().message);
        return exit_bad_line;
    }
    const auto root = SysRoot::open(settings->root);
    const auto node = root ? plan_node(options.settings, *settings, usual_timeout, {}, GidTables::Whole)
                           : tl::unexpected(root.error());
    if (!node) {
        print_error(node.error().message);
        return exit_cannot_tell;
    }
    const std::string host = host_name_of(*root);
    if (!options.save.empty()) {
        const auto saved = save_bundle(options.save, *node, options.settings.site_file, host);
        if (!saved) {
            print_error(saved.error().message);
            return exit_cannot_tell;
        }
        print_error(format_text("saved {} files of this machine in {}; review them before you share them", *saved,
                                options.save));
        return node->exit_code();
    }
    print_out(options.json ? explain_json(*node, host).dump(2) + "\n" : explain_text(*node, host));
    return node->exit_code();
}

} // namespace

void add_explain_command(const Subcommand& app, int& exit_code) {
    auto options = std::make_shared<ExplainOptions>();
    const auto command =
        app.subcommand("explain", "the plan of this node: every decision with its reason, nothing is run");
    command.flag("--json", options->json, "print JSON");
    command
        .option("--save", options->save,
                "write the files that were read, and the plan, below DIR, to be looked at elsewhere (--root DIR)")
        .type_name("DIR")
        .not_empty();
    add_settings_options(command, options->settings);
    command.on_run([options, &exit_code] { exit_code = run_explain(*options); });
}

} // namespace rdma_nccl
