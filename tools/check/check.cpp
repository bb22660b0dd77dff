// SPDX-License-Identifier: Apache-2.0
#include "tools/check/check.h"

#include "lib/base/forked_worker.h"
#include "lib/base/format.h"
#include "lib/base/json.h"
#include "lib/base/text.h"
#include "lib/sys/atomic_file.h"
#include "lib/sys/node_name.h"
#include "tools/check/drain.h"
#include "tools/check/inspect.h"
#include "tools/check/judge.h"
#include "tools/check/output.h"
#include "tools/check/state.h"
#include "tools/common/exit_codes.h"
#include "tools/common/print.h"
#include "tools/common/wall_time.h"
#include "tools/node/node_plan.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace rdma_nccl {

namespace {

using Clock = std::chrono::steady_clock;

constexpr unsigned public_file = 0644;

/// Reads the file of expectations, if there is one.
Expectations read_expectations(const CheckOptions& options, std::string_view host, CheckResults& results) {
    constexpr std::size_t largest = std::size_t{1} << 20;
    const auto root = SysRoot::open("/");
    const auto text = root ? root->read(options.expect, largest) : tl::unexpected(root.error());
    CheckResult result{.id = "check", .item = "expectations", .evidence = options.expect};
    if (!text) {
        if (text.error().os_error != ENOENT || options.expect_given) {
            result.status = CheckStatus::Error;
            result.message = printable(text.error().message, 200);
            result.hint = "name a file that can be read, or learn one from a good node: --learn FILE";
            results.push_back(std::move(result));
        }
        return {};
    }
    auto outcome = parse_expectations(*text, options.expect, host);
    for (const auto& fault : outcome.faults) {
        result.status = CheckStatus::Error;
        result.message = printable(fault, 300);
        result.hint = "correct the line; rdma-nccl-check(1) has all keys";
        results.push_back(result);
    }
    return std::move(outcome.expectations);
}

/// Compares with the state that the last check wrote, and determines whether this check can write its own. Renames a
/// broken file, so that the next check finds a good one.
void compare_with_last(const CheckOptions& options, CheckFacts& facts, CheckResults& results) {
    if (options.state.empty()) {
        return;
    }
    auto state = read_state(options.state);
    const auto aside = options.state + ".broken";
    if (!state && state.error().os_error == 0 &&
        (options.dry_run || ::rename(options.state.c_str(), aside.c_str()) == 0)) {
        print_error(format_text("{}: it {} {}, and the check goes on with a new one; nothing is compared with the last "
                                "check, and a drain that the file told of is not undone",
                                state.error().message, options.dry_run ? "would be renamed to" : "is now",
                                printable(aside, 200)));
        state = std::nullopt;
    }
    facts.has_state_file = state.has_value();
    if (!state) { // leave a file that cannot be read or renamed as it is
        results.push_back({.id = "check",
                           .item = "state",
                           .status = CheckStatus::Error,
                           .message = state.error().message,
                           .hint = "name a file that this user can read and write",
                           .evidence = options.state});
        return;
    }
    if (*state) {
        facts.now.drain = (*state)->drain;
        if ((*state)->boot_id == facts.now.boot_id) { // after a reboot, counters started again
            facts.before = std::move(*state);
        }
    }
}

bool write_state(const CheckOptions& options, const CheckFacts& facts) {
    if (const auto slash = options.state.rfind('/'); slash != std::string::npos && slash > 0) {
        constexpr mode_t directory_mode = 0755;
        (void)::mkdir(options.state.substr(0, slash).c_str(), directory_mode);
    }
    const auto kept = replace_file(options.state, state_text(facts.now), public_file);
    if (!kept) {
        print_error(format_text("cannot save the state: {}", kept.error().message));
    }
    return kept.has_value();
}

void keep_state(const CheckOptions& options, CheckFacts& facts, NodeStatus status) {
    if (!facts.has_state_file || options.dry_run) {
        return;
    }
    const auto before = facts.before ? facts.before->critical_in_a_row : 0;
    facts.now.critical_in_a_row = status == NodeStatus::Critical ? before + 1 : 0;
    (void)write_state(options, facts);
}

/// Returns whether the file does not exist, is empty, or starts with `mark`.
bool is_ours(const std::string& path, std::string_view mark) {
    const auto root = SysRoot::open("/");
    const auto start = root ? root->read(path, mark.size()) : tl::unexpected(root.error());
    return start ? start->empty() || *start == mark : start.error().os_error == ENOENT;
}

bool write_metrics(const CheckOptions& options, const CheckReport& report) {
    if (options.prometheus.empty()) {
        return true;
    }
    if (!is_ours(options.prometheus, metrics_mark)) {
        print_error(format_text("metrics are not written: {} holds something else; name another file",
                                printable(options.prometheus, 200)));
        return false;
    }
    const auto written = replace_file(options.prometheus, check_prometheus(report), public_file);
    if (!written) {
        print_error(format_text("metrics are not written: {}", written.error().message));
    }
    return written.has_value();
}

int learn(const CheckOptions& options, const CheckFacts& facts) {
    const auto text = learned_expectations(facts, wall_time_text(facts.now.time_us));
    if (*options.learn == "-") {
        print_out(text);
        return 0;
    }
    if (!is_ours(*options.learn, learned_mark)) {
        print_error(format_text("{} was not written by --learn and is left unchanged; name another file",
                                printable(*options.learn, 200)));
        return exit_cannot_tell;
    }
    if (const auto written = replace_file(*options.learn, text, public_file); !written) {
        print_error(written.error().message);
        return exit_cannot_tell;
    }
    print_out(format_text("{}: written; look at it, and give it to all nodes that are like this one\n",
                          printable(*options.learn, 200)));
    return 0;
}

std::string slurm_name(const CheckOptions& options, const std::string& host) {
    if (!options.node.empty()) {
        return options.node;
    }
    const auto name = slurm_node_name();
    return name.empty() ? host.substr(0, host.find('.')) : name;
}

/// Returns how long scontrol may take now: the rest of the time limit, less a little to report the result.
std::chrono::milliseconds left_for_slurm(const CheckOptions& options, Clock::time_point start) {
    constexpr std::chrono::milliseconds most(10000);
    constexpr std::chrono::milliseconds to_say_it(250);
    const auto end = start + std::chrono::seconds(options.limit_s) - to_say_it;
    return std::min(most, std::chrono::floor<std::chrono::milliseconds>(end - Clock::now()));
}

/// Runs scontrol for one node, in the time left.
struct Slurm {
    const CheckOptions& options;
    Clock::time_point start;
    std::string scontrol;
    std::string node;

