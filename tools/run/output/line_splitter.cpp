// SPDX-License-Identifier: Apache-2.0
#include "tools/run/output/output.h"

#include <algorithm>

namespace rdma_nccl::run {

namespace {

constexpr std::string_view line_ends = "\r\n";

void emit(std::string_view text, std::string_view line_end, std::string_view prefix, std::string& out) {
    out += prefix;
    out += text;
    out += line_end;
}

} // namespace

void LineSplitter::take(std::string_view bytes, std::string_view prefix, std::string& out) {
    std::size_t next_return = std::min(bytes.find('\r'), bytes.size()); // searched once per block, not once per line
    std::size_t begin = 0;
    while (begin < bytes.size()) {
        if (return_pending_) {
            const bool is_line_end = bytes[begin] == '\n';
            decide_return(is_line_end, prefix, out);
            begin += is_line_end ? 1 : 0;
            continue;
        }
        const auto newline = std::min(bytes.find('\n', begin), bytes.size());
        const auto end = std::min(newline, next_return);
        const auto text = bytes.substr(begin, end - begin);
        begin = end + 1;
        if (end == newline && end < bytes.size() && held_.empty() && text.size() <= longest_) {
            emit(text, "\n", prefix, out); // fast path for nearly all lines: copied only once
            continue;
        }
        add(text, prefix, out);
        if (end == bytes.size()) {
            return;
        }
        if (end == newline) {
            emit_held("\n", prefix, out);
        } else {
            return_pending_ = true;
            next_return = std::min(bytes.find('\r', begin), bytes.size());
        }
    }
}

void LineSplitter::end(std::string_view prefix, std::string& out) {
    if (return_pending_) {
        decide_return(false, prefix, out);
    }
    if (!held_.empty()) {
        emit_held("\n", prefix, out);
    }
}

/// Adds text to the held line. A full piece is emitted only when more text follows, so that no empty line follows the
/// last piece.
void LineSplitter::add(std::string_view text, std::string_view prefix, std::string& out) {
    while (held_.size() + text.size() > longest_) {
        const auto room = longest_ - held_.size();
        held_ += text.substr(0, room);
        text.remove_prefix(room);
        emit_held("\n", prefix, out);
    }
    held_ += text;
}

void LineSplitter::decide_return(bool is_line_end, std::string_view prefix, std::string& out) {
    return_pending_ = false;
    if (is_line_end || !held_.empty()) {
        emit_held(is_line_end ? "\r\n" : "\n", prefix, out);
    }
}

void LineSplitter::emit_held(std::string_view line_end, std::string_view prefix, std::string& out) {
    emit(held_, line_end, prefix, out);
    held_.clear();
}

void StreamTail::take(std::string_view bytes) {
    // One byte more than `size` shows whether the first kept line is complete.
    constexpr auto most = size + 1;
    bytes.remove_prefix(bytes.size() - std::min(bytes.size(), most));
    const auto kept = std::min(bytes_.size(), most - bytes.size());
    bytes_.erase(0, bytes_.size() - kept);
    bytes_ += bytes;
}

std::vector<std::string> StreamTail::lines(std::size_t count) const {
    const bool full = bytes_.size() > size;
    auto text = std::string_view(bytes_).substr(full ? 1 : 0);
    std::vector<std::string> result;
    while (!text.empty() && result.size() < count) {
        const auto begin = text.find_last_of(line_ends) + 1; // npos + 1 is 0
        // If a line is longer than the kept bytes, its beginning is lost. It is returned only if there is nothing else.
        const bool cut = begin == 0 && full && line_ends.find(bytes_.front()) == std::string_view::npos;
        if (begin < text.size() && (!cut || result.empty())) {
            result.emplace_back(text.substr(begin));
        }
        text = text.substr(0, begin == 0 ? 0 : begin - 1);
    }
    std::ranges::reverse(result);
    return result;
}

} // namespace rdma_nccl::run
