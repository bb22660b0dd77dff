// SPDX-License-Identifier: Apache-2.0
#include "tools/topo/topo.h"

#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "lib/order/network.h"
#include "lib/slurm/job_hosts.h"
#include "lib/sys/sysroot.h"
#include "lib/topology/gpu_links.h"
#include "tools/common/command_line.h"
#include "tools/common/print.h"
#include "tools/common/scontrol.h"

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
};

/// Shows where Slurm says that the nodes of this step or job are, and the rails of this node if it is one of them.
Result<int> show_network(const TopoOptions& options, const Settings& settings) {
    const auto environment = Environment::from(environ);
    const auto hosts = job_hosts(environment);
    if (!hosts) {
        return fail(format_text("topo --network: {}: rdma-nccl order --json NODES tells where nodes are",
                                hosts.error().message));
    }
    const auto& nodes = hosts->nodes;
    const auto places = ask_topology().and_then([&](const auto& text) { return places_by_topology(text, nodes); });
    if (!places) {
        return fail(format_text("topo --network: scontrol show topology: {}", places.error().message));
    }
    if (options.json) {
        print_out(network_json(nodes, *places).dump(2) + "\n");
        return exit_good;
    }
    print_out(network_text(nodes, *places));
    if (const auto name = node_name_of(environment, settings); contains(nodes, name)) {
        const auto node = plan_node(options.settings, settings, usual_timeout);
        if (node) {
            print_out(rails_text(*node, "rails of " + name));
        } else {
            print_error(format_text("topo --network: rails of {}: {}", printable(name, 60), node.error().message));
        }
    }
    return exit_good;
}

Result<int> run_topo(const TopoOptions& options, const Settings& settings) {
    if (options.network) {
        return show_network(options, settings);
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
    run_with_settings(command, options->settings, exit_code,
                      [options](const Settings& settings) { return run_topo(*options, settings); });
}

} // namespace rdma_nccl
