// SPDX-License-Identifier: Apache-2.0
#include "tools/run/output/prefix.h"

#include "lib/base/format.h"
#include "lib/base/text.h"

#include <algorithm>
#include <array>
#include <utility>

namespace rdma_nccl::run {

namespace {

using Value = std::string PrefixValues::*;

Result<Value> find_placeholder(std::string_view name, std::string_view text) {
    constexpr std::array<std::pair<std::string_view, Value>, 7> known = {{{"host", &PrefixValues::host},
                                                                          {"rank", &PrefixValues::rank},
                                                                          {"local_rank", &PrefixValues::local_rank},
                                                                          {"node_rank", &PrefixValues::node_rank},
                                                                          {"role", &PrefixValues::role},
                                                                          {"stream", &PrefixValues::stream},
                                                                          {"time", &PrefixValues::time}}};
    std::vector<std::string_view> names;
    for (const auto& [word, value] : known) {
        if (word == name) {
            return value;
        }
        names.push_back(word);
    }
    const auto near = nearest_word(name, names);
    return fail(format_text("prefix '{}': {{{}}} is unknown{}; there are {{host}}, {{rank}}, {{local_rank}}, "
                            "{{node_rank}}, {{role}}, {{time}} and {{stream}}",
                            printable(text), printable(name),
                            near ? format_text(", did you mean {{{}}}", *near) : std::string()));
}

} // namespace

Result<PrefixTemplate> PrefixTemplate::parse(std::string_view text) {
    PrefixTemplate result;
    for (std::size_t at = 0; at < text.size();) {
        const auto rest = text.substr(at);
        auto& part = result.parts_.back();
        if (rest.starts_with("{{") || rest.starts_with("}}")) {
            part.text += rest.front();
            at += 2;
        } else if (rest.front() == '{' && rest.find('}') != std::string_view::npos) {
            const auto name = rest.substr(1, rest.find('}') - 1);
            const auto value = find_placeholder(name, text);
            if (!value) {
                return tl::unexpected(value.error());
            }
            part.value = *value;
            result.parts_.emplace_back();
            at += name.size() + 2;
        } else if (rest.front() == '{' || rest.front() == '}') {
            return fail(format_text("prefix '{}': a single '{}' at byte {}; write '{}{}' for the character itself",
                                    printable(text), rest.front(), at + 1, rest.front(), rest.front()));
        } else {
            const auto plain = rest.substr(0, rest.find_first_of("{}"));
            part.text += plain;
            at += plain.size();
        }
    }
    return result;
}

std::string PrefixTemplate::render(const PrefixValues& values) const {
    std::string result;
    for (const auto& [text, value] : parts_) {
        result += text;
        if (value != nullptr) {
            result += values.*value;
        }
    }
    return result;
}

bool PrefixTemplate::has_time() const {
    return std::any_of(parts_.begin(), parts_.end(),
                       [](const Part& part) { return part.value == &PrefixValues::time; });
}

} // namespace rdma_nccl::run
