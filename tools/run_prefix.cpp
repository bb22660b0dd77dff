// SPDX-License-Identifier: Apache-2.0
#include "tools/run_prefix.h"

#include "lib/format.h"
#include "lib/text.h"

#include <algorithm>
#include <array>
#include <utility>

namespace rdma_nccl {

namespace {

bool is_word_byte(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

std::string with_braces_doubled(std::string_view text) {
    std::string result;
    for (const char c : text) {
        result.append(c == '{' || c == '}' ? 2 : 1, c);
    }
    return result;
}

/// What "$..." at the beginning of `text` stands for, and how many bytes of it that takes.
std::pair<std::string, std::size_t> torchrun_placeholder(std::string_view text) {
    constexpr std::array<std::pair<std::string_view, std::string_view>, 3> placeholders = {
        {{"role_name", "{role}"}, {"rank", "{rank}"}, {"local_rank", "{local_rank}"}}};
    if (text.starts_with("$$")) {
        return {"$", 2};
    }
    const bool braced = text.starts_with("${");
    const auto rest = text.substr(braced ? 2 : 1);
    const auto length =
        static_cast<std::size_t>(std::find_if_not(rest.begin(), rest.end(), is_word_byte) - rest.begin());
    const auto found = std::find_if(placeholders.begin(), placeholders.end(),
                                    [&](const auto& known) { return known.first == rest.substr(0, length); });
    if (found == placeholders.end() || (braced && !rest.substr(length).starts_with('}'))) {
        return {"$", 1};
    }
    return {std::string(found->second), length + (braced ? 3 : 1)};
}

} // namespace

Result<PrefixTemplate::Kind> PrefixTemplate::placeholder(std::string_view name, std::string_view text) {
    constexpr std::array<std::pair<std::string_view, Kind>, 7> known = {{{"host", Kind::Host},
                                                                         {"rank", Kind::Rank},
                                                                         {"local_rank", Kind::LocalRank},
                                                                         {"node_rank", Kind::NodeRank},
                                                                         {"role", Kind::Role},
                                                                         {"stream", Kind::Stream},
                                                                         {"time", Kind::Time}}};
    std::vector<std::string_view> names;
    for (const auto& [word, kind] : known) {
        if (word == name) {
            return kind;
        }
        names.push_back(word);
    }
    const auto near = nearest_word(name, names);
    return fail(format_text("prefix '{}': {{{}}} is unknown{}; there are {{host}}, {{rank}}, {{local_rank}}, "
                            "{{node_rank}}, {{role}}, {{time}} and {{stream}}",
                            printable(text), printable(name),
                            near ? format_text(", did you mean {{{}}}", *near) : std::string()));
}

void PrefixTemplate::add_text(std::string_view text) {
    if (parts_.empty() || parts_.back().kind != Kind::Text) {
        parts_.push_back({});
    }
    parts_.back().text += text;
}

Result<PrefixTemplate> PrefixTemplate::parse(std::string_view text) {
    PrefixTemplate result;
    for (std::size_t at = 0; at < text.size();) {
        const auto rest = text.substr(at);
        if (rest.starts_with("{{") || rest.starts_with("}}")) {
            result.add_text(rest.substr(0, 1));
            at += 2;
        } else if (rest.front() == '{' && rest.find('}') != std::string_view::npos) {
            const auto name = rest.substr(1, rest.find('}') - 1);
            const auto kind = placeholder(name, text);
            if (!kind) {
                return tl::unexpected(kind.error());
            }
            result.parts_.push_back({*kind, {}});
            at += name.size() + 2;
        } else if (rest.front() == '{' || rest.front() == '}') {
            return fail(format_text("prefix '{}': a single '{}' at byte {}; write '{}{}' for the character itself",
                                    printable(text), rest.front(), at + 1, rest.front(), rest.front()));
        } else {
            const auto plain = rest.substr(0, rest.find_first_of("{}"));
            result.add_text(plain);
            at += plain.size();
        }
    }
    return result;
}

std::string PrefixTemplate::render(const PrefixValues& values, std::string_view time) const {
    std::string result;
    for (const auto& part : parts_) {
        switch (part.kind) {
        case Kind::Text:
            result += part.text;
            break;
        case Kind::Host:
            result += values.host;
            break;
        case Kind::Rank:
            result += values.rank;
            break;
        case Kind::LocalRank:
            result += values.local_rank;
            break;
        case Kind::NodeRank:
            result += values.node_rank;
            break;
        case Kind::Role:
            result += values.role;
            break;
        case Kind::Stream:
            result += values.stream;
            break;
        case Kind::Time:
            result += time;
            break;
        }
    }
    return result;
}

bool PrefixTemplate::has_time() const {
    return std::any_of(parts_.begin(), parts_.end(), [](const Part& part) { return part.kind == Kind::Time; });
}

std::string prefix_from_torchrun(std::string_view text) {
    std::string result;
    while (!text.empty()) {
        const auto plain = text.substr(0, text.find('$'));
        result += with_braces_doubled(plain);
        text.remove_prefix(plain.size());
        if (!text.empty()) {
            const auto [replacement, length] = torchrun_placeholder(text);
            result += replacement;
            text.remove_prefix(length);
        }
    }
    return result;
}

} // namespace rdma_nccl
