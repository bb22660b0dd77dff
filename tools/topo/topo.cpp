// SPDX-License-Identifier: Apache-2.0
#include "tools/topo/topo.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "lib/order/network.h"
#include "lib/slurm/job_hosts.h"
#include "lib/sys/signal_fd.h"
#include "lib/sys/sysroot.h"
#include "lib/topology/gpu_links.h"
#include "tools/common/command_line.h"
#include "tools/common/job_nodes.h"
#include "tools/common/print.h"
#include "tools/common/scontrol.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <unistd.h>

namespace rdma_nccl {

namespace {

struct TopoOptions {
    SettingsOptions settings;
    RanksWanted ranks;
    std::string xml;
    std::string svg;
    bool json = false;
    bool network = false;
    bool on_this_node = false; ///< with `network`: only print this node's rails for the caller
};

using RailsByNode = std::map<std::string, NodeRails, std::less<>>;

/// Adds those of this node, if it is one of `nodes` and is not known yet.
void add_own_rails(RailsByNode& rails, const TopoOptions& options, const Settings& settings,
                   const std::vector<std::string>& nodes) {
    const auto name = node_name_of(Environment::from(environ), settings);
    if (!contains(nodes, name) || rails.contains(name)) {
        return;
    }
    if (const auto node = plan_node(options.settings, settings, usual_timeout)) {
        rails.emplace(name, rails_of_node(*node));
    } else {
        print_error(format_text("topo --network: rails of {}: {}", printable(name, 60), node.error().message));
    }
}

std::vector<std::string> arguments_on_nodes(const SettingsOptions& settings) {
    std::vector<std::string> arguments = {"topo", "--network", "--on-this-node"};
    append(arguments, arguments_of(settings));
    return arguments;
}

/// Returns the rails that nodes reported. A node that two of them claim to be is not known.
RailsByNode rails_in(const std::vector<std::string>& reports, const std::vector<std::string>& nodes) {
    std::map<std::string, std::vector<NodeRails>, std::less<>> reported;
    for (const auto& text : reports) {
        if (auto report = read_rails(text)) {
            reported[report->first].push_back(std::move(report->second));
        }
    }
    RailsByNode rails;
    for (const auto& node : nodes) {
        if (const auto found = reported.find(node); found != reported.end() && found->second.size() == 1) {
            rails.emplace(node, found->second.front());
        }
    }
    return rails;
}

/// Adds the rails of the nodes by asking each, which takes a step of the job (srun). Returns the exit code.
int ask_rails(RailsByNode& rails, const TopoOptions& options, const Settings& settings, std::uint32_t job,
              const std::vector<std::string>& nodes) {
    const auto limit = std::chrono::seconds(60) + std::chrono::milliseconds(10) * nodes.size();
    const auto reports = ask_nodes(job, nodes, arguments_on_nodes(options.settings), limit);
    if (reports) {
        rails = rails_in(reports->texts, nodes);
    }
    add_own_rails(rails, options, settings, nodes);
    std::vector<std::string> silent;
    std::ranges::copy_if(nodes, std::back_inserter(silent), [&](const auto& node) { return !rails.contains(node); });
    if (!silent.empty()) {
        print_error(format_text("topo --network: no rails of {}: {}", printable(fold_hostlist(std::move(silent)), 400),
                                reports ? reports->why_silent(limit) : reports.error().message));
    }
    return reports && reports->signal != 0 ? 128 + reports->signal : exit_good;
}

/// Shows where Slurm says that the nodes of this step or job are, and their rails. A task, which may be one of many
/// that ask, only knows those of its own node.
Result<int> show_network(const TopoOptions& options, const Settings& settings) {
    const auto environment = Environment::from(environ);
    const auto hosts = job_hosts(environment);
    if (!hosts) {
        return fail(format_text("topo --network: {}: rdma-nccl order --json NODES tells where nodes are",
                                hosts.error().message));
    }
    const auto& nodes = hosts->nodes;
    const auto places =
        ask_topology(environment).and_then([&](const auto& text) { return places_by_topology(text, nodes); });
    if (!places) {
        return fail(format_text("topo --network: scontrol show topology: {}", places.error().message));
    }
    StepNetwork network{nodes, *places, {}};
    int code = exit_good;
    if (const auto job = parse_number<std::uint32_t>(environment.get("SLURM_JOB_ID").value_or(""));
        job && !hosts->of_step) {
        code = ask_rails(network.rails, options, settings, *job, nodes);
    } else {
        add_own_rails(network.rails, options, settings, nodes);
    }
    print_out(options.json ? network_json(network).dump(2) + "\n" : network_text(network));
    return code;
}

/// On each node. It takes no longer than usual_timeout, and reports also when the user interrupts the caller.
Result<int> report_rails(const TopoOptions& options, const Settings& settings) {
    BlockedSignals blocked;
    blocked.keep_blocked();
    return plan_node(options.settings, settings, usual_timeout).map([&](const NodePlan& node) {
        print_report(write_rails(node_name_of(Environment::from(environ), settings), rails_of_node(node)));
        return exit_good;
    });
}

Result<int> run_topo(const TopoOptions& options, const Settings& settings) {
    if (options.network) {
        return options.on_this_node ? report_rails(options, settings) : show_network(options, settings);
    }
    const bool here = options.xml.empty();
    auto planned = here ? plan_node(options.settings, settings, usual_timeout, options.ranks)
                        : plan_by_xml(options.xml, settings, options.ranks);
    if (!planned) {
        return tl::unexpected(planned.error());
    }
    auto& node = *planned;
    const auto root = SysRoot::open(settings.root);
    if (here && root && node.places.topology.gpu_links.empty()) { // a copied machine's file may tell
        node.places.topology.gpu_links = read_gpu_links(*root, node.facts.fabric.gpus, usual_timeout);
    }
    const auto host = here ? root.map(host_name_of).value_or("") : node.name;
    if (const int error = options.svg.empty() ? 0 : overwrite_file(options.svg, topo_svg(node, host)); error != 0) {
        return os_failure("--svg " + printable(options.svg), error);
    }
    if (options.json) {
        print_out(topo_json(node, host).dump(2) + "\n");
    } else if (options.svg.empty()) {
        print_out(topo_text(node, host));
    }
    return node.places.problem ? exit_cannot_tell : node.places.placed.placement.warnings.empty() ? 0 : 1;
}

} // namespace

void add_topo_command(const Subcommand& app, int& exit_code) {
    auto options = std::make_shared<TopoOptions>();
    const auto command = app.subcommand("topo", "GPUs, HCAs and CPUs, their distances, and where the ranks belong");
    const auto json = command.flag("--json", options->json, "print JSON");
    const auto svg = command.option("--svg", options->svg, "write a picture for a browser to FILE")
                         .type_name("FILE")
                         .not_empty()
                         .excludes(json);
    const auto ranks =
        command
            .option("--ranks", options->ranks.ranks,
                    "places for N ranks (default: the tasks of this step on this node, else one per GPU)")
            .type_name("N");
    const auto cpus = command
                          .option("--cpus", options->ranks.cpus,
                                  "as if Slurm had given these CPUs: 0-15, or one list for each rank, 0-7/8-15")
                          .type_name("LIST")
                          .not_empty();
    const auto xml =
        command
            .option("--xml", options->xml,
                    "show another machine, by its topology of hwloc (lstopo FILE.xml) or NCCL (NCCL_TOPO_DUMP_FILE)")
            .type_name("FILE")
            .not_empty();
    command.flag("--network", options->network, "instead: switches or blocks of this job's nodes, as Slurm knows them")
        .excludes(svg)
        .excludes(ranks)
        .excludes(cpus)
        .excludes(xml);
    command.flag("--on-this-node", options->on_this_node, "")
        .hidden(); // the command that --network starts on each node
    run_with_settings(command, options->settings, exit_code,
                      [options](const Settings& settings) { return run_topo(*options, settings); });
}

} // namespace rdma_nccl
