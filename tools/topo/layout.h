// SPDX-License-Identifier: Apache-2.0
// Computes the position of each part of the picture: pure arithmetic, no drawing.
#pragma once

#include "tools/topo/parts.h"

#include <string_view>

namespace rdma_nccl {

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
