// SPDX-License-Identifier: Apache-2.0
#include "lib/base/format.h"
#include "lib/base/text.h"
#include "lib/plan/nccl_overrides.h"
#include "lib/plan/nccl_variables.h"

#include <algorithm>
#include <array>
#include <strings.h>

namespace rdma_nccl {

namespace {

constexpr std::string_view level_variable = "NCCL_DEBUG";
constexpr std::string_view subsystems_variable = "NCCL_DEBUG_SUBSYS";
constexpr std::string_view file_variable = "NCCL_DEBUG_FILE";
constexpr std::string_view source = "setting";
constexpr std::string_view why = "verify=full";

/// Ignores case, as NCCL does (src/debug.cc).
bool same_word(std::string_view a, std::string_view b) {
    return a.size() == b.size() && ::strncasecmp(a.data(), b.data(), a.size()) == 0;
}

/// Returns true for the levels that print at least what INFO prints. ABORT and TRACE print more.
bool shows_info(std::string_view level) {
    constexpr std::array<std::string_view, 3> levels = {"INFO", "ABORT", "TRACE"};
    return std::ranges::any_of(levels, [&](std::string_view word) { return same_word(word, level); });
}

/// Returns true if a user's list of subsystems includes the lines about connections, which belong to INIT and NET.
bool shows_connections(std::string_view list) {
    const bool all_but = list.starts_with('^');
    list.remove_prefix(all_but ? 1 : 0);
    const auto words = split(list, ',');
    const auto has = [&](std::string_view name) {
        return std::ranges::any_of(
            words, [&](std::string_view word) { return same_word(word, name) || same_word(word, "ALL"); });
    };
    return all_but ? !has("INIT") || !has("NET") : has("INIT") || has("NET");
}

/// Returns the value of NCCL_DEBUG_FILE for this directory. Doubles each '%': NCCL also expands the directory's name.
std::string file_in(std::string_view directory) {
    std::string path;
    for (const char c : directory) {
        path += c == '%' ? std::string("%%") : std::string(1, c);
    }
    return path + "/nccl.%h.%p.log";
}

/// Keeps the user's variables and sets none.
NcclDebug keep_users(VariableList& variables, std::string note) {
    for (const auto name : {level_variable, subsystems_variable, file_variable}) {
        (void)variables.keep(name);
    }
    return {{}, {std::move(note)}};
}

void judge_users_file(const std::string& file, NcclDebug& debug) {
    if (file.empty() || file.starts_with("/dev/")) {
        debug.files.clear();
        debug.notes.push_back(format_text("{}={} stays: NCCL's logs are not in files that can be judged; unset it",
                                          file_variable, printable(file)));
    } else if (file.find("%p") == std::string::npos) {
        debug.notes.push_back(format_text("{}={} stays: ranks overwrite each other's log; add %h and %p", file_variable,
                                          printable(file)));
    }
}

} // namespace

NcclDebug add_nccl_debug(VariableList& variables, const NodeFacts& facts, std::string_view directory) {
    const auto level = nccl_override(facts, level_variable);
    const auto subsystems = nccl_override(facts, subsystems_variable);
    const auto file = nccl_override(facts, file_variable);
    if (level && !shows_info(*level)) {
        return keep_users(variables, format_text("{}={} stays: NCCL writes no logs that can be judged; unset it",
                                                 level_variable, printable(*level)));
    }
    if (level && !file) { // the user wants to read it in the ranks' output
        return keep_users(
            variables, format_text("{}={} stays and goes to the ranks' output: save that for rdma-nccl verify --log, "
                                   "or unset it",
                                   level_variable, printable(*level)));
    }
    NcclDebug debug{file.value_or(file_in(directory)), {}};
    variables.set(level_variable, "INFO", source, std::string(why));
    variables.set(subsystems_variable, std::string(nccl_debug_subsystems), source, std::string(why));
    variables.set(file_variable, file_in(directory), source, std::string(why));
    if (subsystems && !shows_connections(*subsystems)) {
        debug.notes.push_back(format_text("{}={} stays: NCCL's logs will not tell the connections; add INIT and NET",
                                          subsystems_variable, printable(*subsystems)));
    }
    if (file) {
        judge_users_file(*file, debug);
    }
    return debug;
}

} // namespace rdma_nccl
