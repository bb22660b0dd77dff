// SPDX-License-Identifier: Apache-2.0
#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "lib/plan/node_placement.h"
#include "tools/html/page.h"
#include "tools/topo/topo.h"

#include <algorithm>
#include <array>

namespace rdma_nccl {

namespace {

constexpr int margin = 24;
constexpr int most_width = 1280;
constexpr int least_width = 720;
constexpr int line_height = 18;
constexpr int row_height = 24;

std::string coloured(char kind, std::size_t rank) {
    return format_text("{}{}", kind, rank % svg_colours);
}

std::string badge(int x, int y, std::size_t rank) {
    const int width = rank < 1000 ? badge_width : badge_width + 2;
    return svg_box({x, y, width, badge_height}, 4, coloured('f', rank)) +
           svg_text(x + badge_width / 2, y + badge_height - 4,
                    (rank < 100 ? "badge " : "number ") + coloured('i', rank), format_text("{}", rank), Anchor::Middle);
}

/// Returns the badges of a part's ranks. If there are very many, only the first and the number of the rest.
std::string badges(const Part& part, int x, int y) {
    std::string text;
    const std::size_t shown = badge_count(part);
    const std::size_t columns = badge_columns(part);
    for (std::size_t i = 0; i < shown; ++i) {
        const int left = x + static_cast<int>(i % columns) * badge_step;
        const int top = y + static_cast<int>(i / columns) * (badge_height + 3);
        const std::size_t more = part.ranks.size() - shown + 1;
        text += i + 1 == shown && more > 1 ? svg_text(left + badge_width / 2, top + badge_height - 4, "small",
                                                      more < 1000 ? format_text("+{}", more) : "...", Anchor::Middle)
                                           : badge(left, top, part.ranks[i]);
    }
    return text;
}

std::string core_picture(const Part& part) {
    const auto& area = part.area;
    if (part.ranks.empty() || part.ranks.size() > 2) {
        return svg_box(area, 2, part.ranks.empty() ? "free" : "many");
    }
    if (part.ranks.size() == 2) {
        const int half = area.width / 2;
        return svg_box({area.x, area.y, half, area.height}, 2, coloured('f', part.ranks[0])) +
               svg_box({area.x + half, area.y, area.width - half, area.height}, 2, coloured('f', part.ranks[1]));
    }
    const auto rank = part.ranks.front();
    const auto number = rank < 100 ? svg_text(area.x + area.width / 2, area.y + area.height - 4,
                                              "number " + coloured('i', rank), format_text("{}", rank), Anchor::Middle)
                                   : "";
    return svg_box(area, 2, coloured('f', rank)) + number;
}

std::string device_picture(const Part& part) {
    const auto& area = part.area;
    const int radius = part.kind == PartKind::Gpu ? 3 : 14;
    const bool own_colour = part.ranks.size() == 1;
    const int centre = area.x + area.width / 2;
    std::string text = svg_box(area, radius, part.used ? "device" : "pale");
    text += own_colour ? svg_box(area, radius, coloured('t', part.ranks.front())) : "";
    text += svg_text(centre, area.y + 18, part.used ? "name" : "soft", shown_label(part), Anchor::Middle);
    text += svg_text(centre, area.y + 33, "soft", shown_detail(part), Anchor::Middle);
    if (!part.used) {
        return text + svg_text(centre, area.y + 52, "soft", "not used", Anchor::Middle);
    }
    const auto in_row = std::min(badge_columns(part), badge_count(part));
    const int width = static_cast<int>(in_row) * badge_step - (badge_step - badge_width);
    return text + badges(part, centre - width / 2, area.y + 41);
}

struct BoxStyle {
    PartKind kind;
    std::string_view box;
    int radius;
    int text_x;
    int text_y;
    std::string_view label;
};

constexpr std::array<BoxStyle, 6> box_styles = {{{PartKind::Package, "package", 10, 14, 24, "name"},
                                                 {PartKind::Elsewhere, "elsewhere", 10, 14, 24, "name"},
                                                 {PartKind::Numa, "numa", 6, 10, 20, "label"},
                                                 {PartKind::Memory, "numa", 6, 10, 18, "label"},
                                                 {PartKind::Switch, "switch", 5, 8, 16, "small"},
                                                 {PartKind::HostBridge, "bridge", 5, 8, 16, "soft"}}};

std::string box_picture(const Part& part) {
    const auto& style = *find_by(box_styles, &BoxStyle::kind, part.kind);
    const auto label = shown_label(part);
    const int x = part.area.x + style.text_x;
    const int y = part.area.y + style.text_y;
    return svg_box(part.area, style.radius, style.box) + svg_text(x, y, style.label, label) +
           (part.detail.empty() ? "" : svg_text(x + bold_width(label, 12) + 8, y, "soft", shown_detail(part)));
}

/// Returns the part itself, without its parts.
std::string shape(const Part& part) {
    switch (part.kind) {
    case PartKind::Machine:
    case PartKind::Cache:
        return "";
    case PartKind::Core:
        return svg_group(part.hint, core_picture(part));
    case PartKind::Share: {
        const int x = part.area.x + static_cast<int>(badge_count(part)) * badge_step + 4;
        return svg_group(part.hint, badges(part, part.area.x, part.area.y) +
                                        svg_text(x, part.area.y + badge_height - 4, "small", shown_label(part)));
    }
    case PartKind::Gpu:
    case PartKind::Hca:
        return svg_group(part.hint, device_picture(part));
    case PartKind::Card:
        return svg_group(part.hint, svg_box(part.area, 5, "card"));
    default:
        return svg_group(part.hint.empty() ? part.label : part.hint, box_picture(part));
    }
}

std::string picture(const Part& part) {
    std::string text = shape(part);
    for (const auto& each : part.parts) {
        text += picture(each);
    }
    return text;
}

constexpr std::size_t column_count = 8;

TableRow rank_row(const NodePlacement& placed, const RankPlacement& rank) {
    auto cells = rank_cells(placed, rank);
    cells[0] = printable(cells[0], 40);
    cells[3] = cells[3] == "-" ? "-" : "NUMA node " + cells[3];
    cells[4] = printable(cells[4], 24);
    TableRow row = {"", or_dash(printable(joined(names_at(placed.gpu_ids, rank.gpus), ","), 24))};
    append(row, std::move(cells));
    return row;
}

/// The ranks' places as text.
struct RankTable {
    std::vector<TableRow> rows;
    std::array<int, column_count + 1> columns{}; ///< left edges, and the right end
};

RankTable rank_table(const NodePlacement& placed) {
    RankTable table;
    table.rows.push_back({"Local rank", "GPU", "CPUs", "Cores", "Threads", "Memory", "First HCA", "Through"});
    append(table.rows,
           mapped(placed.placement.ranks, [&](const RankPlacement& rank) { return rank_row(placed, rank); }));
    for (std::size_t column = 0; column < column_count; ++column) {
        const int width = std::ranges::max(
            mapped(table.rows, [column](const TableRow& row) { return text_width(row.at(column), 12); }));
        table.columns.at(column + 1) = table.columns.at(column) + width + 20;
    }
    return table;
}

/// Widens the table to the width of the picture, with equal extra space for each column.
std::string table_picture(const RankTable& table, int y, int width) {
    const int room = (width - table.columns.back()) / static_cast<int>(column_count);
    std::string text;
    for (std::size_t i = 0; i < table.rows.size(); ++i) {
        const int top = y + static_cast<int>(i) * row_height;
        if (i > 0) {
            text += format_text("<path d=\"M{} {}h{}\" class=\"line\"/>\n", margin, top, width);
            text += badge(margin + 22, top + 4, i - 1);
        }
        for (std::size_t column = 0; column < column_count; ++column) {
            const auto& cell = table.rows[i].at(column);
            if (!cell.empty()) {
                const int x = margin + table.columns.at(column) + room * static_cast<int>(column);
                text += svg_text(x, top + 16, i == 0 ? "soft" : "cell", cell);
            }
        }
    }
    return text;
}

struct Line {
    std::string style;
    std::string text;
};

/// Adds the text as lines of at most `width` pixels, broken at spaces.
void add_wrapped(std::vector<Line>& lines, const std::string& style, const std::string& text, int width) {
    const auto safe = printable(text, 1000);
    std::string line;
    for (const auto word : split_words(safe)) {
        if (!line.empty() && text_width(line, 12) + text_width(word, 12) + 8 > width) {
            lines.push_back({style, std::move(line)});
            line.clear();
        }
        line += (line.empty() ? "" : " ") + std::string(word);
    }
    lines.push_back({style, std::move(line)});
}

std::string lines_picture(const std::vector<Line>& lines, int y) {
    std::string text;
    for (std::size_t i = 0; i < lines.size(); ++i) {
        text += svg_text(margin, y + static_cast<int>(i) * line_height, lines[i].style, lines[i].text);
    }
    return text;
}

std::vector<Line> head_lines(const NodePlan& node, int width) {
    std::vector<Line> lines;
    const auto& topology = node.places.topology;
    const auto& problem = node.places.problem;
    add_wrapped(
        lines, problem ? "warning" : "soft",
        problem ? "CPUs not known: " + *problem
                : format_text("{}CPUs: {}, GPUs: {}, HCAs: {}",
                              topology.packages == 0
                                  ? ""
                                  : format_text("packages: {}, cores: {}, ", topology.packages, topology.cores.size()),
                              topology.cpus().size(), node.facts.fabric.gpus.size(), node.facts.fabric.hcas.size()),
        width);
    add_wrapped(lines, "soft",
                "Numbers in colours are local ranks: on their GPUs (corners), their cores, and the first of their HCAs "
                "(round). Grey cores belong to no rank or, darker, to several.",
                width);
    return lines;
}

std::vector<Line> foot_lines(const NodePlan& node, int width) {
    std::vector<Line> lines;
    add_wrapped(lines, "soft", format_text("{} ({})", binding_why(node.places.placed), node.places.masks_source),
                width);
    for (const auto& warning : node.places.placed.placement.warnings) {
        add_wrapped(lines, "warning", "warning: " + warning, width);
    }
    for (const auto& note : node.places.placed.placement.notes) {
        add_wrapped(lines, "soft", "note: " + note, width);
    }
    return lines;
}

} // namespace

std::string topo_svg(const NodePlan& node, const std::string& host) {
    const auto table = rank_table(node.places.placed);
    Part machine = machine_parts(node);
    lay_out(machine, most_width);
    const int width = std::max({machine.area.width, table.columns.back(), least_width});
    const auto head = head_lines(node, width);
    const auto foot = foot_lines(node, width);
    constexpr int first_line = margin + 42;
    const int top = first_line + static_cast<int>(head.size()) * line_height;
    widen(machine, width);
    move_by(machine, margin, top);
    const int table_top = top + machine.area.height + 20;
    const int foot_top = table_top + static_cast<int>(table.rows.size()) * row_height + 20;
    const int height = foot_top + static_cast<int>(foot.size()) * line_height + margin - 8;
    const auto name = or_dash(printable(host, 64));
    return svg_head(width + 2 * margin, height, "Topology of " + name) + svg_text(margin, margin + 18, "title", name) +
           lines_picture(head, first_line) + picture(machine) + table_picture(table, table_top, width) +
           lines_picture(foot, foot_top) + std::string(svg_foot);
}

} // namespace rdma_nccl
