// SPDX-License-Identifier: Apache-2.0
#include "tools/topo/topo.h"

#include "lib/base/lists.h"
#include "lib/base/text.h"

#include <algorithm>
#include <array>
#include <span>

namespace rdma_nccl {

namespace {

/// Space inside a box: at its edges, between its parts, and above them for its label. Other kinds have no parts.
struct Spacing {
    PartKind kind;
    int edge;
    int gap;
    int top;
};

constexpr std::array<Spacing, 8> spacings = {{{PartKind::Machine, 0, 16, 0},
                                              {PartKind::Package, 12, 10, 36},
                                              {PartKind::Elsewhere, 12, 10, 36},
                                              {PartKind::Numa, 10, 8, 32},
                                              {PartKind::Cache, 0, 2, 0},
                                              {PartKind::Card, 5, 5, 5},
                                              {PartKind::Switch, 8, 8, 24},
                                              {PartKind::HostBridge, 8, 8, 24}}};

constexpr int core_size = 15;
constexpr std::size_t most_cores_in_row = 32;
constexpr int cache_gap = 5;

bool is_device(PartKind kind) {
    return kind == PartKind::Gpu || kind == PartKind::Hca;
}

/// Least width of parts that are placed side by side with equal size; 0 for parts that flow in rows.
int least_width(PartKind kind) {
    return kind == PartKind::Package ? 632 : kind == PartKind::Numa ? 299 : 0;
}

/// All devices have the same width, which the longest name determines.
int device_width(const Part& part) {
    int width = is_device(part.kind) ? std::max(bold_width(shown_label(part), 13) + 8, 88) : 0;
    for (const auto& each : part.parts) {
        width = std::max(width, device_width(each));
    }
    return width;
}

int heading_width(const Part& part) {
    const auto detail = shown_detail(part);
    return detail.empty() ? text_width(shown_label(part), 11)
                          : bold_width(shown_label(part), 12) + 8 + text_width(detail, 11);
}

int divide_up(int a, int b) {
    return (a + b - 1) / b;
}

void size_leaf(Part& part, int device) {
    auto& [x, y, width, height] = part.area;
    const int badges = static_cast<int>(badge_count(part));
    switch (part.kind) {
    case PartKind::Core:
        width = height = core_size;
        break;
    case PartKind::Share:
        width = badges * badge_step + text_width(shown_label(part), 11) + 12;
        height = badge_height + 2;
        break;
    case PartKind::Memory:
        width = heading_width(part) + 20;
        height = 28;
        break;
    default:
        width = device;
        height = 40 + std::max(divide_up(badges, static_cast<int>(badge_columns(part))), 1) * (badge_height + 3) + 3;
    }
}

/// Places one box after the other. Sizes are computed from the innermost boxes outwards.
struct Flow {
    int device; ///< width

    /// Computes the size of `part`, and the positions of its parts relative to it.
    void box(Part& part, int width) {
        const auto* const space = find_by(spacings, &Spacing::kind, part.kind);
        if (space == nullptr) {
            size_leaf(part, device);
            return;
        }
        const int within = width - 2 * space->edge;
        int y = space->top;
        int used = heading_width(part);
        for (auto run = part.parts.begin(); run != part.parts.end();) {
            const auto end =
                std::find_if(run, part.parts.end(), [&](const Part& next) { return next.kind != run->kind; });
            const std::span<Part> members(&*run, static_cast<std::size_t>(end - run));
            const auto size =
                least_width(run->kind) > 0 ? columns(members, within, space->gap) : rows(members, within, space->gap);
            for (auto& member : members) {
                member.area.x += space->edge;
                member.area.y += y;
            }
            used = std::max(used, size.width);
            y += size.height + space->gap;
            run = end;
        }
        part.area.width = used + 2 * space->edge;
        part.area.height = (part.parts.empty() ? y : y - space->gap) + space->edge;
    }

private:
    /// Places boxes of equal width side by side.
    Area columns(std::span<Part> members, int width, int gap) {
        const int least = least_width(members.front().kind);
        const int number = static_cast<int>(members.size());
        const int most = std::clamp((width + gap) / (least + gap), 1, number);
        const int in_row = divide_up(number, divide_up(number, most));
        int widest = 0;
        for (auto& member : members) {
            box(member, (width - (in_row - 1) * gap) / in_row);
            widest = std::max(widest, member.area.width);
        }
        for (auto& member : members) {
            member.area.width = widest;
        }
        return place(members, widest * in_row + gap * (in_row - 1), gap);
    }

