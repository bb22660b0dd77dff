// SPDX-License-Identifier: Apache-2.0
#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "lib/fabric_profile/profile.h"
#include "lib/settings/fault.h"

#include <array>

namespace rdma_nccl {

namespace {

constexpr std::array<std::string_view, 10> keys = {"vendor", "product", "asset", "gpu",    "gpus",
                                                   "driver", "link",    "rate",  "source", "note"};

/// The plan chooses these for each node and step: no value can be right for a kind of machine.
constexpr std::string_view plans_own =
    "NCCL_IB_HCA NCCL_IB_GID_INDEX NCCL_IB_ROCE_VERSION_NUM NCCL_IB_ADDR_FAMILY NCCL_IB_ADDR_RANGE NCCL_IB_DISABLE "
    "NCCL_IB_MERGE_NICS NCCL_IB_RESILIENCY_PORT_FAILOVER NCCL_IB_RESILIENCY_PORT_RECOVERY NCCL_GIN_TYPE "
    "NCCL_SOCKET_IFNAME NCCL_SOCKET_FAMILY NCCL_OOB_NET_IFNAME NCCL_NET NCCL_COMM_ID NCCL_HOSTID NCCL_DEBUG "
    "NCCL_DEBUG_SUBSYS";

/// A name with one of these words makes NCCL load code, write files, or read more variables from a file.
constexpr std::string_view refused_words =
    "PLUGIN PLUGINS LIB LIBS SO DUMP FILE FILES CONFIG PATH DIR LOG TRACE REPLAY INSPECTOR PROFILER";
/// But these are only read. NCCL takes other than full paths from the directory of each task.
constexpr std::string_view read_files = "NCCL_TOPO_FILE NCCL_GRAPH_FILE";

bool loads_or_writes(std::string_view name) {
    const auto refused = split_words(refused_words);
    return !contains(split_words(read_files), name) &&
           !selected(split(name, '_'), [&](std::string_view word) { return contains(refused, word); }).empty();
}

/// True for NCCL_X and RCCL_X, with X of capital letters, digits and '_'.
bool is_nccl_name(std::string_view name) {
    return (name.starts_with("NCCL_") || name.starts_with("RCCL_")) && name.size() > 5 && name.size() < 64 &&
           name.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == std::string_view::npos;
}

std::string unknown_name(std::string_view name) {
    const auto near = nearest_word(name, {keys.begin(), keys.end()});
    return format_text("unknown key \"{}\"{}", printable(name, 40),
                       near ? format_text("; did you mean {}?", *near)
                            : "; expected NCCL_..., RCCL_... or one of " + joined(keys));
}

std::optional<Fault> take_variable(FabricProfile& profile, FabricProfileValue entry, std::string_view name) {
    if (contains(split_words(plans_own), name)) {
        return Fault{name, "rdma-nccl chooses this one for each node: leave it out, or set it in nccl.conf"};
    }
    if (loads_or_writes(name)) {
        return Fault{name, "may load code, or name files that are not only read: set it in nccl.conf"};
    }
    if (contains(split_words(read_files), name) && !entry.value.starts_with('/')) {
        return Fault{name, "expected the full path of a file, which begins with /"};
    }
    if (find_by(profile.values, &FabricProfileValue::name, name) != nullptr) {
        return Fault{name, "is there twice"};
    }
    profile.values.push_back(std::move(entry));
    return std::nullopt;
}

/// Takes a line without its comment, `why`. `source`: the last one above it.
std::optional<Fault> take_line(FabricProfile& profile, std::string& source, std::string_view line,
                               std::string_view why) {
    constexpr std::size_t longest_value = 512;
    const auto [key_text, value_text] = split_once(line, '=');
    const std::string_view key = trim(key_text);
    const std::string_view value = trim(value_text.value_or(""));
    if (!contains(keys, key) && !is_nccl_name(key)) {
        return Fault{key, unknown_name(key)};
    }
    if (value.empty() || printable(value, longest_value) != value) {
        return Fault{value.empty() ? key : value, "expected KEY = VALUE of printable ASCII, at most 512 characters"};
    }
    if (key == "source") {
        source = value;
    } else if (key == "note") {
        profile.note = value;
    } else if (is_nccl_name(key)) {
        return take_variable(profile, {std::string(key), std::string(value), printable(why, 200), source}, key);
    } else {
        profile.machine[std::string(key)].emplace_back(value);
    }
    return std::nullopt;
}

} // namespace

Result<FabricProfile> parse_fabric_profile(std::string_view text, const std::string& file) {
    const std::string place = printable(file, 200);
    if (text.size() > longest_fabric_profile) {
        return fail(format_text("{}: has more than {} bytes; file ignored", place, longest_fabric_profile));
    }
    FabricProfile profile{.file = place, .note = {}, .machine = {}, .values = {}};
    std::string source;
    std::size_t number = 0;
    for (const auto raw : split(text, '\n')) {
        ++number;
        const auto [code, comment] = split_once(raw, '#');
        const std::string_view line = trim(code);
        if (line.empty()) {
            continue;
        }
        if (auto fault = take_line(profile, source, line, trim(comment.value_or("")))) {
            fault->message += "; file ignored";
            return fail(show_fault(format_text("{}:{}", place, number), line, *fault));
        }
    }
    if (profile.machine.empty()) {
        return fail(
            format_text("{}: says of no machine that it is for it: add a line as product = NAME; file ignored", place));
    }
    return profile;
}

} // namespace rdma_nccl
