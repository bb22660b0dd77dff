// SPDX-License-Identifier: Apache-2.0
// rdma-nccl verify: checks whether RDMA was really used, by NCCL's logs or by the traffic of nodes. Here: the command,
// and the program that it runs.
#include "tools/verify/verify.h"

#include "lib/base/format.h"
#include "lib/base/text.h"
#include "lib/nccl_log/reader.h"
#include "lib/plan/nccl_variables.h"
#include "lib/sys/signal_fd.h"
#include "tools/common/command_line.h"
#include "tools/common/print.h"
#include "tools/common/process.h"
#include "tools/node/node_plan.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace rdma_nccl {

namespace {

/// Starts a process that waits until the watch is ready, and then executes the program.
Result<pid_t> start_program(const std::vector<std::string>& program, const BlockedSignals& blocked, Pipe& gate) {
    ProcessStart start{.words = program, .ends_with_parent = false};
    start.prepare = [&] {
        gate.writer.reset();
        char byte = 0;
        if (::read(gate.reader.get(), &byte, 1) != 1) {
            ::_exit(exit_cannot_tell); // the watching process is gone
        }
        blocked.restore();
    };
    start.on_failure = [&](int error) {
        print_error(format_text("verify: {}: {}", program.front(), std::strerror(error)));
        return error == ENOENT ? 127 : 126; // as in a shell
    };
    return start_process(start);
}

/// Passes a signal on, unless it came from the terminal: then the program has received it too.
void pass_on(const ReceivedSignal& signal, pid_t program) {
    static const std::set<int> for_all = {SIGINT, SIGQUIT, SIGTSTP, SIGWINCH};
    if (signal.number != SIGCHLD && !(signal.sender == 0 && for_all.contains(signal.number))) {
        (void)::kill(program, signal.number);
    }
}

/// Watches the node until the program has ended. Returns the program's wait status.
int watch_program(StepWatch& watch, const SignalReader& signals, pid_t program) {
    for (;;) {
        if (!wait_for_sample(watch, signals.fd(), StepWatch::Clock::time_point::max())) {
            watch.sample();
            continue;
        }
        while (const auto signal = signals.next()) {
            pass_on(*signal, program);
        }
        int status = 0;
        if (::waitpid(program, &status, WNOHANG) == program) {
            return status;
        }
    }
}

/// A directory for NCCL's logs, which is removed at the end.
class LogDirectory {
public:
    LogDirectory() = default;
    LogDirectory(const LogDirectory&) = delete;
    LogDirectory& operator=(const LogDirectory&) = delete;
    ~LogDirectory() {
        if (!path_.empty()) {
            remove_log_directory(path_);
        }
    }

    /// Creates the directory, and sets NCCL's variables in this process to use it.
    void open(const NodeFacts& facts) {
        path_ = make_log_directory(facts.step.job_id, facts.step.step_id);
        if (path_.empty()) {
            print_error("warning: no directory for NCCL's logs can be made in /tmp");
            return;
        }
        VariableList variables(facts.environment, facts.nccl_conf);
        for (const auto& note : add_nccl_debug(variables, facts, path_)) {
            print_error("warning: " + note);
        }
        for (const auto& variable : variables.take()) {
            if (variable.action == VariableAction::Set) {
                (void)::setenv(variable.name.c_str(), variable.value.c_str(), 1);
            }
        }
    }
    [[nodiscard]] const std::string& path() const { return path_; }

private:
    std::string path_;
};

/// Returns true for a file that is there and no program: most likely a log.
bool is_no_program(const std::string& name) {
    const char* const path = std::getenv("PATH");
    struct stat status {};
    return ::stat(name.c_str(), &status) == 0 && S_ISREG(status.st_mode) && ::access(name.c_str(), X_OK) != 0 &&
           find_in_path(name, path ? path : "").empty();
}

Result<int> run_verify(const VerifyOptions& options) {
    const std::array unused = {options.logs.empty(), options.step.empty(), options.program.empty()};
    if (std::ranges::count(unused, false) != 1) {
        print_error("verify: say what to judge, one of: --log FILE... (- for standard input), --step JOB.STEP, "
                    "-- PROGRAM [ARGUMENT...]");
        return exit_bad_line;
    }
    if (!options.program.empty() && is_no_program(options.program.front())) {
        print_error(format_text("verify: {} cannot be executed: to judge logs, rdma-nccl verify --log FILE...",
                                printable(options.program.front())));
        return exit_bad_line;
    }
    if (!options.logs.empty()) {
        return verify_log(options);
    }
    const auto settings = settings_from(options.settings);
    if (!settings) {
        print_error(settings.error().message);
        return exit_bad_line;
    }
    return options.step.empty() ? verify_program(options, *settings) : verify_step(options, *settings);
}

} // namespace

