// SPDX-License-Identifier: Apache-2.0
#include "lib/nccl_log/messages.h"

#include "lib/base/text.h"

#include <algorithm>
#include <cstring>

namespace rdma_nccl {

namespace {

constexpr std::size_t longest_host = 255;   // HOST_NAME_MAX is 64; containers may have longer names
constexpr std::size_t longest_place = 256;  // "src/transport/net_ib/connect.cc:1234 (ncclIbRtrQp)"
constexpr std::string_view marker = "CCL "; // part of "NCCL INFO", "NCCL WARN", "NCCL version" and "RCCL version"
constexpr std::size_t before_l = 2;         // letters of the marker before its L

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

/// Removes "HOST:PID:TID [DEVICE] " from the end.
bool take_process(std::string_view& text, NcclMessage& message) {
    if (!take_end(text, ' ') || !take_end(text, ']') || take_end(text, is_digit).empty()) {
        return false;
    }
    (void)take_end(text, '-'); // a thread without a device prints -1
    if (!take_end(text, '[') || !take_end(text, ' ') || take_end(text, is_digit).empty() || !take_end(text, ':')) {
        return false;
    }
    const auto pid = parse_number<std::uint32_t>(take_end(text, is_digit));
    if (!pid || !take_end(text, ':')) {
        return false;
    }
    const auto host = take_end(text, is_name_character);
    if (host.empty() || host.size() > longest_host) {
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
    message.warning = found->kind == Marker::Warning;
    (void)take_prefix(*found, line, message);
    const auto next = find_marker(line, found->end, false);
    message.torn = next.has_value();
    NcclMessage other;
    const auto end = next ? std::max(take_prefix(*next, line, other), found->end) : line.size();
    message.text = line.substr(found->end, end - found->end);
    line.remove_prefix(end);
    return message;
}

std::string_view without_colours(std::string_view line, std::string& buffer) {
    buffer.clear();
    std::size_t at = 0;
    while (at < line.size()) {
        if (line[at] != '\x1b') {
            const auto next = std::min(line.find('\x1b', at), line.size());
            buffer.append(line.substr(at, next - at));
            at = next;
            continue;
        }
        ++at;
        if (at < line.size() && line[at] == '[') { // ECMA-48: parameters, then one final byte from '@' to '~'
            ++at;
            while (at < line.size() && line[at] >= ' ' && line[at] < '@') {
                ++at;
            }
            at += at < line.size() ? 1U : 0U;
        }
    }
    return buffer;
}

} // namespace rdma_nccl
