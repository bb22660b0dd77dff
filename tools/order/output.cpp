// SPDX-License-Identifier: Apache-2.0
#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/report_fields.h"
#include "lib/base/text.h"
#include "tools/common/print.h"
#include "tools/order/order.h"

#include <algorithm>

namespace rdma_nccl::order {

namespace {

struct NodeRow {
    std::string name;
    std::vector<std::string> groups;
    unsigned tasks = 1;
};

void fields(auto& f, Row<NodeRow> /*row*/) {
    f("name", "", &NodeRow::name);
    f("groups", "its switches or block, from the outermost one; empty: not known", &NodeRow::groups);
    f("tasks", "lines that it gets in the list of hosts", &NodeRow::tasks);
}

} // namespace

static void fields(auto& f, Row<Report> /*row*/) {
    f("schema", "version of this format", [](const Report& /*report*/) { return 1U; });
    f("source", "what tells the places: scontrol show topology, or a file", &Report::source);
    f("problem", "why the order given stays; empty: it is that of the network", &Report::problem);
    f("nodes", "in the order of the network", [](const Report& r) {
        return mapped(r.by_place.order, [&r](std::size_t i) {
            const auto& place = r.places[i];
            return NodeRow{r.nodes[i], place ? place->groups : std::vector<std::string>(), r.tasks[i]};
        });
    });
    f("crossings_before", "neighbours of a ring in different groups, in the order given, for each depth of groups",
      [](const Report& r) { return r.by_place.before; });
    f("crossings", "the same in the order of the network", [](const Report& r) { return r.by_place.after; });
}

Report order_nodes(std::vector<std::string> nodes, std::vector<unsigned> tasks, std::string source,
                   Result<NetworkPlaces> places) {
    Report report{std::move(source), std::move(nodes), std::move(tasks), {}, {}, {}};
    if (!places) {
        report.problem = places.error().message;
    } else if (std::ranges::none_of(*places, [](const auto& place) { return place.has_value(); })) {
        report.problem = "it names no switch or block of these nodes";
    }
    report.places = report.problem.empty() ? *std::move(places) : NetworkPlaces(report.nodes.size());
    report.by_place = order_by_place(report.places);
    return report;
}

std::string host_lines(const Report& report) {
    std::string lines;
    for (const auto i : report.by_place.order) {
        for (unsigned task = 0; task < report.tasks[i]; ++task) {
            lines += report.nodes[i] + '\n';
        }
    }
    return lines;
}

std::string summary(const Report& report) {
    const auto what = format_text("{}, {}", format_count(report.nodes.size(), "node"), report.source);
    if (!report.problem.empty()) {
        return format_text("{}: the order stays as given: {}", what, report.problem);
    }
    auto text = report.by_place.changes() ? gain_text(report.by_place)
                                          : "the nodes of each switch or block are together in the order given";
    std::vector<std::string> unknown;
    for (std::size_t i = 0; i < report.nodes.size(); ++i) {
        if (!report.places[i]) {
            unknown.push_back(report.nodes[i]);
        }
    }
    if (!unknown.empty()) {
        text += format_text("; it does not have {}", printable(fold_hostlist(std::move(unknown)), 40));
    }
    return format_text("{}: {}", what, text);
}

std::string order_text(const Report& report) {
    if (report.nodes.empty()) {
        return folded("  not known: ", printable(report.problem, 400), 4);
    }
    const auto names = mapped(report.by_place.order, [&report](std::size_t i) { return report.nodes[i]; });
    std::string text = format_text("  {}\n  {}\n", printable(joined(names, ","), 400), summary(report));
    if (report.problem.empty()) {
        std::vector<TableRow> rows = {{"DEPTH", "CROSSINGS", "IN SLURM'S ORDER"}};
        for (std::size_t depth = 0; depth < report.by_place.after.size(); ++depth) {
            rows.push_back({format_text("{}", depth + 1), format_text("{}", report.by_place.after[depth]),
                            format_text("{}", report.by_place.before[depth])});
        }
        text += aligned_table(rows, "  ");
    }
    return text;
}

Json format_json(const Report& report) {
    return report_json(report);
}

Json json_schema() {
    return report_schema<Report>();
}

} // namespace rdma_nccl::order
