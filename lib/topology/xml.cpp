// SPDX-License-Identifier: Apache-2.0
#include "lib/topology/xml.h"

#include "lib/base/format.h"
#include "lib/base/text.h"
#include "lib/fabric/readers.h"

#include <algorithm>

namespace rdma_nccl {

std::optional<std::string_view> next_tag(std::string_view& text) {
    constexpr std::string_view comment = "<!--";
    constexpr std::string_view comment_end = "-->";
    for (;;) {
        text.remove_prefix(std::min(text.find('<'), text.size()));
        if (text.starts_with(comment)) {
            const auto end = text.find(comment_end, comment.size());
            text.remove_prefix(end == std::string_view::npos ? text.size() : end + comment_end.size());
            continue;
        }
        char quote = '\0';
        std::size_t end = 1;
        for (; end < text.size() && (quote != '\0' || text[end] != '>'); ++end) {
            const char c = text[end];
            quote = quote == c ? '\0' : quote == '\0' && (c == '"' || c == '\'') ? c : quote;
        }
        if (end >= text.size()) {
            text = {};
            return std::nullopt;
        }
        const auto tag = text.substr(1, end - 1);
        text.remove_prefix(end + 1);
        if (!tag.starts_with('?') && !tag.starts_with('!')) {
            return tag;
        }
    }
}

std::string_view tag_name(std::string_view tag) {
    return tag.substr(0, tag.find_first_of(" \t\r\n/"));
}

std::string_view attribute(std::string_view tag, std::string_view key) {
    tag.remove_prefix(tag_name(tag).size());
    for (auto equal = tag.find('='); equal != std::string_view::npos; equal = tag.find('=')) {
        const auto name = trim(tag.substr(0, equal));
        tag = trim(tag.substr(equal + 1));
        const auto last = tag.empty() ? std::string_view::npos : tag.find(tag.front(), 1);
        if (last == std::string_view::npos || name == key) {
            return last == std::string_view::npos ? "" : tag.substr(1, last - 1);
        }
        tag.remove_prefix(last + 1);
    }
    return "";
}

Result<XmlMachine> read_xml(const std::string& text) {
    std::string_view rest = text;
    const auto tag = next_tag(rest).value_or("");
    const auto root = tag_name(tag);
    if (root == "topology" || root == "root") { // hwloc's name before 1.0
        return read_hwloc_xml(text);
    }
    if (root == "system") {
        return read_nccl_xml(text);
    }
    return fail(
        format_text("{}: neither hwloc's topology (lstopo FILE.xml) nor NCCL's (NCCL_TOPO_DUMP_FILE)",
                    tag.empty() ? "it is no XML" : format_text("its root element is <{}>", printable(root, 40))));
}

Result<XmlMachine> read_topology_xml(const std::string& path) {
    return read_regular_file(path, longest_xml)
        .and_then(read_xml)
        .map([&path](XmlMachine machine) {
            machine.topology.source = path;
            machine.name = machine.name.empty() ? base_name(path) : machine.name;
            if (auto& hcas = machine.fabric.hcas; hcas.size() > most_hcas) {
                machine.notes.push_back(format_text("the file has {} HCAs: only the first {} are shown, more than any "
                                                    "node has",
                                                    hcas.size(), most_hcas));
                hcas.resize(most_hcas);
            }
            return machine;
        })
        .map_error([&path](const Error& error) {
            return Error{path + ": " + error.message, error.os_error};
        });
}

} // namespace rdma_nccl