    /// Places boxes one after the other; rows of equal parts have the same length.
    Area rows(std::span<Part> members, int width, int gap) {
        for (auto& member : members) {
            box(member, width);
        }
        const auto kind = members.front().kind;
        if (kind == PartKind::Core || is_device(kind)) {
            const int number = static_cast<int>(members.size());
            const int step = members.front().area.width + gap;
            const int most = kind == PartKind::Core ? static_cast<int>(most_cores_in_row) : number;
            const int in_row = divide_up(number, divide_up(number, std::clamp((width + gap) / step, 1, most)));
            return place(members, in_row * step - gap, gap);
        }
        return place(members, width, kind == PartKind::Cache ? cache_gap : gap);
    }

    /// Places boxes in rows of at most `width`; the boxes of a row have the same height.
    static Area place(std::span<Part> members, int width, int gap) {
        Area all;
        for (std::size_t begin = 0; begin < members.size();) {
            int x = 0;
            int height = 0;
            std::size_t end = begin;
            while (end < members.size() && (end == begin || x + members[end].area.width <= width)) {
                members[end].area.x = x;
                x += members[end].area.width + gap;
                height = std::max(height, members[end].area.height);
                ++end;
            }
            for (auto& member : members.subspan(begin, end - begin)) {
                member.area.y = all.height;
                member.area.height = height;
            }
            all.width = std::max(all.width, x - gap);
            all.height += height + gap;
            begin = end;
        }
        all.height -= gap;
        return all;
    }
};

/// Returns true for parts that stand in columns or, like the devices without a known place, fill the width.
bool grows(PartKind kind) {
    return least_width(kind) > 0 || kind == PartKind::Elsewhere;
}

} // namespace

int text_width(std::string_view text, int font_size) {
    return (static_cast<int>(text.size()) * font_size * 61 + 99) / 100;
}

int bold_width(std::string_view text, int font_size) {
    return text_width(text, font_size) * 9 / 8;
}

std::string shown_label(const Part& part) {
    const auto text = printable(part.label, part.kind == PartKind::Share ? 30 : 24);
    return part.kind == PartKind::Share ? "CPUs " + text : text;
}

std::string shown_detail(const Part& part) {
    return printable(part.detail, is_device(part.kind) ? 14 : 60);
}

std::size_t badge_columns(const Part& part) {
    return is_device(part.kind)
               ? static_cast<std::size_t>((part.area.width > 0 ? part.area.width - 12 : 76) / badge_step)
               : most_badges + 1;
}

std::size_t badge_count(const Part& part) {
    return std::min(part.ranks.size(), most_badges);
}

void lay_out(Part& machine, int width) {
    Flow{device_width(machine)}.box(machine, width);
}

void widen(Part& part, int width) {
    part.area.width = width;
    const auto& space = *find_by(spacings, &Spacing::kind, part.kind);
    auto& parts = part.parts;
    for (auto run = parts.begin(); run != parts.end();) {
        const auto end = std::find_if(run, parts.end(), [&](const Part& next) { return next.kind != run->kind; });
        const auto in_row = std::count_if(run, end, [&](const Part& next) { return next.area.y == run->area.y; });
        const int columns = static_cast<int>(in_row);
        const int each = (width - 2 * space.edge - (columns - 1) * space.gap) / columns;
        for (int i = 0; run != end; ++run, ++i) {
            if (grows(run->kind)) {
                run->area.x = space.edge + i % columns * (each + space.gap);
                widen(*run, each);
            }
        }
    }
}

void move_by(Part& part, int x, int y) {
    part.area.x += x;
    part.area.y += y;
    for (auto& each : part.parts) {
        move_by(each, part.area.x, part.area.y);
    }
}

} // namespace rdma_nccl
