// SPDX-License-Identifier: Apache-2.0
// verify --step: srun --overlap starts a process on each node of the job, which watches the node and prints the
// evidence. The calling process judges all evidence together.
#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "lib/exchange/messages.h"
#include "lib/sys/signal_fd.h"
#include "tools/common/command_line.h"
#include "tools/common/print.h"
#include "tools/common/process.h"
#include "tools/node/node_plan.h"
#include "tools/verify/verify.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <unistd.h>

namespace rdma_nccl {

namespace {

using Clock = StepWatch::Clock;

constexpr std::string_view mark = "rdma-nccl-evidence ";
constexpr char more_pieces = '+'; // after the mark
constexpr char last_piece = '.';
constexpr std::size_t most_output = std::size_t{64} << 20;

// --- On each node ---

/// Prints the evidence as short lines: srun merges the lines of several nodes, and splits lines of 1 KiB or more.
void report(const NodeEvidence& evidence) {
    constexpr std::size_t longest_line = 512;
    const std::string text = write_evidence(evidence);
    std::string lines;
    for (std::size_t begin = 0; begin < text.size(); begin += longest_line) {
        const bool last = begin + longest_line >= text.size();
        lines += format_text("{}{}{}\n", mark, last ? last_piece : more_pieces, text.substr(begin, longest_line));
    }
    print_out(lines);
    (void)std::fflush(stdout); // while signals are blocked: the next one may end this process
}

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
    report(node->evidence(watch, {}));
    return exit_good;
}

// --- In the calling process ---

std::vector<std::string> command_for(const VerifyOptions& options, const StepId& id, const std::string& job,
                                     const std::string& nodes, std::size_t node_count) {
    std::array<char, 4096> self{};
    const auto length = ::readlink("/proc/self/exe", self.data(), self.size() - 1);
    const auto srun = format_text("srun {} --nodelist={} --nodes={} --overlap --quiet --label "
                                  "--ntasks-per-node=1 --gres=none --cpu-bind=none --input=none",
                                  job, nodes, node_count);
    const auto arguments = split_words(srun);
    std::vector<std::string> command(arguments.begin(), arguments.end());
    command.emplace_back(length > 0 ? self.data() : "rdma-nccl");
    command.insert(command.end(), {"verify", "--on-this-node", "--step", format_text("{}.{}", id.job, id.step),
                                   "--seconds", format_text("{}", options.seconds)});
    if (!options.settings.root.empty()) {
        command.insert(command.end(), {"--root", options.settings.root});
    }
    return command;
}

/// Returns the output of a program, at most `most_output` bytes. Fails if it cannot be started.
Result<std::string> output_of(const std::vector<std::string>& command) {
    ProcessStart start{.words = command, .ends_with_parent = false};
    start.prepare = [] { (void)::setenv("RDMA_NCCL_ENABLE", "off", 1); }; // the plugin must ignore this step
    start.on_failure = [&command](int error) {
        print_error(format_text("verify: {}: {}", command.front(), std::strerror(error)));
        return exit_cannot_tell;
    };
    auto process = CapturedProcess::start(std::move(start), false, most_output);
    if (!process) {
        return tl::unexpected(process.error());
    }
    CapturedProcess::read({&*process, 1}, Clock::time_point::max());
    (void)process->finish();
    return process->text();
}

/// Returns srun's options for the job. Of a heterogeneous job srun knows the leader and the place of a component, which
/// squeue says: "12+1" (%i) is job 13 (%A).
std::string job_options(std::uint32_t job) {
    const auto number = std::to_string(job);
    const auto list = output_of({"squeue", "--noheader", "--jobs", number, "--format=%A %i"});
    const std::string lines = list.value_or(""); // of a leader, a line for each component
    for (const auto line : split(lines, '\n')) {
        const auto words = split_words(line);
        const auto [leader, place] = split_once(words.size() == 2 && words[0] == number ? words[1] : "", '+');
        if (place) {
            return format_text("--jobid={} --het-group={}", leader, *place);
        }
    }
    return "--jobid=" + number;
}

std::vector<NodeEvidence> evidence_in(std::string_view output) {
    std::vector<NodeEvidence> nodes;
    std::map<std::string_view, std::string> pieces; // by srun's label
    for (const auto line : split(output, '\n')) {
        const auto found = line.find(mark);
        const auto piece = found == std::string_view::npos ? std::string_view() : line.substr(found + mark.size());
        if (piece.empty()) {
            continue;
        }
        auto& text = pieces[line.substr(0, found)];
        text += piece.substr(1);
        if (piece.front() != last_piece) {
            continue;
        }
        if (auto evidence = read_evidence(text)) {
            nodes.push_back(std::move(*evidence));
        }
        text.clear();
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
    const auto list = output_of({"squeue", "--noheader", "--steps", options.step, "--format=%N"});
    const std::string nodes(list ? trim(*list) : "");
    const auto names = expand_hostlist(nodes).value_or(std::vector<std::string>());
    if (nodes.empty() || names.empty()) {
        return fail(list ? format_text("verify: there is no step {} that runs (squeue --steps)", options.step)
                         : format_text("verify: {}", list.error().message));
    }
    const auto output = output_of(command_for(options, *id, job_options(id->job), nodes, names.size()));
    auto evidence = output ? evidence_in(*output) : std::vector<NodeEvidence>();
    if (evidence.empty()) {
        return fail(format_text("verify: no node of step {} reported: is rdma-nccl installed there?", options.step));
    }
    auto missing = missing_nodes(names, evidence);
    return print_verdict(judge_step(std::move(evidence), std::move(missing)), options, id->job, id->step);
}

} // namespace rdma_nccl
