// SPDX-License-Identifier: Apache-2.0
// Where each part of the picture lies: pure arithmetic, no drawing.
#pragma once

#include "tools/topo_parts.h"

#include <string_view>

namespace rdma_nccl {

/// Squares with the number of a rank.
inline constexpr int badge_width = 20;
inline constexpr int badge_height = 16;
inline constexpr int badge_step = badge_width + 3;
/// More ranks than these are not shown one by one.
inline constexpr std::size_t most_badges = 8;

/// Wide enough for all usual fonts: what is drawn in it is at most that wide.
int text_width(std::string_view text, int font_size);
int bold_width(std::string_view text, int font_size);

/// The texts of a part as they are shown: of printable characters, cut where they are too long.
std::string shown_label(const Part& part);
std::string shown_detail(const Part& part);

/// How many badges stand side by side on a part, and how many there are in all; the last one may be a "+9".
std::size_t badge_columns(const Part& part);
std::size_t badge_count(const Part& part);

/// Gives all parts their sizes, and their places within the parts around them; at most `width` wide where that can be.
void lay_out(Part& machine, int width);
/// Packages and NUMA nodes grow in width until they fill the picture.
void widen(Part& part, int width);
/// From places within the parts around to places in the picture.
void move_by(Part& part, int x, int y);

} // namespace rdma_nccl
