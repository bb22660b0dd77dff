// SPDX-License-Identifier: Apache-2.0
#include "tools/check/drain.h"

#include "lib/base/format.h"
#include "lib/base/text.h"

#include <algorithm>

namespace rdma_nccl {

namespace {

/// `states`: e.g. "IDLE+DRAIN+DYNAMIC_NORM".
bool has_state(std::string_view states, std::string_view wanted) {
    const auto parts = split(states, '+');
    return std::any_of(parts.begin(), parts.end(), [wanted](std::string_view part) {
        return part.substr(0, part.find_first_of("*~#!%$@^-")) == wanted; // flags of scontrol(1), "NODE STATE CODES"
    });
}

/// Cuts off the fields after a reason: "... [root@2026-11-22T05:55:00] Comment=...".
std::string_view only_reason(std::string_view text) {
    for (auto end = text.find("] "); end != std::string_view::npos; end = text.find("] ", end + 1)) {
        const auto word = text.find_first_of(" =", end + 2);
        if (word != std::string_view::npos && word > end + 2 && text[word] == '=') {
            return text.substr(0, end + 1);
        }
    }
    return trim(text);
}

} // namespace

std::optional<SlurmNode> parse_slurm_node(std::string_view text) {
    constexpr std::string_view name_key = "NodeName=";
    const auto line = text.substr(0, text.find('\n'));
    const auto words = split_words(line);
    const auto state =
        std::find_if(words.begin(), words.end(), [](std::string_view word) { return word.starts_with("State="); });
    if (words.empty() || !words.front().starts_with(name_key) || state == words.end()) {
        return std::nullopt;
    }
    constexpr std::string_view state_key = "State=";
    constexpr std::string_view reason_key = " Reason=";
    SlurmNode node;
    node.name = words.front().substr(name_key.size());
    const auto states = state->substr(state_key.size());
    node.drained = has_state(states, "DRAIN") || has_state(states, "DRAINED") || has_state(states, "DRAINING");
    node.down = has_state(states, "DOWN");
    const auto start = line.find(reason_key);
    if (start != std::string_view::npos) {
        auto reason = only_reason(line.substr(start + reason_key.size()));
        if (const auto who = reason.rfind(" ["); who != std::string_view::npos) { // [root@2026-11-22T05:55:00]
            node.shown = reason.ends_with(']') ? reason : "";
            reason = reason.substr(0, who);
        }
        node.reason = trim(reason);
    }
    return node;
}

DrainDecision decide_drain(NodeStatus status, const SlurmNode& node, std::string_view own, unsigned critical_in_a_row,
                           unsigned after) {
    constexpr std::size_t longest = 300;
    const bool marked = node.drained && node.reason.starts_with(drain_prefix);
    const auto& shown = node.shown.empty() ? node.reason : node.shown;
    const auto others = [&shown] { return format_text("it is drained by others ({})", printable(shown, longest)); };
    switch (status) {
    case NodeStatus::Critical:
        if (node.drained) {
            return {DrainAction::None, marked ? "it is drained already" : others()};
        }
        if (critical_in_a_row < after) {
            return {DrainAction::None, format_text("critical {} of {} times in a row", critical_in_a_row, after)};
        }
        return {DrainAction::Drain, "it is critical"};
    case NodeStatus::Unknown:
        return {DrainAction::None, "something could not be read; no action"};
    case NodeStatus::Ok:
    case NodeStatus::Warning:
        break;
    }
    if (marked && !own.empty() && node.shown == own) {
        return {DrainAction::Undrain, "it is good again"};
    }
    if (marked) {
        return {DrainAction::None,
                format_text("it is good; its drain looks like one of a check, but the state file does not hold it "
                            "({}): it stays; to undo it, run {}",
                            printable(shown, longest), undrain_advice(node.name))};
    }
    return {DrainAction::None, node.drained ? others() : "it is good"};
}

std::string undrain_advice(std::string_view node) {
    return format_text("scontrol update NodeName={} State=UNDRAIN", printable(node));
}

std::string drain_reason(std::string_view worst) {
    constexpr std::size_t most = 200;
    auto text = std::string(drain_prefix) + printable(worst, most);
    // Slurm accepts any reason, but its own files consist of lines of words, and brackets hold the user and time.
    std::replace_if(
        text.begin(), text.end(), [](char c) { return c == '"' || c == '\'' || c == '[' || c == ']'; }, ' ');
    return std::string(trim(text)); // as when reading it back
}

std::vector<std::string> show_command(const std::string& scontrol, const std::string& node) {
    return {scontrol.empty() ? "scontrol" : scontrol, "--oneliner", "show", "node", node};
}

std::vector<std::string> update_command(const std::string& scontrol, const std::string& node, DrainAction action,
                                        const std::string& reason) {
    std::vector<std::string> words = {scontrol.empty() ? "scontrol" : scontrol, "update", "NodeName=" + node};
    if (action == DrainAction::Drain) {
        words.emplace_back("State=DRAIN");
        words.push_back("Reason=" + reason);
    } else {
        words.emplace_back("State=UNDRAIN"); // not RESUME, which would also bring up a node that is DOWN
    }
    return words;
}

} // namespace rdma_nccl
