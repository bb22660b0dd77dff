// SPDX-License-Identifier: Apache-2.0
// Self-contained pages for browsers, which need no network. Their sources are here and beside the commands (page.js);
// the build turns them into literals. And pictures, as SVG.
#pragma once

#include "lib/base/json.h"

#include <cstddef>
#include <string>
#include <string_view>

namespace rdma_nccl {

enum class Page { Pairs, Bench };

/// Returns the page with its data, which may hold any text: the page's script gets it as values, never as markup.
std::string page_html(Page page, std::string_view title, const Json& data);

/// Rounds to five significant digits, because pages hold many numbers. Values that are not finite become null.
Json page_number(double value);

// The few elements of SVG that a picture of a machine needs. `style` is always a CSS class from svg_head().

/// Position and size of a shape in pixels.
struct Area {
    int x = 0;
    int y = 0;
    int width = 0;
    int height = 0;
};

/// Escapes any text for use between tags and in attributes. Newlines stay; other bytes than printable ASCII become '?'.
std::string xml_text(std::string_view text);

/// Position of a text relative to its x.
enum class Anchor { Start, Middle };
std::string svg_text(int x, int y, std::string_view style, std::string_view text, Anchor anchor = Anchor::Start);

std::string svg_box(const Area& area, int radius, std::string_view style);

/// Returns a group of `content`, with a text that is shown when the pointer is on it.
std::string svg_group(std::string_view hint, std::string_view content);

/// Returns the opening tag with the styles for light and dark, and a background.
std::string svg_head(int width, int height, std::string_view title);
inline constexpr std::string_view svg_foot = "</svg>\n";

/// Number of colours; ranks from this number on use the colours of the first ones again. The classes of colours 0 to
/// svg_colours - 1 are "fN" (filled), "iN" (ink on it) and "tN" (tinted).
inline constexpr std::size_t svg_colours = 16;

} // namespace rdma_nccl
