// SPDX-License-Identifier: Apache-2.0
// verify --step: srun --overlap starts a process on each node of the job, which watches the node and prints the
// evidence. The calling process judges all evidence together.
#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "lib/exchange/messages.h"
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

// --- On each node ---

/// Watches until the time is over, the step has ended, or a signal arrives.
Result<int> watch_here(const VerifyOptions& options, const StepId& id) {
    const auto live = SysRoot::open("/");
    const auto task = live ? find_task(*live, id.job, id.step, Environment::from(environ), ::geteuid()) : std::nullopt;
    const auto user = task ? user_of(*live, task->pid) : std::nullopt; // later the number may be another process's
    // What the plugin set counts as the user's: it is what the step has.
    const auto node =
        WatchedNode::inspect(options.settings, task ? task->environment.as_users() : Environment::from(environ));
    const BlockedSignals blocked;
    const auto signals = SignalReader::open(blocked);
    if (!node || !signals || !live) {
        return fail(!node ? node.error().message : "verify: no signals or no /proc");
    }
    if (!step_on_node(*live, id.job, id.step)) {
        return exit_good; // this node of the job is not part of the step
    }
    const auto leader =
        task ? parse_number<std::uint32_t>(task->environment.get("SLURM_JOB_ID").value_or("")) : std::nullopt;
    auto watch = node->watch({id.job, id.step, 0, user, leader.value_or(id.job)});
    const auto end = Clock::now() + std::chrono::milliseconds(std::lround(options.seconds * 1000));
    while (Clock::now() < end && step_on_node(*live, id.job, id.step)) {
        if (!wait_for_sample(watch, signals->fd(), end)) {
            watch.sample();
        } else if (const auto signal = signals->next();
                   signal && (signal->number == SIGINT || signal->number == SIGTERM)) {
            break;
        }
    }
    watch.sample(true);
    print_report(write_evidence(node->evidence(watch, {})));
    return exit_good;
}

// --- In the calling process ---

/// How long to wait for the nodes: none of them watches longer than the user wants, but all have to start.
constexpr std::chrono::seconds time_to_start(300);

std::vector<std::string> arguments_on_nodes(const VerifyOptions& options, const StepId& id) {
    std::vector<std::string> arguments = {"verify",    "--on-this-node",
                                          "--step",    format_text("{}.{}", id.job, id.step),
                                          "--seconds", format_text("{}", options.seconds)};
    if (!options.settings.root.empty()) {
        arguments.insert(arguments.end(), {"--root", options.settings.root});
    }
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

/// Returns the nodes without a report, by name. A node's own name may differ from Slurm's, so no node is missing if
/// enough have reported.
std::vector<std::string> missing_nodes(std::vector<std::string> names, const std::vector<NodeEvidence>& reported) {
    const bool enough = reported.size() >= names.size();
    std::erase_if(names, [&](const auto& name) { return enough || find_by(reported, &NodeEvidence::node, name); });
    return names;
}

} // namespace

Result<int> verify_step(const VerifyOptions& options) {
    const auto id = parse_step_id(options.step);
    if (!id) {
        print_error(
            format_text("verify: --step {}: expected JOB.STEP, as squeue --steps shows it", printable(options.step)));
        return exit_bad_line;
    }
    if (options.on_this_node) {
        return watch_here(options, *id);
    }
    const auto list = ask_slurm({"squeue", "--noheader", "--steps", options.step, "--format=%N"});
    const std::string nodes(list ? trim(*list) : "");
    const auto names = expand_hostlist(nodes).value_or(std::vector<std::string>());
    if (nodes.empty() || names.empty()) {
        return fail(list ? format_text("verify: there is no step {} that runs (squeue --steps)", options.step)
                         : format_text("verify: {}", list.error().message));
    }
    const auto watching = std::chrono::milliseconds(std::lround(options.seconds * 1000));
    const auto reports = job_options(id->job).and_then([&](const std::string& job) {
        return ask_nodes(job, names, arguments_on_nodes(options, *id), watching + time_to_start);
    });
    if (!reports) {
        return fail("verify: " + reports.error().message);
    }
    auto evidence = evidence_in(reports->texts);
    if (evidence.empty()) {
        return fail(format_text("verify: no node of step {} reported: is rdma-nccl installed there?", options.step));
    }
    auto missing = missing_nodes(names, evidence);
    return print_verdict(judge_step(std::move(evidence), std::move(missing)), options, id->job, id->step);
}

} // namespace rdma_nccl