int exit_code_of(Verdict verdict) {
    constexpr std::array codes = {exit_good, exit_warning, exit_critical, exit_good, exit_cannot_tell}; // by Verdict
    return codes.at(static_cast<std::size_t>(verdict));
}

Result<int> print_verdict(const StepVerdict& verdict, const VerifyOptions& options, std::uint32_t job_id,
                          std::uint32_t step_id) {
    const std::string text = options.json ? verdict_json(verdict, job_id, step_id)
                                          : verdict_line(verdict) + "\n" + joined(verdict_table(verdict), "\n") + "\n";
    if (!options.output.empty()) {
        if (const int error = overwrite_file(options.output, text); error != 0) {
            return os_failure("verify: " + options.output, error);
        }
    } else if (!options.program.empty()) {
        (void)std::fwrite(text.data(), 1, text.size(), stderr); // standard output belongs to the program
    } else {
        print_out(text);
    }
    return exit_code_of(verdict.verdict);
}

Result<int> verify_program(const VerifyOptions& options, const Settings& settings) {
    const auto node = WatchedNode::inspect(options.settings, settings);
    if (!node) {
        return tl::unexpected(node.error());
    }
    const auto& facts = node->node.facts;
    LogDirectory logs;
    if (options.full) {
        logs.open(facts);
    }
    BlockedSignals blocked;
    blocked.keep_blocked();
    const auto signals = SignalReader::open(blocked);
    if (!signals) {
        return fail("verify: " + signals.error().message);
    }
    auto gate = open_pipe();
    if (!gate) {
        return os_failure("verify");
    }
    const auto program = start_program(options.program, blocked, *gate);
    if (!program) {
        return fail("verify: " + program.error().message);
    }
    gate->reader.reset();
    // Other processes of this step, if it is one, count too.
    auto watch = node->watch_own_step(*program);
    (void)write_all(gate->writer.get(), "g");
    gate->writer.reset();
    const int code = exit_code_for_status(watch_program(watch, *signals, *program));
    watch.sample(true);
    const auto verdict = judge_step({node->evidence(watch, logs.path())}, {});
    const int judged = exit_code_of(print_verdict(verdict, options, facts.step.job_id, facts.step.step_id));
    return code != 0 ? code : judged;
}

void add_verify_command(const Subcommand& app, int& exit_code) {
    auto options = std::make_shared<VerifyOptions>();
    const auto command = app.subcommand("verify", "did a program, a step or a run with NCCL logs really use RDMA?");
    const auto log =
        command.option("--log", options->logs, "judge these logs of NCCL_DEBUG=INFO alone; - is standard input")
            .type_name("FILE...")
            .many_values();
    command.flag("--all", options->all, "with --log: a line for each process, even if they are alike").needs(log);
    const auto step = command.option("--step", options->step, "watch this step on all its nodes (srun --overlap)");
    step.type_name("JOB.STEP");
    command.option("--seconds", options->seconds, "how long a step is watched")
        .range(0.1, 86400.0)
        .shows_default()
        .needs(step);
    command.flag("--on-this-node", options->on_this_node, "").hidden(); // the command that --step starts on each node
    command.flag("--full", options->full, "of a program: let NCCL write logs, and read them")
        .excludes(log)
        .excludes(step);
    command.flag("--json", options->json, "print JSON");
    command.option("--output", options->output, "of a program or step: write the verdict to FILE")
        .type_name("FILE")
        .excludes(log);
    add_settings_options(command, options->settings);
    command.option("program", options->program, "run this, and judge what the node moved meanwhile")
        .type_name("PROGRAM ...")
        .many_values();
    command.on_run([options, &exit_code] { exit_code = exit_code_of(run_verify(*options)); });
}

} // namespace rdma_nccl
