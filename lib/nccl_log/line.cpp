// SPDX-License-Identifier: Apache-2.0
#include "lib/nccl_log/messages.h"

#include "lib/base/lists.h"
#include "lib/base/text.h"

#include <algorithm>
#include <cstring>

namespace rdma_nccl {

namespace {

constexpr std::size_t longest_host = 255;   // HOST_NAME_MAX is 64; containers may have longer names
constexpr std::size_t longest_place = 256;  // "src/transport/net_ib/connect.cc:1234 (ncclIbRtrQp)"
constexpr std::string_view marker = "CCL "; // part of "NCCL INFO", "NCCL WARN", "NCCL version" and "RCCL version"
constexpr std::size_t before_l = 2;         // letters of the marker before its L
constexpr std::string_view letters = "CCL"; // what every line with a marker has, even if colours are in it

/// Removes from `text` its longest suffix of characters of one kind and returns it.
template<typename Kind>
std::string_view take_end(std::string_view& text, Kind is_of_kind) {
    std::size_t begin = text.size();
    while (begin > 0 && is_of_kind(text[begin - 1])) {
        --begin;
    }
    const auto end = text.substr(begin);
    text.remove_suffix(end.size());
    return end;
}

bool take_end(std::string_view& text, char c) {
    if (!text.ends_with(c)) {
        return false;
    }
    text.remove_suffix(1);
    return true;
}

/// Returns which characters are in `set`: one look for each character of a line is faster than a search for each sign.
constexpr std::array<bool, 256> table_of(std::string_view set) {
    std::array<bool, 256> table{};
    for (const char c : set) {
        table.at(static_cast<unsigned char>(c)) = true;
    }
    return table;
}

/// Escape, and how copies of a log show it: C, Python, JSON, `cat -v`, rsyslog, its symbol in Unicode.
constexpr std::array<std::string_view, 10> escapes = {"\x1b", "\\x1b",   "\\x1B",   "\\033", "\\e",
                                                      "^[",   "\\u001b", "\\u001B", "#033",  "\u241b"};

/// Returns the size of a colour at the front whose Escape a copy has lost: "[32m"; 0 if there is none.
std::size_t bare_colour_size(std::string_view text) {
    if (!text.starts_with('[')) {
        return 0;
    }
    std::size_t end = 1;
    while (end < text.size() && (is_digit(text[end]) || text[end] == ';')) {
        ++end;
    }
    return end > 1 && end < text.size() && text[end] == 'm' ? end + 1 : 0;
}

/// Returns the size of an escape sequence at the front; 0 if there is none.
std::size_t escape_size(std::string_view text) {
    const auto* const escape = std::ranges::find_if(escapes, [&](auto start) { return text.starts_with(start); });
    if (escape == escapes.end()) {
        return bare_colour_size(text);
    }
    const auto rest = text.substr(escape->size());
    if (rest.starts_with('[')) { // ECMA-48: parameters, then one final byte from '@' to '~'
        const auto* const end = std::ranges::find_if(rest.substr(1), [](char c) { return c < ' ' || c >= '@'; });
        return std::min(escape->size() + static_cast<std::size_t>(end - rest.begin()) + 1, text.size());
    }
    if (escape != escapes.begin() || rest.empty()) {
        return escape == escapes.begin() ? 1 : 0; // as text it may be anything: "C:\eigen"
    }
    const auto is_in = [&](std::string_view set) { return set.find(rest.front()) != std::string_view::npos; };
    if (is_in("]PX^_")) { // a string, such as a window's title; what ends it is Bell, or Escape and a backslash
        const auto end = text.find_first_of("\a\x1b", 2);
        return end == std::string_view::npos ? 2 : end + (text[end] == '\a' ? 1 : 0);
    }
    const std::size_t size = is_in("()*+-./#% ") ? 3 : is_in("78=>\\DEHMNOZc") ? 2 : 1; // "(B": the character set
    return std::min(size, text.size());
}

/// Removes an escaped character, as JSON, C or rsyslog write it, from the front, and appends it to `plain`, or '|' for
/// a character of a frame (U+2500 to U+257F). Returns false if there is none.
bool take_escaped(std::string_view& text, std::string& plain) {
    struct Escaped {
        std::string_view written;
        char meant;
    };
    constexpr std::array<Escaped, 10> all = {{{"\\n", '\n'},
                                              {"\\r", '\r'},
                                              {"\\t", '\t'},
                                              {"\\\"", '"'},
                                              {"\\\\", '\\'},
                                              {"\\/", '/'},
                                              {"#011", '\t'},
                                              {"#012", '\n'},
                                              {"#015", '\r'},
                                              {"\u00a0", ' '}}}; // web pages have it for a blank
    const auto* const found = std::ranges::find_if(all, [&](const auto& one) { return text.starts_with(one.written); });
    if (found != all.end()) {
        plain.push_back(found->meant);
        text.remove_prefix(found->written.size());
        return true;
    }
    if (text.starts_with("\xe2\x94") || text.starts_with("\xe2\x95")) {
        plain.push_back('|');
        text.remove_prefix(std::min<std::size_t>(text.size(), 3));
        return true;
    }
    const auto code = parse_number<std::uint16_t>(text.substr(std::min<std::size_t>(text.size(), 2), 4), 16);
    if (!code || !text.starts_with("\\u") || text.size() < 6) {
        return false;
    }
    plain.push_back(*code < 0x80 ? static_cast<char>(*code) : *code >> 8 == 0x25 ? '|' : '?');
    text.remove_prefix(6);
    return true;
}

/// Returns the string of JSON, or of name="value", around a position of `line`, without its quotes; `line` itself if
/// there is none.
std::string_view quoted_around(std::string_view line, std::size_t at) {
    const auto is_quote = [&](std::size_t i) { // not after an odd number of backslashes
        return line[i] == '"' && (i - std::min(line.find_last_not_of('\\', i - 1) + 1, i)) % 2 == 0; // npos + 1 is 0
    };
    auto begin = std::min(at, line.size());
    while (begin > 0 && !is_quote(begin - 1)) {
        --begin;
    }
    const auto before = trim(line.substr(0, begin - std::min<std::size_t>(begin, 1)));
    const bool begins_string = before.empty() || std::string_view(":=[,").find(before.back()) != std::string_view::npos;
    if (at == std::string_view::npos || begin == 0 || !begins_string) {
        return line;
    }
    auto end = at;
    while (end < line.size() && !is_quote(end)) {
        ++end;
    }
    return line.substr(begin, end - begin);
}

/// Returns true if the text begins like `form`, in which '0' stands for any digit and '+' for either sign.
bool begins_like(std::string_view text, std::string_view form) {
    const auto fits = [](char f, char c) { return f == '0' ? is_digit(c) : f == c || (f == '+' && c == '-'); };
    return text.size() >= form.size() && std::ranges::equal(form, text.substr(0, form.size()), fits);
}

/// Returns the size of a time zone at the start of `text`, as strftime(3) gives it for %z and %Z; 0 if there is none.
std::size_t zone_size(std::string_view text) {
    constexpr auto forms = std::to_array<std::string_view>(
        {"+00:00", "+0000", "+00", "UTC", "GMT", "CEST", "CET", "EEST", "EET", "WEST", "WET", "MSK", "BST", "EST",
         "EDT",    "CST",   "CDT", "MST", "MDT", "PST",  "PDT", "JST",  "KST", "IST",  "HKT", "SGT", "Z"});
    const auto* const form = std::ranges::find_if(forms, [&](auto one) { return begins_like(text, one); });
    return form == forms.end() ? 0 : form->size();
}

/// Returns how much at the start of `host` is the end of a time in front of it, as NCCL_DEBUG_TIMESTAMP_FORMAT without
/// a blank at its end prints it ("12:00:00.123+0900n01", "12:00:00 UTCn01"). `before` lies in front of `host`.
std::size_t time_before(std::string_view before, std::string_view host) {
    constexpr std::size_t longest_time = 32;
    constexpr std::string_view clock = "00:00:00";
    const auto near = std::min(before.size(), longest_time);
    const std::string_view text(host.data() - near, near + host.size());
    for (std::size_t at = near; at-- > 0;) {
        if (!begins_like(text.substr(at), clock)) {
            continue;
        }
        auto end = at + clock.size();
        if (end < text.size() && (text[end] == '.' || text[end] == ',')) {
            end = std::min(text.find_first_not_of("0123456789", end + 1), text.size());
        }
        auto zone = text.substr(end);
        const bool blank = zone.starts_with(' ');
        zone.remove_prefix(blank ? 1 : 0);
        const auto size = zone_size(zone);
        const auto behind = zone.substr(size);
        // Behind a blank a name may be the host's own: "12:00:00 EST-node1".
        const bool may_be_host = blank && zone >= "A" && (size == 1 || behind < "a");
        end = may_be_host ? end : text.size() - behind.size();
        return end > near && end < text.size() ? end - near : 0;
    }
    return 0;
}

/// Removes "[DEVICE] " from the end. A thread without a device prints -1; tools put blanks or nothing into the bracket.
bool take_device(std::string_view& text) {
    constexpr std::size_t longest_device = 16;
    if (!take_end(text, ' ') || !take_end(text, ']')) {
        return false;
    }
    const auto open = text.rfind('[');
    const bool found = open != std::string_view::npos && text.size() - open <= longest_device;
    text = text.substr(0, found ? open : text.size());
    (void)take_end(text, ' ');
    return found;
}

/// Removes "HOST:PID:TID [DEVICE] " from the end. The host stays empty where it is "(none)", "<name>" or cut off.
bool take_process(std::string_view& text, NcclMessage& message) {
    if (!take_device(text)) {
        return false;
    }
    const auto thread = take_end(text, is_digit);
    if (thread.empty() || !take_end(text, ':')) {
        return false;
    }
    const auto digits = take_end(text, is_digit);
    const auto pid = parse_number<std::uint32_t>(digits);
    if (!pid || !take_end(text, ':')) {
        return false;
    }
    auto host = take_end(text, is_name_character);
    host.remove_prefix(time_before(text, host));
    const auto hours = host.substr(host.rfind('T') + 1); // of "12:00:00 [0] NCCL INFO"; npos + 1 is 0
    const bool is_time = hours.size() == 2 && digits.size() == 2 && thread.size() == 2 &&
                         host.find_first_not_of("0123456789-T") == std::string_view::npos;
    if (is_time || host.size() > longest_host) {
        return false;
    }
    message.host = host;
    message.pid = *pid;
    return true;
}

/// Removes "FILE:LINE " or "FILE:LINE (FUNCTION) " from the end, that is, everything after the last "] ".
void take_place(std::string_view& text) {
    const auto near = text.size() > longest_place ? text.size() - longest_place : 0;
    const auto end = text.rfind("] ");
    if (end != std::string_view::npos && end >= near) {
        text = text.substr(0, end + 2);
    }
}

struct Marker {
    std::size_t begin; ///< position of "NCCL"
    std::size_t end;   ///< position after "NCCL INFO "
    enum Kind { Info, Warning, Version } kind;
};

/// Matches "2.21.5" or ": 2.18.3", the text after "version ".
bool is_version(std::string_view text) {
    text.remove_prefix(text.starts_with(": ") ? 2 : 0);
    return !text.empty() && is_digit(text.front());
}

std::optional<Marker> find_marker(std::string_view text, std::size_t from, bool with_version) {
    // L is the rarest letter of the marker, and memchr() is many times faster than a word search.
    while (from < text.size()) {
        const void* const found = std::memchr(text.data() + from, 'L', text.size() - from);
        if (found == nullptr) {
            return std::nullopt;
        }
        const auto l = static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
        from = l + 1;
        if (l <= before_l || !text.substr(l - before_l).starts_with(marker)) {
            continue;
        }
        const auto at = l - before_l;
        const auto behind = text.substr(at + marker.size());
        const char letter = text[at - 1];
        if (letter == 'N' && (behind.starts_with("INFO ") || behind.starts_with("WARN "))) {
            return Marker{at - 1, at + marker.size() + 5, behind[0] == 'I' ? Marker::Info : Marker::Warning};
        }
        if (with_version && (letter == 'N' || letter == 'R') && behind.starts_with("version ") &&
            is_version(behind.substr(std::strlen("version ")))) {
            return Marker{at - 1, at - 1, Marker::Version};
        }
    }
    return std::nullopt;
}

/// Fills in the process. Returns the position of the prefix, or of the marker if there is no prefix.
std::size_t take_prefix(const Marker& marker_found, std::string_view line, NcclMessage& message) {
    auto before = line.substr(0, marker_found.begin);
    if (marker_found.kind == Marker::Warning) {
        take_place(before);
    }
    return take_process(before, message) ? before.size() : marker_found.begin;
}

} // namespace

std::optional<NcclMessage> next_nccl_message(std::string_view& line, bool first) {
    const auto found = find_marker(line, 0, first);
    if (!found) {
        return std::nullopt;
    }
    NcclMessage message;
    message.first = first;
    message.version = found->kind == Marker::Version;
    message.warning = found->kind == Marker::Warning;
    const auto begin = take_prefix(*found, line, message);
    message.prefix = line.substr(begin, found->begin - begin);
    if (begin == found->begin && !message.version) {
        const auto quote = line.substr(0, begin).find_last_of("\"'`");
        message.quoted = quote != std::string_view::npos;
        if (message.quoted && quote + 1 == begin) {
            return std::nullopt; // a script that looks for NCCL's lines, not one of them
        }
    }
    const auto next = find_marker(line, found->end, false);
    message.torn = next.has_value();
    NcclMessage other;
    const auto end = next ? std::max(take_prefix(*next, line, other), found->end) : line.size();
    message.text = line.substr(found->end, end - found->end);
    line.remove_prefix(end);
    return message;
}

bool may_have_message(std::string_view line) {
    return line.find(letters) != std::string_view::npos || line.find('\x1b') != std::string_view::npos;
}

bool may_be_wrapped(std::string_view line) {
    // Also the first bytes of characters in UTF-8: of frames, Escape's symbol, the blank of web pages.
    static constexpr auto signs = table_of("\x1b\"\\^#[\xe2\xc2");
    const auto is_sign = [](char c) { return signs.at(static_cast<unsigned char>(c)); };
    const auto* const end = line.data() + line.size();
    const auto* sign = std::find_if(line.data(), end, is_sign); // libstdc++ unrolls it, unlike std::ranges::find_if
    while (sign != end && *sign == '[' && bare_colour_size({sign, end}) == 0) {
        sign = std::find_if(sign + 1, end, is_sign);
    }
    return sign != end;
}

std::string_view take_plain(std::string_view& line, std::string& buffer) {
    auto text = quoted_around(line, line.find(letters));
    line.remove_prefix(static_cast<std::size_t>(text.data() + text.size() - line.data()));
    buffer.clear();
    while (!text.empty()) {
        const auto ordinary = std::min(text.find_first_of("\x1b\\^#[\xe2\xc2"), text.size());
        buffer.append(text.substr(0, ordinary));
        text.remove_prefix(ordinary);
        if (const auto size = escape_size(text); size > 0) {
            text.remove_prefix(size);
        } else if (!text.empty() && !take_escaped(text, buffer)) {
            buffer.push_back(text.front());
            text.remove_prefix(1);
        }
    }
    return buffer;
}

std::uint64_t take_repetition(std::string_view& line) {
    const bool may_end = !line.empty() && !is_name_character(line.back()); // most do not, and this is faster
    auto behind = may_end ? line : std::string_view();
    while (take_through(behind, " [repeated ")) {
        const auto begin = line.size() - behind.size() - std::strlen(" [repeated ");
        const auto number = take_number<std::uint32_t>(behind); // no sum of these wraps around
        if (number && behind.starts_with("x across ")) {
            line = line.substr(0, begin);
            return *number;
        }
    }
    return 0;
}

bool take_frame(std::string_view& line) {
    constexpr std::string_view bars = "#*!"; // of banners, on both sides
    const auto text = trim(line);
    if (text.size() < 2 || (text.back() != '|' && (text.back() != text.front() || !contains(bars, text.back())))) {
        return false;
    }
    const auto inside = text.substr(0, text.size() - 1);
    line = trim(inside);
    return !inside.ends_with("  ");
}

} // namespace rdma_nccl
