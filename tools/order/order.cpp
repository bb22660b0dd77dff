// SPDX-License-Identifier: Apache-2.0
#include "tools/order/order.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "lib/slurm/job_hosts.h"
#include "lib/sys/environment.h"
#include "lib/sys/sysroot.h"
#include "tools/common/command_line.h"
#include "tools/common/print.h"
#include "tools/common/scontrol.h"
#include "tools/common/settings_options.h"

#include <algorithm>
#include <cerrno>
#include <map>
#include <memory>
#include <set>
#include <unistd.h>
#include <unordered_map>

namespace rdma_nccl {

namespace order {

namespace {

constexpr std::string_view slurms_topology = "scontrol show topology";

} // namespace

Report order_of_job(const Environment& environment) {
    auto hosts = job_hosts(environment);
    if (!hosts) {
        return order_nodes({}, {}, std::string(slurms_topology), tl::unexpected(hosts.error()));
    }
    auto places =
        ask_topology(environment).and_then([&](const auto& text) { return places_by_topology(text, hosts->nodes); });
    return order_nodes(std::move(hosts->nodes), std::move(hosts->tasks), std::string(slurms_topology),
                       std::move(places));
}

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
            if (!(us > 0)) {
                continue;
            }
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

constexpr std::size_t most_topology = std::size_t{64} << 20;
constexpr std::size_t most_report = std::size_t{256} << 20; ///< 700 nodes with one rail

struct OrderOptions {
    std::string hosts;
    std::string topology;
    std::string pairs;
    std::optional<unsigned> tasks_per_node;
    bool json = false;
};

/// Returns the nodes named, each once, else those of the step or job.
Result<JobHosts> find_hosts(const OrderOptions& options) {
    JobHosts hosts;
    if (options.hosts.empty()) {
        auto found = job_hosts(Environment::from(environ));
        if (!found) {
            return fail(format_text("order: {}: name nodes, as n[01-08] or \"$SLURM_JOB_NODELIST_HET_GROUP_0\"",
                                    found.error().message));
        }
        hosts = *std::move(found);
    } else {
        auto named = expand_hostlist(options.hosts);
        if (!named) {
            return fail("order: " + named.error().message);
        }
        std::set<std::string> seen;
        std::erase_if(*named, [&seen](const std::string& node) { return !seen.insert(node).second; });
        hosts = {*std::move(named), std::vector<unsigned>(seen.size(), 1)};
    }
    if (options.tasks_per_node) {
        hosts.tasks.assign(hosts.nodes.size(), *options.tasks_per_node);
    }
    return hosts;
}

std::string source_of(const OrderOptions& options) {
    const auto& file = options.topology.empty() ? options.pairs : options.topology;
    return file.empty() ? std::string(order::slurms_topology) : printable(base_name(file), 60);
}

Result<NetworkPlaces> find_places(const OrderOptions& options, const std::vector<std::string>& nodes) {
    const auto by_topology = [&nodes](const std::string& text) { return places_by_topology(text, nodes); };
    if (!options.topology.empty()) {
        return read_regular_file(options.topology, most_topology).and_then(by_topology);
    }
    if (options.pairs.empty()) {
        return ask_topology(Environment::from(environ)).and_then(by_topology);
    }
    const auto text = read_regular_file(options.pairs, most_report);
    if (!text) {
        const bool is_large = text.error().os_error == EFBIG;
        return fail(text.error().message +
                    (is_large ? "; a report of one HCA is smaller: rdma-nccl pairs --rails 0" : ""));
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
