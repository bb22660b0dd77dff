// SPDX-License-Identifier: Apache-2.0
// verify --step: srun --overlap starts a process on each node of the job, which watches the node and prints the
// evidence. The calling process judges all evidence together.
#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "lib/exchange/messages.h"
#include "lib/sys/environment.h"
#include "lib/sys/signal_fd.h"
#include "tools/common/command_line.h"
#include "tools/common/job_nodes.h"
#include "tools/common/print.h"
#include "tools/node/node_plan.h"
#include "tools/verify/verify.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <unistd.h>

namespace rdma_nccl {

namespace {

using Clock = StepWatch::Clock;

std::chrono::milliseconds time_to_watch(const VerifyOptions& options) {
    return std::chrono::milliseconds(std::lround(options.seconds * 1000));
}

// --- On each node ---

/// Watches until the time is over, the step has ended, or a signal arrives.
Result<int> watch_here(const VerifyOptions& options, const Settings& settings, const StepId& id) {
    const BlockedSignals blocked; // a signal before the first sample ends in a report, too
    const auto own = Environment::from(environ);
    const auto live = SysRoot::open("/");
    const auto task = live ? find_task(*live, id.job, id.step, own, ::geteuid()) : std::nullopt;
    const auto user = task ? user_of(*live, task->pid) : std::nullopt; // later the number may be another process's
    // What the plugin set counts as the user's: it is what the step has.
    const auto node = WatchedNode::inspect(options.settings, settings, task ? task->environment.as_users() : own);
    const auto signals = SignalReader::open(blocked);
    if (!node || !signals || !live) {
        return fail(!node ? node.error().message : "verify: no signals or no /proc");
    }
    const auto is_running = [&] { return step_on_node(*live, id, own, ::geteuid()); };
    if (!is_running()) {
        return exit_good; // this node of the job is not part of the step
    }
    const auto leader =
        task ? parse_number<std::uint32_t>(task->environment.get("SLURM_JOB_ID").value_or("")) : std::nullopt;
    auto watch = node->watch({id.job, id.step, 0, user, leader.value_or(id.job)});
    const auto end = Clock::now() + time_to_watch(options);
    while (Clock::now() < end && is_running()) {
        if (!wait_for_sample(watch, signals->fd(), end)) {
            watch.sample();
        } else if (const auto signal = signals->next();
                   signal && (signal->number == SIGINT || signal->number == SIGTERM)) {
            break;
        }
    }
    watch.sample(true);
    auto evidence = node->evidence(watch, {});
    evidence.node = own_node_name(); // squeue's: the host name may have a domain
    print_report(write_evidence(evidence));
    return exit_good;
}

// --- In the calling process ---

/// The time for all nodes to start, besides the time that they watch.
constexpr std::chrono::seconds time_to_start(300);

std::vector<std::string> arguments_on_nodes(const VerifyOptions& options, const StepId& id) {
    std::vector<std::string> arguments = {"verify",    "--on-this-node",
                                          "--step",    format_text("{}.{}", id.job, id.step),
                                          "--seconds", format_text("{}", options.seconds)};
    append(arguments, arguments_of(options.settings));
    return arguments;
}

std::vector<NodeEvidence> evidence_in(const std::vector<std::string>& reports) {
    std::vector<NodeEvidence> nodes;
    for (const auto& report : reports) {
        if (auto evidence = read_evidence(report)) {
            nodes.push_back(std::move(*evidence));
        }
    }
    std::ranges::sort(nodes, {}, &NodeEvidence::node);
    return nodes;
}

/// Returns the nodes without a report, by name.
std::vector<std::string> missing_nodes(std::vector<std::string> names, const std::vector<NodeEvidence>& reported) {
    std::erase_if(names, [&](const auto& name) { return find_by(reported, &NodeEvidence::node, name) != nullptr; });
    return names;
}

} // namespace

Result<int> verify_step(const VerifyOptions& options, const Settings& settings) {
    const auto name = name_by_number(options.step);
    if (!name) {
        return fail(format_text("verify: {}", name.error().message));
    }
    const auto id = parse_step_id(*name);
    if (!id) {
        print_error(
            format_text("verify: --step {}: expected JOB.STEP, as squeue --steps shows it", printable(options.step)));
        return exit_bad_line;
    }
    if (options.on_this_node) {
        return watch_here(options, settings, *id);
    }
    const auto list = ask_slurm({"squeue", "--noheader", "--steps", options.step, "--format=%N"});
    const std::string nodes(list ? trim(*list) : "");
    const auto names = expand_hostlist(nodes).value_or(std::vector<std::string>());
    if (nodes.empty() || names.empty()) {
        return fail(list ? format_text("verify: there is no step {} that runs (squeue --steps)", options.step)
                         : format_text("verify: {}", list.error().message));
    }
    const auto limit = time_to_watch(options) + time_to_start;
    const auto reports = ask_nodes(id->job, names, arguments_on_nodes(options, *id), limit);
    if (!reports) {
        return fail("verify: " + reports.error().message);
    }
    auto evidence = evidence_in(reports->texts);
    if (evidence.empty()) {
        return fail(format_text("verify: no node of step {} reported: {}", options.step, reports->why_silent(limit)));
    }
    auto missing = missing_nodes(names, evidence);
    return print_verdict(judge_step(std::move(evidence), std::move(missing)), options, id->job, id->step);
}

} // namespace rdma_nccl
