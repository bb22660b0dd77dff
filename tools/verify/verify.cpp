// SPDX-License-Identifier: Apache-2.0
// rdma-nccl verify: checks whether RDMA was really used, by NCCL's logs or by the traffic of nodes.
#include "tools/verify/verify.h"
#include "tools/common/commands.h"
#include "tools/common/print.h"

#include <array>
#include <memory>

namespace rdma_nccl {

namespace {

int run_verify(const VerifyOptions& options) {
    const int given =
        (options.logs.empty() ? 0 : 1) + (options.step.empty() ? 0 : 1) + (options.program.empty() ? 0 : 1);
    if (given != 1) {
        print_error("verify: say what to judge, one of: --log FILE... (- for standard input), --step JOB.STEP, "
                    "-- PROGRAM [ARGUMENT...]");
        return exit_bad_line;
    }
    return !options.logs.empty()   ? verify_log(options)
           : !options.step.empty() ? verify_step(options)
                                   : verify_program(options);
}

} // namespace

int exit_code_of(Verdict verdict) {
    constexpr std::array codes = {exit_good, exit_warning, exit_critical, exit_good, exit_cannot_tell}; // by Verdict
    return codes.at(static_cast<std::size_t>(verdict));
}

void add_verify_command(const Subcommand& app, int& exit_code) {
    auto options = std::make_shared<VerifyOptions>();
    const auto command = app.subcommand("verify", "did a program, a step or a run with NCCL logs really use RDMA?");
    command.option("--log", options->logs, "judge these logs of NCCL_DEBUG=INFO alone; - is standard input")
        .type_name("FILE...")
        .many_values();
    command.flag("--all", options->all, "with --log: a line for each process, even if they are alike");
    command.option("--step", options->step, "watch this step on all its nodes (srun --overlap)").type_name("JOB.STEP");
    command.option("--seconds", options->seconds, "how long a step is watched").range(0.1, 86400.0).shows_default();
    command.flag("--on-this-node", options->on_this_node, "").hidden(); // the command that --step starts on each node
    command.flag("--full", options->full, "of a program: let NCCL write logs, and read them");
    command.flag("--json", options->json, "print JSON");
    command.option("--output", options->output, "of a program or step: write the verdict to FILE").type_name("FILE");
    add_settings_options(command, options->settings);
    command.option("program", options->program, "run this, and judge what the node moved meanwhile")
        .type_name("PROGRAM ...")
        .many_values();
    command.on_run([options, &exit_code] { exit_code = run_verify(*options); });
}

} // namespace rdma_nccl
