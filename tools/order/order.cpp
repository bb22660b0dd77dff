// SPDX-License-Identifier: Apache-2.0
#include "tools/order/order.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "lib/slurm/step.h"
#include "lib/sys/environment.h"
#include "lib/sys/sysroot.h"
#include "tools/common/command_line.h"
#include "tools/common/print.h"
#include "tools/common/scontrol.h"
#include "tools/common/settings_options.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <unistd.h>
#include <unordered_map>

namespace rdma_nccl {

namespace order {

Result<std::vector<NodeLatency>> latencies_between(std::span<const std::string> nodes, const Json& pairs_report) {
    std::unordered_map<std::string_view, std::size_t> positions;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
        positions.emplace(nodes[i], i);
    }
    std::map<std::pair<std::size_t, std::size_t>, double> least;
    try {
        for (const auto& result : pairs_report.at("results")) {
            const auto a = positions.find(result.at("a").at("node").text());
            const auto b = positions.find(result.at("b").at("node").text());
            const auto& latency = result.at("latency");
            if (a == positions.end() || b == positions.end() || a == b || latency.is_null()) {
                continue;
            }
            const auto us = latency.at("min_us").get<double>();
            const auto found = least.try_emplace(std::minmax(a->second, b->second), us).first;
            found->second = std::min(found->second, us);
        }
    } catch (const JsonError&) {
        return fail("it is no report of `rdma-nccl pairs --json`");
    }
    return mapped(least, [](const auto& pair) {
        return NodeLatency{pair.first.first, pair.first.second, pair.second};
    });
}

} // namespace order

namespace {

constexpr std::size_t most_text = std::size_t{256} << 20;

struct OrderOptions {
    std::string hosts;
    std::string topology;
    std::string pairs;
    std::optional<unsigned> tasks_per_node;
    bool json = false;
};

struct Hosts {
    std::vector<std::string> nodes;
    std::vector<unsigned> tasks;
};

/// Returns the nodes named, else those of the step or job.
Result<Hosts> find_hosts(const OrderOptions& options) {
    Hosts hosts;
    if (!options.hosts.empty()) {
        auto named = expand_hostlist(options.hosts);
        if (!named) {
            return tl::unexpected(named.error());
        }
        std::set<std::string> seen;
        std::erase_if(*named, [&seen](const std::string& node) { return !seen.insert(node).second; });
        hosts.nodes = std::move(*named);
    } else {
        auto step = read_step(Environment::from(environ), {});
        if (step.heterogeneous) {
            return fail("order: a heterogeneous job has several lists of nodes: name one, as "
                        "\"$SLURM_JOB_NODELIST_HET_GROUP_0\"");
        }
        hosts = {std::move(step.nodes), std::move(step.tasks_per_node)};
    }
    if (hosts.nodes.empty()) {
        return fail("order: there is no job here: name the nodes, as n[01-08]");
    }
    if (options.tasks_per_node || hosts.tasks.size() != hosts.nodes.size()) {
        hosts.tasks.assign(hosts.nodes.size(), options.tasks_per_node.value_or(1));
    }
    return hosts;
}

std::string source_of(const OrderOptions& options) {
    const auto& file = options.topology.empty() ? options.pairs : options.topology;
    return file.empty() ? "scontrol show topology" : std::string(base_name(file));
}

Result<NetworkPlaces> find_places(const OrderOptions& options, const std::vector<std::string>& nodes) {
    const auto by_topology = [&nodes](const std::string& text) { return places_by_topology(text, nodes); };
    if (!options.topology.empty()) {
        return read_regular_file(options.topology, most_text).and_then(by_topology);
    }
    if (options.pairs.empty()) {
        return ask_topology().and_then(by_topology);
    }
    const auto text = read_regular_file(options.pairs, most_text);
    if (!text) {
        return tl::unexpected(text.error());
    }
    return order::latencies_between(nodes, Json::parse(*text).value_or(Json())).and_then([&nodes](auto latencies) {
        return places_by_latency(nodes.size(), std::move(latencies));
    });
}

Result<int> run_order(const OrderOptions& options) {
    auto hosts = find_hosts(options);
    if (!hosts) {
        return tl::unexpected(hosts.error());
    }
    auto places = find_places(options, hosts->nodes);
    const auto report =
        order::order_nodes(std::move(hosts->nodes), std::move(hosts->tasks), source_of(options), std::move(places));
    print_out(options.json ? order::format_json(report).dump(2) + "\n" : order::host_lines(report));
    print_error("order: " + order::summary(report));
    return !finish_output() ? exit_cannot_tell : report.problem.empty() ? exit_good : exit_warning;
}

} // namespace

void add_order_command(const Subcommand& app, int& exit_code) {
    auto options = std::make_shared<OrderOptions>();
    const auto command = app.subcommand("order", "a job's nodes in the order of the network, for SLURM_HOSTFILE");
    command.option("NODES", options->hosts, "as n[01-08] (default: those of this job or step)").not_empty();
    const auto topology = command
                              .option("--topology", options->topology,
                                      "where the nodes are: what scontrol show topology printed (default: ask it)")
                              .type_name("FILE")
                              .not_empty();
    command
        .option("--pairs", options->pairs,
                "without a topology in Slurm: groups by the latencies that rdma-nccl pairs --json measured")
        .type_name("FILE")
        .not_empty()
        .excludes(topology);
    command
        .option("--tasks-per-node", options->tasks_per_node,
                "lines for each node (default: the job's tasks; 1 for NODES)")
        .type_name("N")
        .range(1U, 65536U);
    command.flag("--json", options->json, "print JSON");
    command.on_run([options, &exit_code] { exit_code = exit_code_of(run_order(*options)); });
}

} // namespace rdma_nccl
