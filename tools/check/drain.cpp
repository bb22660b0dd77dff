// SPDX-License-Identifier: Apache-2.0
#include "tools/check/check.h"

#include "lib/base/format.h"
#include "lib/base/text.h"
#include "tools/common/command_line.h"
#include "tools/common/print.h"
#include "tools/common/scontrol.h"

#include <algorithm>
#include <array>
#include <cstdlib>

namespace rdma_nccl::check {

namespace {

/// `states`: e.g. "IDLE+DRAIN+DYNAMIC_NORM".
bool has_state(std::string_view states, std::string_view wanted) {
    return std::ranges::any_of(split(states, '+'), [wanted](std::string_view part) {
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

/// Returns advice to the user.
std::string undrain_advice(std::string_view node) {
    return format_text("scontrol update NodeName={} State=UNDRAIN", printable(node));
}

} // namespace

std::optional<SlurmNode> parse_slurm_node(std::string_view text) {
    constexpr std::string_view name_key = "NodeName=";
    static constexpr std::string_view state_key = "State=";
    const auto line = text.substr(0, text.find('\n'));
    const auto fields = split_words(line);
    const auto state =
        std::ranges::find_if(fields, [](std::string_view field) { return field.starts_with(state_key); });
    if (fields.empty() || !fields.front().starts_with(name_key) || state == fields.end()) {
        return std::nullopt;
    }
    constexpr std::string_view reason_key = " Reason=";
    SlurmNode node;
    node.name = fields.front().substr(name_key.size());
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

std::string drain_reason(std::string_view worst) {
    constexpr std::size_t most = 200;
    auto text = std::string(drain_prefix) + printable(worst, most);
    // Slurm accepts any reason, but its own files consist of lines of words, and brackets hold the user and time.
    std::replace_if(
        text.begin(), text.end(), [](char c) { return c == '"' || c == '\'' || c == '[' || c == ']'; }, ' ');
    return std::string(trim(text)); // as when reading it back
}

namespace {

std::string_view name_of(DrainAction action) {
    constexpr std::array<std::string_view, 3> names = {"left as it is", "drained", "undrained"};
    return names.at(static_cast<std::size_t>(action));
}

std::vector<std::string> update_command(const std::string& scontrol, const std::string& node, DrainAction action,
                                        const std::string& reason) {
    if (action == DrainAction::Drain) {
        return {scontrol, "update", "NodeName=" + node, "State=DRAIN", "Reason=" + reason};
    }
    // Not RESUME, which would also bring up a node that is DOWN.
    return {scontrol, "update", "NodeName=" + node, "State=UNDRAIN"};
}

/// Runs scontrol within the limit of the whole check.
Result<std::string> run_in_time(const SlurmAccess& slurm, const std::vector<std::string>& command) {
    using std::chrono::milliseconds;
    constexpr milliseconds most(10000);
    // A third of what is left is for ending scontrol and reporting it: on a busy machine that takes its time.
    const auto left = (slurm.deadline - std::chrono::steady_clock::now()) * 2 / 3;
    if (left <= milliseconds(0)) {
        return fail("no time is left to start scontrol: the check took it (--limit)");
    }
    return run_scontrol(command, std::min(most, std::chrono::floor<milliseconds>(left)), std::size_t{64} << 10,
                        "name it in the file of expectations: scontrol = /PATH/scontrol");
}

Result<SlurmNode> show_node(const SlurmAccess& slurm) {
    const auto parse = [](const std::string& text) -> Result<SlurmNode> {
        auto shown = parse_slurm_node(text);
        return shown ? Result<SlurmNode>(*std::move(shown))
                     : fail(format_text("Slurm's answer makes no sense: {}", printable(text, 200)));
    };
    return run_in_time(slurm, {slurm.scontrol, "--oneliner", "show", "node", slurm.node}).and_then(parse);
}

/// Runs `command`, but first checks that the node's state is unchanged, because Slurm has no compare-and-update.
Result<void> update_node(const SlurmAccess& slurm, const SlurmNode& seen, const std::vector<std::string>& command) {
    const auto again = show_node(slurm);
    if (!again) {
        return tl::unexpected(again.error());
    }
    if (*again != seen) {
        return fail(format_text("somebody changed it while the check ran (it is {}drained now{}{}); the next check "
                                "decides anew",
                                again->drained ? "" : "not ", again->reason.empty() ? "" : ": ",
                                printable(again->reason, 300)));
    }
    return run_in_time(slurm, command).map([](const std::string& /*text*/) {});
}

/// Saves the reason that Slurm shows for the new drain. The next check recognizes the drain by it.
void keep_drain(const SlurmAccess& slurm, const Options& options, Facts& facts, const std::string& reason) {
    facts.now.drain.clear();
    const auto now = show_node(slurm);
    if (now && now->drained && now->reason == reason) {
        facts.now.drain = now->shown;
    }
    const bool kept = facts.has_state_file && write_state(options, facts);
    if (!kept || facts.now.drain.empty()) {
        print_error(format_text("{}: this drain could not be recorded ({}), so no check will undo it; "
                                "when the node is good, run {}",
                                slurm.node,
                                !facts.has_state_file     ? "there is no file for it: --state"
                                : !now                    ? now.error().message
                                : facts.now.drain.empty() ? "Slurm shows another reason than the one given"
                                                          : "its file could not be written",
                                undrain_advice(slurm.node)));
    }
}

} // namespace

int act_as_health_check(const Options& options, const Report& report, Facts& facts, const SlurmAccess& slurm) {
    constexpr std::size_t longest_reason = 180;
    (void)::setenv("SLURM_TIME_FORMAT", "standard", 1); // so that the time of a drain always has the same format
    const auto status = overall(report.results);
    const auto seen = show_node(slurm);
    if (!seen) {
        print_error(format_text("{} is {}; no action: {}", slurm.node, name_of(status), seen.error().message));
        return exit_cannot_tell;
    }
    const auto [action, why] = decide_drain(status, *seen, facts.now.drain, facts.now.critical_in_a_row, options.after);
    const auto worst = worst_in_short(report, longest_reason);
    const auto reason = drain_reason(worst);
    const auto command = update_command(slurm.scontrol, slurm.node, action, reason);
    if (options.dry_run) {
        print_out(format_text("{}: {}: would be {}: {}\n{}", slurm.node, name_of(status), name_of(action), why,
                              action == DrainAction::None ? "" : "would run '" + joined(command, "' '") + "'\n"));
        return exit_good;
    }
    if (action != DrainAction::None) {
        if (const auto done = update_node(slurm, *seen, command); !done) {
            print_error(format_text("{} is {}; it could not be {}: {}", slurm.node, name_of(status), name_of(action),
                                    done.error().message));
            return exit_cannot_tell;
        }
    }
    if (action == DrainAction::Drain) {
        keep_drain(slurm, options, facts, reason);
    } else if (action == DrainAction::Undrain) {
        facts.now.drain.clear();
        (void)write_state(options, facts);
    }
    const bool good = status == NodeStatus::Ok || status == NodeStatus::Warning;
    if (!good || action != DrainAction::None || seen->drained) { // else print nothing: this runs every five minutes
        print_out(format_text("{}: {}: {}: {}{}{}\n", slurm.node, name_of(status), name_of(action), why,
                              worst.empty() ? "" : "; ", worst));
    }
    return exit_good;
}

} // namespace rdma_nccl::check
