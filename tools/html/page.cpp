// SPDX-License-Identifier: Apache-2.0
#include "tools/html/page.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"

#include <array>
#include <cmath>

namespace rdma_nccl {

namespace {

constexpr std::string_view frame =
#include "build/pages/tools/html/page.html.inc"
    ;
constexpr std::string_view page_style =
#include "build/pages/tools/html/page.css.inc"
    ;
constexpr std::string_view common_script =
#include "build/pages/tools/html/page.js.inc"
    ;
constexpr std::string_view pairs_script =
#include "build/pages/tools/pairs/page.js.inc"
    ;
constexpr std::string_view bench_script =
#include "build/pages/tools/bench/page.js.inc"
    ;

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
    std::string html;
    std::string_view left = frame;
    // Do not scan inserted text again: the data may contain "@title@".
    while (true) {
        const auto begin = left.find('@');
        const auto end = begin == std::string_view::npos ? begin : left.find('@', begin + 1);
        if (end == std::string_view::npos) {
            return html.append(left);
        }
        html.append(left.substr(0, begin));
        const std::string_view name = left.substr(begin + 1, end - begin - 1);
        left.remove_prefix(end + 1);
        if (name == "title") {
            html.append(xml_text(title));
        } else if (name == "style") {
            html.append(page_style);
        } else if (name == "data") {
            html.append(json_for_script(data));
        } else if (name == "script") {
            html.append(common_script).append(page == Page::Pairs ? pairs_script : bench_script);
        }
    }
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

namespace {

struct Entity {
    char character;
    std::string_view name;
};
constexpr std::array<Entity, 5> entities = {
    {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}}};

struct Colour {
    std::string_view fill;
    std::string_view ink; ///< contrast to `fill` of 4.5 or more
};

/// Neighbours differ in hue and in lightness, so that they can be distinguished without colours.
constexpr std::array<Colour, svg_colours> colours = {{{"#2563eb", "#fff"},
                                                      {"#f59e0b", "#111"},
                                                      {"#15803d", "#fff"},
                                                      {"#f472b6", "#111"},
                                                      {"#7c3aed", "#fff"},
                                                      {"#22d3ee", "#111"},
                                                      {"#dc2626", "#fff"},
                                                      {"#a3e635", "#111"},
                                                      {"#92400e", "#fff"},
                                                      {"#5eead4", "#111"},
                                                      {"#be185d", "#fff"},
                                                      {"#fde047", "#111"},
                                                      {"#0e7490", "#fff"},
                                                      {"#c4b5fd", "#111"},
                                                      {"#4d7c0f", "#fff"},
                                                      {"#fda4af", "#111"}}};

constexpr std::string_view styles = R"(
text{font-family:system-ui,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;fill:#1b2330;font-size:12px}
.title{font-size:20px;font-weight:600}
.label{font-weight:600}
.name{font-size:13px;font-weight:600}
.small{font-size:11px}
.soft{fill:#566173;font-size:11px}
.number{font-size:9px;font-weight:600}
.badge{font-size:11px;font-weight:700}
.page{fill:#f4f6f9}
.package{fill:#fff;stroke:#b9c2cf}
.numa{fill:#f4f6f9;stroke:#d3dae3}
.bridge{fill:#e9edf3;stroke:#c3ccd8}
.switch{fill:#dbe2ec;stroke:#a9b5c5}
.card{fill:none;stroke:#8995a7;stroke-dasharray:3 2}
.elsewhere{fill:none;stroke:#8995a7;stroke-dasharray:5 4}
.free{fill:#d5dce5}
.many{fill:#9aa6b6}
.device{fill:#fff;stroke:#8995a7}
.pale{fill:none;stroke:#b3bdca}
.line{stroke:#d3dae3}
.warning{fill:#b42318}
@media (prefers-color-scheme:dark){
svg{background:#12161c}
text{fill:#e8ecf2}
.soft{fill:#a3aebd}
.page{fill:#12161c}
.package{fill:#1a2029;stroke:#3f4a59}
.numa{fill:#212934;stroke:#37424f}
.bridge{fill:#2a3340;stroke:#465263}
.switch{fill:#364152;stroke:#5a6880}
.card,.elsewhere{stroke:#7c899b}
.free{fill:#3a4554}
.many{fill:#77849a}
.device{fill:#1a2029;stroke:#8090a6}
.pale{stroke:#566375}
.line{stroke:#37424f}
.warning{fill:#ff9b8f}
}
)";

std::string colour_styles() {
    std::string text;
    for (std::size_t i = 0; i < colours.size(); ++i) {
        const auto& [fill, ink] = colours.at(i);
        text += format_text(".f{0}{{fill:{1}}}\n.i{0}{{fill:{2}}}\n.t{0}{{fill:{1};fill-opacity:.2;stroke:{1};"
                            "stroke-width:2}}\n",
                            i, fill, ink);
    }
    return text;
}

} // namespace

std::string xml_text(std::string_view text) {
    std::string safe;
    for (const char c : text) {
        if (const auto* const entity = find_by(entities, &Entity::character, c)) {
            safe += entity->name;
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
                       "height:auto;min-width:{3}px;max-width:{4}px}}{5}{6}</style>\n",
                       width, height, xml_text(title), width * 3 / 4, width * 5 / 4, styles, colour_styles()) +
           svg_box({0, 0, width, height}, 0, "page");
}

} // namespace rdma_nccl