    [[nodiscard]] Result<SlurmNode> show() const {
        const auto text = run_scontrol(show_command(scontrol, node), left_for_slurm(options, start));
        if (!text) {
            return tl::unexpected(text.error());
        }
        auto shown = parse_slurm_node(*text);
        if (!shown) {
            return fail(format_text("Slurm's answer makes no sense: {}", printable(*text, 200)));
        }
        return *std::move(shown);
    }
};

/// Runs `command`, but first checks that the node's state is unchanged, because Slurm has no compare-and-update.
Result<void> tell_slurm(const Slurm& slurm, const SlurmNode& seen, const std::vector<std::string>& command) {
    const auto again = slurm.show();
    if (!again) {
        return tl::unexpected(again.error());
    }
    if (*again != seen) {
        return fail(format_text("somebody changed it while the check ran (it is {}drained now{}{}); the next check "
                                "decides anew",
                                again->drained ? "" : "not ", again->reason.empty() ? "" : ": ",
                                printable(again->reason, 300)));
    }
    const auto done = run_scontrol(command, left_for_slurm(slurm.options, slurm.start));
    return done ? Result<void>() : tl::unexpected(done.error());
}

/// Saves the reason that Slurm shows for the new drain. The next check recognizes the drain by it.
void keep_drain(const Slurm& slurm, CheckFacts& facts, const std::string& reason) {
    facts.now.drain.clear();
    const auto now = slurm.show();
    if (now && now->drained && now->reason == reason) {
        facts.now.drain = now->shown;
    }
    const bool kept = facts.has_state_file && write_state(slurm.options, facts);
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

/// Gets the node's state from Slurm, decides, and updates Slurm. Returns 0 on success or if there was nothing to do.
int act_as_health_check(const CheckOptions& options, const CheckReport& report, CheckFacts& facts, const Slurm& slurm) {
    constexpr std::size_t longest_reason = 180;
    (void)::setenv("SLURM_TIME_FORMAT", "standard", 1); // so that the time of a drain always has the same format
    const auto status = overall(report.results);
    const auto& node = slurm.node;
    const auto seen = slurm.show();
    if (!seen) {
        print_error(format_text("{} is {}; no action: {}", node, name_of(status), seen.error().message));
        return exit_cannot_tell;
    }
    const unsigned before = facts.before ? facts.before->critical_in_a_row : 0;
    const auto decision = decide_drain(status, *seen, facts.now.drain, before + 1, options.after);
    const auto worst = worst_in_short(report, longest_reason);
    const auto reason = drain_reason(worst);
    const auto command = update_command(slurm.scontrol, node, decision.action, reason);
    const std::string_view word = decision.action == DrainAction::Drain     ? "drained"
                                  : decision.action == DrainAction::Undrain ? "undrained"
                                                                            : "left as it is";
    if (options.dry_run) {
        std::string words;
        for (const auto& part : command) {
            words += " '" + part + "'";
        }
        print_out(format_text("{}: {}: would be {}: {}\n{}", node, name_of(status), word, decision.why,
                              decision.action == DrainAction::None ? "" : "would run" + words + "\n"));
        return 0;
    }
    if (decision.action != DrainAction::None) {
        if (const auto done = tell_slurm(slurm, *seen, command); !done) {
            print_error(
                format_text("{} is {}; it could not be {}: {}", node, name_of(status), word, done.error().message));
            return exit_cannot_tell;
        }
    }
    if (decision.action == DrainAction::Drain) {
        keep_drain(slurm, facts, reason);
    } else if (decision.action == DrainAction::Undrain) {
        facts.now.drain.clear();
        (void)write_state(options, facts);
    }
    const bool good = status == NodeStatus::Ok || status == NodeStatus::Warning;
    if (good && decision.action == DrainAction::None && !seen->drained) {
        return 0; // print nothing: this runs every five minutes
    }
    print_out(format_text("{}: {}: {}: {}{}{}\n", node, name_of(status), word, decision.why, worst.empty() ? "" : "; ",
                          worst));
    return 0;
}

/// Prints the report in the chosen form. Returns that form's exit code.
int print_report(const CheckOptions& options, const CheckReport& report) {
    const auto status = overall(report.results);
    constexpr std::size_t log_line = 400;
    switch (options.form) {
    case CheckForm::Json:
        print_out(check_json(report).dump(2) + "\n");
        break;
    case CheckForm::Nagios:
        print_out(check_nagios(report));
        break;
    case CheckForm::Prolog:
        if (status == NodeStatus::Critical) {
            print_out(format_text("rdma-nccl: {} is not ready: {}\n", report.host, worst_in_short(report, log_line)));
        }
        return status == NodeStatus::Critical ? 1 : 0;
    case CheckForm::Text:
        print_out(check_text(report, options.all, ::isatty(STDOUT_FILENO) == 1));
        break;
    case CheckForm::Health:
    case CheckForm::Quiet:
        return 0;
    }
    return static_cast<int>(status);
}

/// Does the whole check. May hang.
int check_here(const CheckOptions& options, const Settings& settings, Clock::time_point start, const StageLog& stage) {
    const auto root = SysRoot::open(settings.root);
    if (!root) {
        print_error(root.error().message);
        return options.form == CheckForm::Prolog ? 0 : exit_cannot_tell;
    }
    auto facts = inspect_for_check(*root, settings, Environment::from(environ), stage);
    facts.now.time_us = wall_time_us();
    if (options.learn) {
        return learn(options, facts);
    }
    CheckReport report{.host = facts.host.empty() ? "unknown" : facts.host, .results = {}, .facts = &facts};
    const auto expected =
        read_expectations(options, facts.live ? slurm_name(options, facts.host) : facts.host, report.results);
    compare_with_last(options, facts, report.results);
    auto judged = judge_node(facts, expected);
    if (options.form == CheckForm::Health || options.form == CheckForm::Prolog) {
        warn_of_the_unexpected(judged, expected);
    }
    report.results.insert(report.results.end(), judged.begin(), judged.end());
    report.time_us = facts.now.time_us;
    report.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    stage("writing files");
    keep_state(options, facts, overall(report.results));
    const bool written = write_metrics(options, report);
    if (options.form == CheckForm::Health) {
        stage("Slurm");
        const Slurm slurm{options, start, expected.scontrol, slurm_name(options, report.host)};
        return act_as_health_check(options, report, facts, slurm);
    }
    const int code = print_report(options, report);
    return options.form == CheckForm::Quiet && !written ? exit_cannot_tell : code;
}

/// Shared between parent and child: the child's current stage and its exit code.
struct Shared {
    std::atomic<int> exit_code{-1};
    std::array<char, 64> stage{};
};

/// Reports that the check hangs, and in which stage.
int report_hang(const CheckOptions& options, const Shared& shared, double seconds) {
    CheckReport report;
    report.host = own_host_name();
    report.time_us = wall_time_us();
    report.seconds = seconds;
    const std::string_view stage = shared.stage.data();
    report.results.push_back(
        {.id = "check",
         .item = "time",
         .status = CheckStatus::Error,
         .message = format_text("{} did not return within {:.0f} s", stage.empty() ? "the check" : stage, seconds),
         .hint = "something in the kernel hangs (dmesg: hung tasks): drain and reboot the node"});
    (void)write_metrics(options, report);
    if (options.form == CheckForm::Health || options.form == CheckForm::Quiet || options.learn) {
        print_error(worst_in_short(report, 200));
        return exit_cannot_tell;
    }
    return print_report(options, report);
}

} // namespace

int check_command(const CheckOptions& options) {
    const auto start = Clock::now();
    const auto settings = settings_from(options.settings);
    if (!settings) {
        print_error(settings.error().message);
        return options.form == CheckForm::Prolog ? 0 : 2;
    }
    void* const page = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) {
        return check_here(options, *settings, start, [](std::string_view) {});
    }
    auto* const shared = new (page) Shared(); // constructed in the page, which lives as long as this process
    const pid_t parent = ::getpid();
    auto child = Child::start([&] {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (::getppid() != parent) {
            return;
        }
        const int code = check_here(options, *settings, start, [shared](std::string_view stage) {
            shared->stage.fill(0);
            std::memcpy(shared->stage.data(), stage.data(), std::min(stage.size(), shared->stage.size() - 1));
        });
        const bool printed = finish_output();
        shared->exit_code = printed || options.form == CheckForm::Prolog ? code : exit_cannot_tell;
    });
    if (!child) {
        return check_here(options, *settings, start, [](std::string_view) {});
    }
    const bool ended = child->finish(std::chrono::seconds(options.limit_s));
    const int code = shared->exit_code;
    if (ended && code >= 0) {
        return code;
    }
    const auto seconds = std::chrono::duration<double>(Clock::now() - start).count();
    return report_hang(options, *shared, seconds);
}

} // namespace rdma_nccl
