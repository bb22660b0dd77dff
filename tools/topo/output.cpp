// SPDX-License-Identifier: Apache-2.0
#include "tools/topo/topo.h"

#include "lib/base/lists.h"
#include "lib/base/report_fields.h"
#include "lib/base/text.h"
#include "lib/plan/node_placement.h"
#include "lib/select/rails.h"
#include "tools/common/print.h"

#include <algorithm>

namespace rdma_nccl {

namespace {

constexpr std::string_view indent = "  ";

/// Returns a CPU list that fits into a table: with the kernel's stride ("0-38:1/2"), else cut.
std::string cpus_text(const CpuSet& set) {
    constexpr std::size_t longest = 30;
    const auto list = set.list();
    const auto cpus = set.cpus();
    if (list.size() > longest && cpus.size() > 2) {
        auto strided = format_text("{}-{}:1/{}", cpus.front(), cpus.back(), cpus[1] - cpus[0]);
        if (CpuSet::parse_list(strided) == set) {
            return strided;
        }
    }
    return or_dash(printable(list, longest));
}

/// Returns as many names as fit, at least one: "mlx5_0:1,mlx5_1:1,+14".
std::string names_text(const std::vector<std::string>& names, std::size_t width) {
    std::string text;
    for (std::size_t i = 0; i < names.size(); ++i) {
        const auto rest = i + 1 == names.size() ? 0 : format_text(",+{}", names.size() - i - 1).size();
        if (i > 0 && text.size() + 1 + names[i].size() + rest > width) {
            return format_text("{},+{}", text, names.size() - i);
        }
        text += (i == 0 ? "" : ",") + names[i];
    }
    return text;
}

std::string heading(const NodePlan& node, const std::string& host) {
    if (node.places.problem) {
        return format_text("host {}: {}\n", or_dash(printable(host)), *node.places.problem);
    }
    const auto& topology = node.places.topology;
    const auto cpus = topology.cpus();
    std::vector<std::string> parts;
    if (topology.packages > 0) {
        parts = {format_count(topology.packages, "package"), format_count(topology.cores.size(), "core")};
    } else if (!topology.numa_nodes.empty()) {
        parts = {format_count(topology.numa_nodes.size(), "NUMA node")};
    }
    parts.push_back(cpus.empty() ? "CPUs not told" : format_count(cpus.size(), "CPU"));
    return format_text("host {}: {} ({})\n", or_dash(printable(host)), joined(parts), printable(topology.source));
}

std::string numa_table(const Topology& topology) {
    std::vector<TableRow> rows = {{"NUMA NODE", "PACKAGE", "CPUS", "MEMORY"}};
    const bool known = topology.packages > 0; // else of NCCL's file, which has only the nodes
    auto without = topology.cpus();
    for (const auto& node : topology.numa_nodes) {
        if (node.special && node.memory_mib == 0) {
            continue; // a driver keeps it for memory that may be added
        }
        rows.push_back({format_text("{}", node.number), node.special || !known ? "-" : format_text("{}", node.package),
                        node.special ? "none of its own" : cpus_text(node.cpus),
                        known ? memory_text(node.memory_mib) : "-"});
        without -= node.special ? CpuSet() : node.cpus;
    }
    if (!without.empty()) {
        rows.push_back({"-", "-", cpus_text(without), "-"});
    }
    return rows.size() == 1 ? "" : "\nNUMA nodes\n" + aligned_table(rows, indent);
}

/// A GPU that the ranks see. What is known of its PCI function and its HCAs: several if they are equally near.
struct GpuRow {
    std::string id;
    std::optional<std::string> pci;
    std::optional<std::string> vendor;
    std::optional<int> numa_node;
    CpuSet cpus;
    std::vector<std::string> nearest_hcas;
    std::optional<Distance> distance;
};

std::optional<std::string_view> name_if_any(const std::optional<Distance>& distance) {
    return distance ? std::optional(distance_name(*distance)) : std::nullopt;
}

void fields(auto& f, Row<GpuRow> /*row*/) {
    f("id", "as CUDA_VISIBLE_DEVICES names it", &GpuRow::id);
    f("pci", "0000:53:00.0; null: not known", &GpuRow::pci);
    f("vendor", "nvidia or amd; null: another, or not known", &GpuRow::vendor);
    f("numa_node", "null: not known", &GpuRow::numa_node);
    f("cpus", "near to it: 0-3,8; empty: not known", [](const GpuRow& r) { return r.cpus.list(); });
    f("nearest_hcas", "ports that are equally near: mlx5_1:1", &GpuRow::nearest_hcas);
    f("distance", "to these: same-device, one-switch, several-switches, ... or unknown; null: there is no HCA",
      [](const GpuRow& r) { return name_if_any(r.distance); });
}

std::vector<GpuRow> gpu_rows(const NodePlan& node) {
    const auto& placed = node.places.placed;
    std::vector<GpuRow> rows;
    for (std::size_t i = 0; i < placed.gpus.size(); ++i) {
        auto& row = rows.emplace_back();
        row.id = placed.gpu_ids.at(i);
        if (const auto& to_hcas = placed.placement.gpu_to_hca.at(i); !to_hcas.empty()) {
            const auto nearest = std::ranges::min(to_hcas);
            row.distance = nearest.distance;
            row.nearest_hcas = names_at(
                placed.ports, positions_where(to_hcas, [nearest](const HcaDistance& d) { return d == nearest; }));
        }
        if (const auto* const gpu = gpu_at(node, i)) {
            row.pci = gpu->pci;
            row.vendor = gpu->vendor.empty() ? std::nullopt : std::optional(gpu->vendor);
            row.numa_node = gpu->numa_node;
            row.cpus = place_of(*gpu, node.places.topology).cpus;
        }
    }
    return rows;
}

std::string gpu_table(const NodePlan& node) {
    std::vector<TableRow> rows = {{"GPU", "PCI", "NUMA", "CPUS", "NEAREST HCAS", "THROUGH"}};
    const auto gpus = gpu_rows(node);
    const bool known = node.places.placed.placement.nearness_known;
    for (const auto& gpu : gpus) {
        rows.push_back({printable(gpu.id, 16), gpu.pci.value_or("-"), number_text(gpu.numa_node), cpus_text(gpu.cpus),
                        "-", known && gpu.distance ? std::string(distance_text(*gpu.distance)) : "-"});
    }
    // The names get what the other columns leave of the width.
    const auto width = std::ranges::max(split(aligned_table(rows, indent), '\n'), {}, &std::string_view::size).size();
    const auto room = rows[0][4].size() + most_columns - std::min(width, most_columns);
    for (std::size_t i = 0; i < gpus.size(); ++i) {
        rows[i + 1][4] = known && gpus[i].distance ? names_text(gpus[i].nearest_hcas, room) : "-";
    }
    return rows.size() > 1 ? aligned_table(rows, indent) : "  none\n";
}

/// Beyond it there is no matrix of GPUs, which grows with the square: more than any node has, also in parts.
constexpr std::size_t most_in_matrix = 128;

/// Returns the distances between the GPUs over PCIe; an empty table if there are too many GPUs.
DistanceTable between_gpus(const NodePlan& node) {
    std::vector<Place> places;
    for (std::size_t i = 0; i < node.places.placed.gpus.size(); ++i) {
        const auto* const gpu = gpu_at(node, i);
        places.push_back(gpu == nullptr ? Place() : place_of(*gpu, node.places.topology));
    }
    return places.size() > most_in_matrix ? DistanceTable() : Distances(node.places.topology).to_hcas(places, places);
}

/// How NVLink or XGMI connects two of the GPUs that the ranks see; nullopt: it does not, or that is not known.
std::optional<GpuLink> link_of(const NodePlan& node, const GpuLinks& links, std::size_t i, std::size_t j) {
    const auto* const one = gpu_at(node, i);
    const auto* const other = gpu_at(node, j);
    return one == nullptr || other == nullptr ? std::nullopt : links.between(one->pci, other->pci);
}

/// Two GPUs that the ranks see, and the links between them.
struct LinkRow {
    std::string gpu;
    std::string peer;
    GpuLink link;
};

void fields(auto& f, Row<LinkRow> /*row*/) {
    f("gpu", "its id", &LinkRow::gpu);
    f("peer", "the other's id", &LinkRow::peer);
    f("kind", "nvlink or xgmi",
      [](const LinkRow& r) { return std::string_view(r.link.kind == GpuLink::Kind::Xgmi ? "xgmi" : "nvlink"); });
    f("count", "of links; null: not known",
      [](const LinkRow& r) { return r.link.count == 0 ? std::nullopt : std::optional(r.link.count); });
}

std::vector<LinkRow> link_rows(const NodePlan& node) {
    const auto& ids = node.places.placed.gpu_ids;
    const GpuLinks links(node.places.topology);
    std::vector<LinkRow> rows;
    for (std::size_t i = 0; i < ids.size() && ids.size() <= most_in_matrix; ++i) {
        for (std::size_t j = i + 1; j < ids.size(); ++j) {
            if (auto link = link_of(node, links, i, j)) {
                rows.push_back({ids[i], ids[j], std::move(*link)});
            }
        }
    }
    return rows;
}

/// Returns GPUs and ports as rows, GPUs as columns: nodes have fewer GPUs than ports, whose names are longer.
std::vector<TableRow> matrix_rows(const NodePlan& node, const TableRow& gpus) {
    const auto& placed = node.places.placed;
    const auto between = gpus.size() > 1 ? between_gpus(node) : DistanceTable();
    const GpuLinks links(node.places.topology);
    std::vector<TableRow> rows = {{""}};
    append(rows.front(), gpus);
    for (std::size_t i = 0; i < between.size(); ++i) {
        auto& row = rows.emplace_back(TableRow{gpus[i]});
        for (std::size_t j = 0; j < between.size(); ++j) {
            const auto link = link_of(node, links, i, j);
            row.push_back(i == j ? "X" : link ? link->word() : std::string(distance_word(between[i][j])));
        }
    }
    for (std::size_t hca = 0; hca < placed.ports.size(); ++hca) {
        auto& row = rows.emplace_back(TableRow{placed.ports[hca]});
        append(row, mapped(placed.placement.gpu_to_hca,
                           [hca](const auto& distances) { return std::string(distance_word(distances.at(hca))); }));
    }
    return rows;
}

/// Returns the matrix in parts of as many columns as fit, one below the other.
std::string distance_matrix(const NodePlan& node) {
    const auto gpus =
        mapped(node.places.placed.gpu_ids, [](const std::string& id) { return "GPU" + printable(id, 16); });
    const auto rows = matrix_rows(node, gpus);
    constexpr std::size_t gap = 2; // between columns
    const auto width = [](const TableRow& cells) { return std::ranges::max(cells, {}, &std::string::size).size(); };
    const auto labels = width(mapped(rows, [](const TableRow& row) { return row.front(); }));
    const auto fit = (most_columns - indent.size() - std::min(labels, most_columns / 2)) / (width(gpus) + gap);
    std::string text;
    for (std::size_t first = 1; first <= gpus.size(); first += fit) {
        const auto part_of = [&](const TableRow& row) {
            TableRow part{row.front()};
            for (auto i = first; i < std::min(first + fit, row.size()); ++i) {
                part.push_back(row[i]);
            }
            return part;
        };
        text += aligned_table(mapped(rows, part_of), indent);
    }
    return text + "  PIX: one PCIe switch or card, PXB: several switches, PHB: host bridge, NODE: NUMA node,\n" +
           (node.places.topology.packages == 0 ? "  SYS: another NUMA node"
                                               : "  PKG: another NUMA node of the package, SYS: another package") +
           ", NV4: 4 NVLinks, XGMI: AMD's links\n" +
           (gpus.size() > most_in_matrix ? format_text("  Between more than {} GPUs, none are shown.\n", most_in_matrix)
            : gpus.size() > 1 && link_rows(node).empty()
                ? "  No NVLink or XGMI is known between these GPUs: the words tell the way over PCIe.\n"
                : "");
}

/// A port, or an HCA without ports, that NCCL is not told to use.
struct LeftOut {
    std::string port;
    std::optional<std::string> rule;
    std::string reason;
};

void fields(auto& f, Row<LeftOut> /*row*/) {
    f("port", "mlx5_0:1; mlx5_0: it has no port", &LeftOut::port);
    f("rule", "as in gids; null: it has no port", &LeftOut::rule);
    f("reason", "in words", &LeftOut::reason);
}

std::vector<LeftOut> left_out(const NodePlan& node) {
    std::vector<LeftOut> rows;
    for (const auto& port : node.plan.fabric.ports) {
        if (!port.used()) {
            rows.push_back({port.name(), std::string(rule_name(port.rule)), port.reason});
        }
    }
    for (const auto& hca : node.facts.fabric.hcas) {
        if (hca.ports.empty()) {
            rows.push_back({hca.name, std::nullopt, node.plan.fabric.reason_for(hca)});
        }
    }
    return rows;
}

std::string left_out_text(const NodePlan& node) {
    const auto rows = left_out(node);
    if (rows.empty()) {
        return "";
    }
    const auto width = std::ranges::max(mapped(rows, &LeftOut::port), {}, &std::string::size).size();
    std::string text = "\nHCA ports left out\n";
    for (const auto& row : rows) {
        auto label = format_text("{}{:<{}}  ", indent, row.port, width);
        text += folded(label, printable(row.reason, 400), label.size());
    }
    return text;
}

/// An interface of a PCI card without an HCA.
struct PlainNic {
    std::string name;
    std::optional<std::string> pci;
};

void fields(auto& f, Row<PlainNic> /*row*/) {
    f("name", "of the interface", &PlainNic::name);
    f("pci", "0000:53:00.0; null: not known", &PlainNic::pci);
}

std::vector<PlainNic> nics_without_verbs(const NodePlan& node) {
    const auto& fabric = node.facts.fabric;
    const auto card_of = [](std::string_view path) { return path.substr(0, path.rfind('.')); };
    std::vector<PlainNic> nics;
    for (const auto& netdev : fabric.netdevs) {
        const bool has_verbs = std::ranges::any_of(fabric.hcas, [&](const Hca& hca) { // a bond's may be one for a card
            return (!hca.pci_path.empty() && card_of(hca.pci_path) == card_of(netdev.pci_path)) ||
                   contains(hca.netdevs, netdev.name);
        });
        // Of a running machine, what has no PCI function is virtual; of a file, its place is not known.
        const bool is_card = netdev.pci_path.empty() ? !node.name.empty() : !netdev.usb;
        if (!has_verbs && is_card) {
            nics.push_back({netdev.name, text_if_any(base_name(netdev.pci_path))});
        }
    }
    std::ranges::sort(nics, {}, &PlainNic::name);
    return nics;
}

std::string nics_text(const NodePlan& node) {
    const auto names = mapped(nics_without_verbs(node), [](const PlainNic& nic) {
        return format_text("{} ({})", printable(nic.name, 32), nic.pci.value_or("no PCI address"));
    });
    return names.empty() ? "" : "\nNICs without verbs\n" + folded(std::string(indent), joined(names), indent.size());
}

} // namespace

NodeRails rails_of_node(const NodePlan& node) {
    const Rails rails = rails_of(node.facts.fabric, node.plan.fabric);
    NodeRails row{std::string(rails.why), {}};
    for (const auto* const port : node.plan.fabric.used()) {
        if (const auto rail = rails.of(port->name())) {
            row.ports.emplace_back(port->name(), *rail);
        }
    }
    return row;
}

std::string rails_text(const NodeRails& rails, std::string_view title) {
    if (rails.ports.empty()) {
        return "";
    }
    const auto used = mapped(
        rails.ports, [](const auto& port) { return format_text("{}={}", printable(port.first, 80), port.second); });
    return "\n" + folded(format_text("{} {}: ", title, printable(rails.why, 20)), joined(used), indent.size());
}

std::string memory_text(std::uint64_t mib) {
    const double gib = static_cast<double>(mib) / 1024;
    return gib >= 10 ? format_text("{:.0f} GiB", gib) : format_text("{:.1f} GiB", gib);
}

const Gpu* gpu_at(const NodePlan& node, std::size_t i) {
    const auto& position = node.places.placed.gpus.at(i);
    return position ? &node.facts.fabric.gpus.at(*position) : nullptr;
}

std::vector<std::string> names_at(const std::vector<std::string>& names, const std::vector<std::size_t>& indices) {
    return mapped(indices, [&](std::size_t i) { return names.at(i); });
}

TableRow rank_cells(const NodePlacement& placed, const RankPlacement& rank) {
    return {cpus_text(rank.cpus),
            rank.cores == 0 ? "-" : format_text("{}", rank.cores),
            placed.binds_cpus ? format_text("{}", rank.threads()) : "-",
            placed.binds_memory ? number_text(rank.memory_node) : "-",
            rank.hcas.empty() ? "-" : placed.ports.at(rank.hcas.front()),
            rank.hcas.empty() ? "-" : std::string(distance_text(rank.to_hca))};
}

std::string ranks_table(const NodePlan& node, std::string_view table_indent) {
    const auto& placed = node.places.placed;
    std::vector<TableRow> rows = {{"LOCAL RANK", "GPU", "CPUS", "CORES", "THREADS", "MEMORY", "HCA", "THROUGH"}};
    for (std::size_t i = 0; i < placed.placement.ranks.size(); ++i) {
        const auto& rank = placed.placement.ranks[i];
        auto gpus = names_at(placed.gpu_ids, rank.gpus);
        std::ranges::transform(gpus, gpus.begin(), [](const std::string& name) { return printable(name, 16); });
        append(rows.emplace_back(TableRow{format_text("{}", i), or_dash(joined(gpus, ","))}), rank_cells(placed, rank));
    }
    return aligned_table(rows, table_indent);
}

std::string topo_text(const NodePlan& node, const std::string& host) {
    const auto& placed = node.places.placed;
    std::string text = heading(node, host);
    if (!node.places.problem) {
        text += numa_table(node.places.topology);
    }
    text += "\nGPUs\n" + gpu_table(node);
    if (placed.gpus.size() + std::min<std::size_t>(placed.ports.size(), 1) > 1 && !placed.gpus.empty()) {
        text += "\ndistances of GPUs and HCAs\n" + distance_matrix(node);
    }
    text += rails_text(rails_of_node(node), "rails") + left_out_text(node) + nics_text(node);
    text +=
        format_text("\nranks: {} ({})\n", binding_why(placed), node.places.masks_source) + ranks_table(node, indent);
    if (!placed.placement.gpu_order.empty()) {
        text += format_text("  {}={} makes LOCAL_RANK's GPU the near one\n", placed.order_variable,
                            joined(names_at(placed.gpu_ids, placed.placement.gpu_order), ","));
    }
    for (const auto& warning : placed.placement.warnings) {
        text += folded("warning: ", warning, indent.size());
    }
    for (const auto& note : placed.placement.notes) {
        text += folded("note: ", note, indent.size());
    }
    return text;
}

static void fields(auto& f, Row<NumaNode> /*row*/) {
    f("number", "as the kernel numbers it", &NumaNode::number);
    f("cpus", "near to it: 0-3,8", [](const NumaNode& n) { return n.cpus.list(); });
    f("memory_mib", "MiB", &NumaNode::memory_mib);
    f("package", "the nearest, from 0", &NumaNode::package);
    f("special", "no core's own: a device's memory, or high-bandwidth memory", &NumaNode::special);
}

namespace {

struct HcaRow {
    std::string port;
    std::optional<unsigned> rail;
    std::optional<std::string> pci;
    std::optional<int> numa_node;
    std::string cpus;
};

void fields(auto& f, Row<HcaRow> /*row*/) {
    f("port", "that NCCL uses: mlx5_1:1", &HcaRow::port);
    f("rail", "from 0; null: it is the only port", &HcaRow::rail);
    f("pci", "0000:53:00.0; null: no PCI device", &HcaRow::pci);
    f("numa_node", "null: not known", &HcaRow::numa_node);
    f("cpus", "near to it: 0-3,8; empty: not known", &HcaRow::cpus);
}

std::vector<HcaRow> hca_rows(const NodePlan& node) {
    const Rails rails = rails_of(node.facts.fabric, node.plan.fabric);
    std::vector<HcaRow> rows;
    for (const auto* port : node.plan.fabric.used()) {
        auto& row = rows.emplace_back();
        row.port = port->name();
        row.rail = rails.of(row.port);
        if (const auto* const hca = node.facts.fabric.find_hca(port->hca)) {
            row.pci = text_if_any(hca->pci);
            row.numa_node = hca->numa_node;
            row.cpus = place_of(*hca, node.places.topology).cpus.list();
        }
    }
    return rows;
}

std::vector<std::vector<std::string_view>> distance_names(const DistanceTable& distances) {
    return mapped(distances, [](const auto& row) { return mapped(row, distance_name); });
}

std::string_view source_name(CpuSource source) {
    return source == CpuSource::Slurm ? "slurm" : source == CpuSource::Shared ? "shared" : "scarce";
}

struct RankRow {
    const NodePlacement& placed;
    const RankPlacement& rank;
    std::size_t number;
};

void fields(auto& f, Row<RankRow> /*row*/) {
    f("local_rank", "on this node, from 0", [](const RankRow& r) { return r.number; });
    f("gpus", "the first is the one that it drives",
      [](const RankRow& r) { return names_at(r.placed.gpu_ids, r.rank.gpus); });
    f("mask", "CPUs that Slurm gave it: 0-3,8; empty: not known", [](const RankRow& r) {
        return r.number < r.placed.masks.size() ? r.placed.masks[r.number].list() : std::string();
    });
    f("cpus", "that it is to have: 0-3,8", [](const RankRow& r) { return r.rank.cpus.list(); });
    f("cores", "physical ones in cpus", [](const RankRow& r) { return r.rank.cores; });
    f("threads", "for OMP_NUM_THREADS", [](const RankRow& r) { return r.rank.threads(); });
    f("source", "slurm: its own CPUs; shared: a part of common ones; scarce: all of them",
      [](const RankRow& r) { return source_name(r.rank.source); });
    f("memory_node", "NUMA node to prefer; null: none", [](const RankRow& r) { return r.rank.memory_node; });
    f("gpu_to_cpus", "distance: same-numa, same-package, other or unknown",
      [](const RankRow& r) { return distance_name(r.rank.gpu_to_cpus); });
    f("hcas", "ports, nearest first: mlx5_1:1", [](const RankRow& r) { return names_at(r.placed.ports, r.rank.hcas); });
    f("to_hca", "distance to the first of them; null: there is no HCA",
      [](const RankRow& r) { return name_if_any(r.rank.hcas.empty() ? std::nullopt : std::optional(r.rank.to_hca)); });
}

std::vector<RankRow> rank_rows(const NodePlacement& placed) {
    std::vector<RankRow> rows;
    for (const auto& rank : placed.placement.ranks) {
        rows.push_back({placed, rank, rows.size()});
    }
    return rows;
}

std::vector<std::string> gpus_in_order(const NodePlacement& placed) {
    return names_at(placed.gpu_ids, placed.placement.gpu_order);
}

struct TopoReport {
    const std::string& host;
    const NodePlan& node;
    const Topology& topology;
    const NodePlacement& placed;
};

void fields(auto& f, Row<TopoReport> /*row*/) {
    f("schema", "1", [](const TopoReport& /*r*/) { return 1U; });
    f("host", "this node, or the name in the file, or the file's", [](const TopoReport& r) { return r.host; });
    f("source", "of the topology: hwloc 2.9.0, or a file's name",
      [](const TopoReport& r) { return r.topology.source; });
    f("problem", "why there is no topology; null: there is one",
      [](const TopoReport& r) { return r.node.places.problem; });
    f("packages", "how many there are; 0: not known", [](const TopoReport& r) { return r.topology.packages; });
    f("cores", "physical ones", [](const TopoReport& r) { return r.topology.cores.size(); });
    f("cpus", "that are online: 0-63", [](const TopoReport& r) { return r.topology.cpus().list(); });
    f("numa_nodes", "", [](const TopoReport& r) -> const std::vector<NumaNode>& { return r.topology.numa_nodes; });
    f("gpus", "that the ranks see", [](const TopoReport& r) { return gpu_rows(r.node); });
    f("hcas", "ports that NCCL uses", [](const TopoReport& r) { return hca_rows(r.node); });
    f("distances", "for each of gpus, those to each of hcas",
      [](const TopoReport& r) { return distance_names(r.placed.placement.gpu_to_hca); });
    f("left_out", "ports that NCCL does not use", [](const TopoReport& r) { return left_out(r.node); });
    f("nics_without_verbs", "", [](const TopoReport& r) { return nics_without_verbs(r.node); });
    f("gpu_distances", "over PCIe, for each of gpus, those to each; empty: more than 128 GPUs",
      [](const TopoReport& r) { return distance_names(between_gpus(r.node)); });
    f("gpu_links", "NVLink and XGMI, as far as the machine or the file tells",
      [](const TopoReport& r) { return link_rows(r.node); });
    f("tells_nearness", "false: all HCAs are alike to all GPUs",
      [](const TopoReport& r) { return r.placed.placement.nearness_known; });
    f("ranks", "", [](const TopoReport& r) { return rank_rows(r.placed); });
    f("gpu_order", "that makes LOCAL_RANK's GPU the near one; empty: as it is",
      [](const TopoReport& r) { return gpus_in_order(r.placed); });
    f("binds_cpus", "ranks are bound to their CPUs", [](const TopoReport& r) { return r.placed.binds_cpus; });
    f("binds_memory", "ranks prefer their memory node", [](const TopoReport& r) { return r.placed.binds_memory; });
    f("why", "the ranks have the CPUs that they have, in words",
      [](const TopoReport& r) { return binding_why(r.placed); });
    f("warnings", "in words", [](const TopoReport& r) { return r.placed.placement.warnings; });
    f("notes", "in words", [](const TopoReport& r) { return r.placed.placement.notes; });
}

} // namespace

Json placement_json(const NodePlan& node) {
    const auto& placed = node.places.placed;
    return {{"source", node.places.masks_source},
            {"why", binding_why(placed)},
            {"ranks", report_json(rank_rows(placed))},
            {"gpu_order", gpus_in_order(placed)},
            {"warnings", placed.placement.warnings}};
}

Json topo_json(const NodePlan& node, const std::string& host) {
    return report_json(TopoReport{host, node, node.places.topology, node.places.placed});
}

Json topo_schema() {
    return report_schema<TopoReport>();
}

} // namespace rdma_nccl
