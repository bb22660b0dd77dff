// SPDX-License-Identifier: Apache-2.0
#include "tools/check_drain.h"

#include "lib/format.h"
#include "lib/text.h"

#include <algorithm>

namespace rdma_nccl {

namespace {

/// "State=IDLE+DRAIN+DYNAMIC_NORM".
bool has_state(std::string_view states, std::string_view wanted) {
    const auto parts = split(states, '+');
    return std::any_of(parts.begin(), parts.end(), [wanted](std::string_view part) {
        return part.substr(0, part.find_first_of("*~#!%$@^-")) == wanted; // marks of scontrol(1), "NODE STATE CODES"
    });
}

} // namespace

std::optional<SlurmNode> parse_slurm_node(std::string_view text) {
    const auto line = text.substr(0, text.find('\n'));
    const auto words = split_words(line);
    const auto state =
        std::find_if(words.begin(), words.end(), [](std::string_view word) { return word.starts_with("State="); });
    if (words.empty() || !words.front().starts_with("NodeName=") || state == words.end()) {
        return std::nullopt;
    }
    constexpr std::string_view state_key = "State=";
    constexpr std::string_view reason_key = " Reason=";
    SlurmNode node;
    const auto states = state->substr(state_key.size());
    node.drained = has_state(states, "DRAIN") || has_state(states, "DRAINED") || has_state(states, "DRAINING");
    node.down = has_state(states, "DOWN");
    const auto start = line.find(reason_key);
    if (start != std::string_view::npos) {
        auto reason = line.substr(start + reason_key.size());
        if (const auto who = reason.rfind(" ["); who != std::string_view::npos) { // [root@2026-11-22T05:55:00]
            reason = reason.substr(0, who);
        }
        node.reason = trim(reason);
    }
    return node;
}

DrainDecision decide_drain(NodeStatus status, const SlurmNode& node, unsigned critical_in_a_row, unsigned after) {
    const bool ours = node.drained && node.reason.starts_with(trim(drain_prefix));
    const auto others = [&node] { return format_text("it is drained by others ({})", printable(node.reason, 200)); };
    switch (status) {
    case NodeStatus::Critical:
        if (node.drained) {
            return {DrainAction::None, ours ? "it is drained already" : others()};
        }
        if (critical_in_a_row < after) {
            return {DrainAction::None, format_text("critical {} of {} times in a row", critical_in_a_row, after)};
        }
        return {DrainAction::Drain, "it is critical"};
    case NodeStatus::Unknown:
        return {DrainAction::None, "something could not be read: nothing is done"};
    case NodeStatus::Ok:
    case NodeStatus::Warning:
        break;
    }
    if (ours) {
        return {DrainAction::Undrain, "it is good again"};
    }
    return {DrainAction::None, node.drained ? others() : "it is good"};
}

std::string drain_reason(std::string_view worst) {
    constexpr std::size_t most = 200;
    auto text = std::string(drain_prefix) + printable(worst, most);
    // Slurm's reason ends at nothing, but its own files are lines of words; brackets hold who and when.
    std::replace_if(
        text.begin(), text.end(), [](char c) { return c == '"' || c == '\'' || c == '[' || c == ']'; }, ' ');
    return text;
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
