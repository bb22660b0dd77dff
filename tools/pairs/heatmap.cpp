// SPDX-License-Identifier: Apache-2.0
// The node x node table of `rdma-nccl pairs` for a terminal.
#include "tools/pairs/output.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <optional>
#include <string_view>

namespace rdma_nccl::pairs {

namespace {

constexpr double good_share = 0.9, bad_share = 0.5;
constexpr std::size_t number_width = 6, percent_width = 4;

enum class Form { Numbers, Percents, Blocks };

/// The result from one node to another, on the slowest of its rails.
struct HeatCell {
    std::optional<double> gbps;
    bool failed = false;

    [[nodiscard]] bool empty() const { return !gbps && !failed; }
    /// Keeps the worse of the two values.
    void add(const HeatCell& other) {
        failed = failed || other.failed;
        if (other.gbps) {
            gbps = gbps ? std::min(*gbps, *other.gbps) : *other.gbps;
        }
    }
};

/// Rows send, columns receive. If nodes were measured again, the worse of old and new values counts.
class HeatMap {
public:
    explicit HeatMap(std::size_t nodes) : nodes_(nodes), cells_(nodes * nodes) {}

    [[nodiscard]] std::size_t nodes() const { return nodes_; }
    [[nodiscard]] const HeatCell& at(std::size_t from, std::size_t to) const { return cells_.at(from * nodes_ + to); }
    HeatCell& at(std::size_t from, std::size_t to) { return cells_.at(from * nodes_ + to); }
    /// Returns a map in which each cell is the worst of `by` x `by` cells of this one.
    [[nodiscard]] HeatMap folded(std::size_t by) const {
        HeatMap map((nodes_ + by - 1) / by);
        for (std::size_t from = 0; from < nodes_; ++from) {
            for (std::size_t to = 0; to < nodes_; ++to) {
                map.at(from / by, to / by).add(at(from, to));
            }
        }
        return map;
    }

private:
    std::size_t nodes_;
    std::vector<HeatCell> cells_;
};

HeatMap heat_map(const Report& report) {
    HeatMap map(report.nodes.size());
    for (const auto& result : report.results) {
        for (const auto& way : directions_of(result)) {
            map.at(way.from, way.to).add({figure_of(*way.bandwidth, &Bandwidth::gbps), !result.problem.empty()});
        }
    }
    return map;
}

struct Labels {
    std::vector<std::string> rows;
    std::vector<std::string> columns; ///< the names, or the parts in which they differ
    std::size_t row_width = 0, column_width = 0;
};

std::size_t common_start(const std::vector<std::string>& names) {
    const auto [first, last] = std::ranges::minmax_element(names); // what these share, all share
    return static_cast<std::size_t>(std::ranges::mismatch(*first, *last).in1 - first->begin());
}

std::size_t widest(const std::vector<std::string>& texts) {
    const auto sizes = mapped(texts, [](const std::string& text) { return text.size(); });
    return sizes.empty() ? 0 : std::ranges::max(sizes);
}

/// Keeps names that fit above the columns; shortens others to the part in which they differ.
Labels labels_of(std::vector<std::string> names, std::size_t cell) {
    Labels labels{names, names, widest(names), 0};
    if (widest(names) >= cell && names.size() > 1) {
        auto start = common_start(names);
        while (start > 0 && std::isdigit(static_cast<unsigned char>(names.front()[start - 1])) != 0) {
            --start; // do not split a number
        }
        for (auto& name : labels.columns) {
            name.erase(0, start);
        }
    }
    labels.column_width = widest(labels.columns);
    return labels;
}

/// Returns labels with numbers for rows and columns, for tables too narrow for names.
Labels numbered(const std::vector<std::string>& names) {
    Labels labels;
    const auto digits = format_text("{}", names.size()).size();
    for (std::size_t i = 0; i < names.size(); ++i) {
        labels.rows.push_back(format_text("{:>{}} {}", i + 1, digits, names[i]));
        labels.columns.push_back(format_text("{}", i + 1));
    }
    labels.row_width = widest(labels.rows);
    labels.column_width = digits;
    return labels;
}

std::string coloured(std::string text, std::string_view code, bool colours) {
    return colours && !code.empty() ? format_text("\x1b[{}m{}\x1b[0m", code, text) : std::move(text);
}

std::string_view colour_of(const HeatCell& cell, double median) {
    if (cell.empty()) {
        return "";
    }
    if (cell.failed || !cell.gbps || *cell.gbps < bad_share * median) {
        return "31";
    }
    return *cell.gbps < good_share * median ? "33" : "32";
}

/// Shows a value in eighths of the median as a block of that height. All good values look alike.
std::string block(const HeatCell& cell, double median, bool utf8) {
    constexpr std::array<std::string_view, 8> blocks{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    constexpr std::string_view digits = "0123456789";
    if (cell.failed) {
        return "x";
    }
    if (!cell.gbps) {
        return " ";
    }
    const double share = median > 0 ? *cell.gbps / median : 1;
    if (!utf8) {
        return share >= good_share ? "#" : std::string(1, digits.at(static_cast<std::size_t>(share * 10)));
    }
    const auto eighth = share >= good_share ? 7U : static_cast<unsigned>(std::clamp(share * 8, 0.0, 6.0));
    return std::string(blocks.at(eighth));
}

std::string cell_text(const HeatCell& cell, double median, Form form) {
    if (cell.failed) {
        return form == Form::Percents ? "x" : "fail";
    }
    if (!cell.gbps) {
        return "";
    }
    return form == Form::Numbers ? short_gbps(*cell.gbps)
                                 : format_text("{:.0f}", std::min(100 * *cell.gbps / median, 999.0));
}

std::string without_end(std::string line) {
    line.resize(line.find_last_not_of(' ') + 1);
    return line + "\n";
}

std::string table_of_cells(const HeatMap& map, const Labels& labels, double median, Form form, std::size_t width,
                           bool colours) {
    std::string line(labels.row_width, ' ');
    for (const auto& name : labels.columns) {
        line += format_text("{:>{}}", name, width);
    }
    std::string text = without_end(line);
    for (std::size_t from = 0; from < map.nodes(); ++from) {
        line = format_text("{:<{}}", labels.rows[from], labels.row_width);
        for (std::size_t to = 0; to < map.nodes(); ++to) {
            const auto& cell = map.at(from, to);
            const auto value = from == to && cell.empty() ? "-" : cell_text(cell, median, form);
            line += std::string(width - std::min(width, value.size()), ' ');
            line += coloured(value, colour_of(cell, median), colours);
        }
        text += without_end(line);
    }
    return text;
}

/// Returns a line with every tenth column number above its column.
std::string ruler(std::size_t indent, std::size_t count) {
    std::string line(indent, ' ');
    for (std::size_t i = 1; i <= count; ++i) {
        const auto number = format_text("{}", i);
        const bool shown = (i == 1 || i % 10 == 0) && line.size() < indent + i;
        if (shown) {
            line.resize(indent + i - 1, ' ');
            line += number;
        }
    }
    return without_end(line);
}

std::string table_of_blocks(const HeatMap& map, const Labels& labels, double median, const TextOptions& options) {
    std::string text = ruler(labels.row_width + 1, map.nodes());
    for (std::size_t from = 0; from < map.nodes(); ++from) {
        std::string line = format_text("{:<{}} ", labels.rows[from], labels.row_width);
        std::string run; // cells of one colour
        std::string_view run_colour;
        for (std::size_t to = 0; to < map.nodes(); ++to) {
            const auto& cell = map.at(from, to);
            const auto colour = colour_of(cell, median);
            if (colour != run_colour) {
                line += coloured(std::move(run), run_colour, options.colours);
                run.clear();
                run_colour = colour;
            }
            run += from == to && cell.empty() ? "\\" : block(cell, median, options.utf8);
        }
        text += without_end(line + coloured(std::move(run), run_colour, options.colours));
    }
    return text;
}

std::string legend(double median, bool utf8) {
    return format_text("{} 90 % of the median {} Gb/s or more, {} half of it, x failed\n", utf8 ? "█" : "#",
                       short_gbps(median), utf8 ? "▄" : "5");
}

/// Returns names of groups: "n[01-16]", cut if too long.
std::vector<std::string> group_names(const std::vector<std::string>& names, std::size_t by) {
    constexpr std::size_t longest = 24;
    std::vector<std::string> groups;
    for (std::size_t i = 0; i < names.size(); i += by) {
        const auto last = std::min(i + by, names.size());
        auto text = fold_hostlist(
            {names.begin() + static_cast<std::ptrdiff_t>(i), names.begin() + static_cast<std::ptrdiff_t>(last)});
        groups.push_back(text.size() <= longest ? std::move(text) : format_text("{} ...", names[i]));
    }
    return groups;
}

std::string blocks_that_fit(const HeatMap& map, const std::vector<std::string>& names, double median,
                            const TextOptions& options) {
    for (std::size_t by = 1;; ++by) {
        const auto labels = numbered(group_names(names, by));
        const auto folded = by == 1 ? map : map.folded(by);
        if (labels.row_width + 1 + folded.nodes() <= options.columns || folded.nodes() <= 1) {
            const auto groups = by == 1 ? "" : format_text("; a block for {} x {} nodes, the worst of them", by, by);
            return format_text("Row sends, column receives{}\n", groups) +
                   table_of_blocks(folded, labels, median, options) + legend(median, options.utf8);
        }
    }
}

} // namespace

std::string heat_table(const Report& report, const Verdict& verdict, const TextOptions& options) {
    const auto map = heat_map(report);
    const double median = verdict.median_gbps.value_or(0);
    const auto names = mapped(report.nodes, &measure::Node::name);
    const auto rails = most_rails(report.nodes);
    const auto of_rails = rails > 1 ? format_text(", the slowest of {} rails", rails) : "";
    const auto labels = labels_of(names, number_width);
    const auto cell = std::max(number_width, labels.column_width + 2);
    if (labels.row_width + cell * names.size() <= options.columns) {
        return format_text("Gb/s, row sends to column{}\n", of_rails) +
               table_of_cells(map, labels, median, Form::Numbers, cell, options.colours);
    }
    const auto short_labels = numbered(names);
    if (median > 0 && short_labels.row_width + percent_width * names.size() <= options.columns) {
        return format_text("% of the median {} Gb/s, row sends to column{}\n", short_gbps(median), of_rails) +
               table_of_cells(map, short_labels, median, Form::Percents, percent_width, options.colours);
    }
    return blocks_that_fit(map, names, median, options);
}

} // namespace rdma_nccl::pairs
