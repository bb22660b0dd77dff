// SPDX-License-Identifier: Apache-2.0
#include "tools/run/options/prefix.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"

#include <array>

namespace rdma_nccl::run {

namespace {

struct Placeholder {
    std::string_view name;
    std::string PrefixValues::*value;
    std::string_view torchrun_name = {}; ///< empty: torchrun has none
};

constexpr auto placeholders = std::to_array<Placeholder>({{"host", &PrefixValues::host, "hostname"},
                                                          {"rank", &PrefixValues::rank, "rank"},
                                                          {"local_rank", &PrefixValues::local_rank, "local_rank"},
                                                          {"node_rank", &PrefixValues::node_rank},
                                                          {"role", &PrefixValues::role, "role_name"},
                                                          {"stream", &PrefixValues::stream},
                                                          {"time", &PrefixValues::time}});

Error unknown_placeholder(std::string_view name, std::string_view text) {
    const auto near = nearest_word(name, mapped(placeholders, &Placeholder::name));
    return {format_text("prefix '{}': {{{}}} is unknown{}; there are {{host}}, {{rank}}, {{local_rank}}, "
                        "{{node_rank}}, {{role}}, {{time}} and {{stream}}",
                        printable(text), printable(name),
                        near ? format_text(", did you mean {{{}}}", *near) : std::string())};
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
            const auto* const known = find_by(placeholders, &Placeholder::name, name);
            if (known == nullptr) {
                return tl::unexpected(unknown_placeholder(name, text));
            }
            part.value = known->value;
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
    return find_by(parts_, &Part::value, &PrefixValues::time) != nullptr;
}

Result<std::string> parse_prefix(std::string_view text) {
    for (auto open = text.find('{'); open != std::string_view::npos; open = text.find('{', open + 1)) {
        const auto close = text.find('}', open);
        const auto name = text.substr(open + 1, close == std::string_view::npos ? 0 : close - open - 1);
        if (name == "stream" || find_by(placeholders, &Placeholder::name, name) == nullptr) {
            return fail(format_text("\"{}\" has no value; there are {{host}}, {{rank}}, {{local_rank}}, {{node_rank}}, "
                                    "{{role}} and {{time}}",
                                    printable(text.substr(open, name.empty() ? 20 : name.size() + 2))));
        }
    }
    return std::string(text);
}

std::string prefix_of_template(std::string_view text) {
    std::string prefix(text);
    for (const auto& [name, value, torchrun_name] : placeholders) {
        const auto from = format_text("${{{}}}", torchrun_name);
        const auto to = format_text("{{{}}}", name);
        for (auto at = prefix.find(from); !torchrun_name.empty() && at != std::string::npos;
             at = prefix.find(from, at)) {
            prefix.replace(at, from.size(), to);
        }
    }
    return prefix;
}

} // namespace rdma_nccl::run
