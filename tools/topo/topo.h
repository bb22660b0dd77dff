// SPDX-License-Identifier: Apache-2.0
// rdma-nccl topo: GPUs, HCAs and CPUs of this node, their distances, and the places of its ranks.
#pragma once

#include "lib/base/format.h"
#include "lib/base/json.h"
#include "lib/order/network.h"
#include "tools/html/page.h"
#include "tools/node/node_plan.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rdma_nccl {

/// Returns the report for users in ASCII: NUMA nodes, GPUs with their nearest HCAs, distances, ranks, warnings.
std::string topo_text(const NodePlan& node, const std::string& host);

/// The rails of the ports that a node uses.
struct NodeRails {
    std::string why;                                     ///< "by network"; empty: fewer than two ports are used
    std::vector<std::pair<std::string, unsigned>> ports; ///< "mlx5_1:1" and its rail, in NCCL's order of HCAs' names

    friend auto operator<=>(const NodeRails&,
                            const NodeRails&) = default; // NOLINT(modernize-use-nullptr): LLVM 14 errs
};
NodeRails rails_of_node(const NodePlan& node);

/// Returns an empty line and "TITLE by network: mlx5_1:1=0, mlx5_2:1=1"; an empty text where no two ports are used.
std::string rails_text(const NodeRails& rails, std::string_view title);

/// The network of the nodes of a step or job.
struct StepNetwork {
    std::vector<std::string> nodes;
    NetworkPlaces places;                                ///< of each node
    std::map<std::string, NodeRails, std::less<>> rails; ///< by node, of those that are known
};

/// Returns a table of the switches or blocks, from the outermost ones, with their nodes; below it the rails, a line for
/// all nodes that have the same.
std::string network_text(const StepNetwork& network);

/// Returns the network for programs, schema 1.
Json network_json(const StepNetwork& network);
/// Returns the JSON Schema of network_json().
Json network_schema();

/// Returns what a node reports of its rails; and the other way round, the node's name and its rails. nullopt if the
/// text is no such report.
std::string write_rails(std::string_view node, const NodeRails& rails);
std::optional<std::pair<std::string, NodeRails>> read_rails(std::string_view report);

/// Returns a size like "512 GiB" or "1.5 GiB".
std::string memory_text(std::uint64_t mib);

template<typename T>
std::string number_text(const std::optional<T>& number) {
    return number ? format_text("{}", *number) : "-";
}

/// Returns the GPU that ranks see at this index; nullptr if its PCI function is unknown.
const Gpu* gpu_at(const NodePlan& node, std::size_t i);

/// Returns those of `names` at these indices.
std::vector<std::string> names_at(const std::vector<std::string>& names, const std::vector<std::size_t>& indices);

/// Returns the columns CPUs, cores, threads, memory node, first HCA and the distance to it of a rank; "-": none.
TableRow rank_cells(const NodePlacement& placed, const RankPlacement& rank);

/// Returns only the table of the ranks; also used by `explain`.
std::string ranks_table(const NodePlan& node, std::string_view indent);

/// Returns the report for programs, schema 1; doc/schema/topo.json lists the keys. Distances are distance_name()s;
/// distances[i][j] is from GPU i to HCA j.
Json topo_json(const NodePlan& node, const std::string& host);
/// Returns the JSON Schema of topo_json().
Json topo_schema();

/// Returns the report on the ranks only, also used by `explain`: {"source","why","ranks","gpu_order","warnings"}.
Json placement_json(const NodePlan& node);

/// Returns a picture for a browser, in light and dark, that needs no other files: packages, NUMA nodes with their
/// cores, PCIe switches, GPUs, HCAs, and the ranks' places in colours.
std::string topo_svg(const NodePlan& node, const std::string& host);

// The content of the picture of a machine, as nested parts: packages, NUMA nodes, cores, PCIe switches, GPUs, HCAs; and
// their positions. Texts are unescaped; the drawing code must escape them.

/// In the order of their position within a part.
enum class PartKind {
    Machine,
    Package,
    Numa,
    Cache, ///< cores with a common last-level cache
    Core,
    Share,  ///< a set of CPUs of a NUMA node that ranks have
    Memory, ///< a NUMA node without cores
    Gpu,
    Hca,
    Card,   ///< functions on one link
    Switch, ///< of PCIe
    HostBridge,
    Elsewhere, ///< devices whose place the machine does not report
};

struct Part {
    PartKind kind = PartKind::Machine;
    std::string label = {};
    std::string detail = {};
    std::string hint = {};               ///< shown when the pointer is on the part
    std::vector<std::size_t> ranks = {}; ///< local ranks that use it
    bool used = true;
    std::vector<Part> parts = {};
    Area area = {}; ///< set by lay_out()
};

/// Returns the whole machine, without areas.
Part machine_parts(const NodePlan& node);

// The position of each part: pure arithmetic, no drawing.

/// Squares with a rank's number.
inline constexpr int badge_width = 20;
inline constexpr int badge_height = 16;
inline constexpr int badge_step = badge_width + 3;
/// Most badges on a part; more ranks are not shown individually.
inline constexpr std::size_t most_badges = 8;

/// Returns an upper bound of the width in pixels that the text has in all usual fonts.
int text_width(std::string_view text, int font_size);
int bold_width(std::string_view text, int font_size);

/// Return the texts of a part as shown: printable characters, cut if they are too long.
std::string shown_label(const Part& part);
std::string shown_detail(const Part& part);

/// Return how many badges stand side by side on a part, and how many there are in all; the last one may be a "+9".
std::size_t badge_columns(const Part& part);
std::size_t badge_count(const Part& part);

/// Sets the sizes of all parts, and their positions within the parts around them. The result is at most `width` wide if
/// possible.
void lay_out(Part& machine, int width);
/// Widens packages and NUMA nodes until they fill the picture.
void widen(Part& part, int width);
/// Converts positions within the surrounding parts to positions in the picture.
void move_by(Part& part, int x, int y);

} // namespace rdma_nccl
