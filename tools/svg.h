// SPDX-License-Identifier: Apache-2.0
// The few elements of SVG that a picture of a machine needs. `style` is always a class of svg_head()'s.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace rdma_nccl {

struct Area;

/// Any text as it may stand between tags and in attributes. Lines stay; other bytes than printable ASCII become '?'.
std::string xml_text(std::string_view text);

/// Where a text stands with regard to its x.
enum class Anchor { Start, Middle };
std::string svg_text(int x, int y, std::string_view style, std::string_view text, Anchor anchor = Anchor::Start);

std::string svg_box(const Area& area, int radius, std::string_view style);

/// `content` with a text for who points at it.
std::string svg_group(std::string_view hint, std::string_view content);

/// The opening tag, with the styles for light and dark, and a background.
std::string svg_head(int width, int height, std::string_view title);
inline constexpr std::string_view svg_foot = "</svg>\n";

/// Ranks from this one on have the colours of the first ones again: 0 to colours - 1 are classes "fN" (filled), "iN"
/// (ink on it) and "tN" (tinted).
inline constexpr std::size_t svg_colours = 16;

} // namespace rdma_nccl
