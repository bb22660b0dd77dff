// SPDX-License-Identifier: Apache-2.0
#include "tools/html/page.h"

#include "lib/base/format.h"
#include "lib/base/text.h"

#include <array>
#include <cmath>
#include <map>

namespace rdma_nccl {

namespace {

constexpr std::string_view frame =
#include "build/embedded/tools/html/page.html.inc"
    ;
constexpr std::string_view page_style =
#include "build/embedded/tools/html/page.css.inc"
    ;
constexpr std::string_view common_script =
#include "build/embedded/tools/html/page.js.inc"
    ;
constexpr std::string_view pairs_script =
#include "build/embedded/tools/pairs/page.js.inc"
    ;
constexpr std::string_view bench_script =
#include "build/embedded/tools/bench/page.js.inc"
    ;
constexpr std::string_view svg_style =
#include "build/embedded/tools/html/svg.css.inc"
    ;

/// Neighbours differ in hue and in lightness, so that they can be distinguished without colours.
constexpr std::array<std::string_view, svg_colours> colours = {
    "#2563eb", "#f59e0b", "#15803d", "#f472b6", "#7c3aed", "#22d3ee", "#dc2626", "#a3e635",
    "#92400e", "#5eead4", "#be185d", "#fde047", "#0e7490", "#c4b5fd", "#4d7c0f", "#fda4af"};

std::string colour_styles() {
    std::string text;
    for (std::size_t i = 0; i < colours.size(); ++i) {
        const auto* const ink = i % 2 == 0 ? "#fff" : "#111"; // contrast to the colour of 4.5 or more
        text += format_text(".f{0}{{fill:{1}}}\n.i{0}{{fill:{2}}}\n.t{0}{{fill:{1};fill-opacity:.2;stroke:{1};"
                            "stroke-width:2}}\n",
                            i, colours.at(i), ink);
    }
    return text;
}

/// Returns JSON for a <script> element. Without '<' no text in it can end the element or begin a comment.
std::string json_for_script(const Json& data) {
    std::string safe;
    for (const char c : data.dump()) {
        safe += c == '<' ? std::string_view("\\u003c") : std::string_view(&c, 1);
    }
    return safe;
}

} // namespace

std::string page_html(Page page, std::string_view title, const Json& data) {
    const std::map<std::string_view, std::string> parts = {
        {"title", xml_text(title)},
        {"style", std::string(page_style)},
        {"data", json_for_script(data)},
        {"script", std::string(common_script).append(page == Page::Pairs ? pairs_script : bench_script)},
    };
    std::string html;
    bool is_name = false;
    for (const auto text : split(frame, '@')) { // does not scan inserted text: the data may contain "@title@"
        html += is_name ? std::string_view(parts.at(text)) : text;
        is_name = !is_name;
    }
    return html;
}

Json page_number(double value) {
    if (!std::isfinite(value)) {
        return nullptr;
    }
    if (value == 0) {
        return 0;
    }
    const double digits = std::pow(10, 4 - std::floor(std::log10(std::abs(value)))); // for five significant digits
    const double rounded = std::round(value * digits) / digits;
    return std::isfinite(rounded) ? rounded : value;
}

std::string xml_text(std::string_view text) {
    static const std::map<char, std::string_view> entities = {
        {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}};
    std::string safe;
    for (const char c : text) {
        if (const auto entity = entities.find(c); entity != entities.end()) {
            safe += entity->second;
        } else {
            safe += c == '\n' || (c >= ' ' && c <= '~') ? c : '?';
        }
    }
    return safe;
}

std::string svg_text(int x, int y, std::string_view style, std::string_view text, Anchor anchor) {
    return format_text("<text x=\"{}\" y=\"{}\" class=\"{}\"{}>{}</text>\n", x, y, style,
                       anchor == Anchor::Middle ? " text-anchor=\"middle\"" : "", xml_text(text));
}

std::string svg_box(const Area& area, int radius, std::string_view style) {
    return format_text("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"{}\" class=\"{}\"/>\n", area.x, area.y,
                       area.width, area.height, radius, style);
}

std::string svg_group(std::string_view hint, std::string_view content) {
    constexpr std::size_t longest_hint = 2000;
    return format_text("<g><title>{}</title>\n{}</g>\n", xml_text(hint.substr(0, longest_hint)), content);
}

std::string svg_head(int width, int height, std::string_view title) {
    // In a narrow window the picture is scrolled before its smallest texts become unreadable.
    return format_text("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
                       "height=\"{1}\" role=\"img\">\n<title>{2}</title>\n<style>\n"
                       "svg{{color-scheme:light dark;background:#f4f6f9;display:block;margin:0 auto;width:100%;"
                       "height:auto;min-width:{3}px;max-width:{4}px}}\n{5}{6}</style>\n",
                       width, height, xml_text(title), width * 3 / 4, width * 5 / 4, svg_style, colour_styles()) +
           svg_box({0, 0, width, height}, 0, "page");
}

} // namespace rdma_nccl
