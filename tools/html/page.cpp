// SPDX-License-Identifier: Apache-2.0
#include "tools/html/page.h"

#include <cmath>

namespace rdma_nccl {

namespace {

constexpr std::string_view frame =
#include "build/pages/tools/html/page.html.inc"
    ;
constexpr std::string_view style =
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
            html.append(style);
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

} // namespace rdma_nccl
