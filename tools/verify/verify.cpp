// SPDX-License-Identifier: Apache-2.0
// rdma-nccl verify: checks whether RDMA was really used, by NCCL's logs or by the traffic of nodes.
#include "tools/common/commands.h"
#include "tools/common/exit_codes.h"
#include "tools/common/print.h"
#include "tools/verify/log.h"
#include "tools/verify/program.h"

#include <memory>

namespace rdma_nccl {

namespace {

struct VerifyLine {
    VerifyLogOptions log;
    VerifyNodeOptions node;
    bool json = false;
};

int run_verify(VerifyLine& line) {
    line.log.json = line.node.json = line.json;
    const int given =
        (line.log.files.empty() ? 0 : 1) + (line.node.step.empty() ? 0 : 1) + (line.node.program.empty() ? 0 : 1);
    if (given != 1) {
        print_error("verify: say what to judge, one of: --log FILE... (- for standard input), --step JOB.STEP, "
                    "-- PROGRAM [ARGUMENT...]");
        return exit_bad_line;
    }
    return !line.log.files.empty()   ? verify_log(line.log)
           : !line.node.step.empty() ? verify_step(line.node)
                                     : verify_program(line.node);
}

} // namespace

int exit_code_of(Verdict verdict) {
    switch (verdict) {
    case Verdict::Used:
    case Verdict::Idle:
        return 0;
    case Verdict::Mixed:
        return 1;
    case Verdict::NotUsed:
        return 2;
    case Verdict::Unknown:
        break;
    }
    return 3;
}

void add_verify_command(const Subcommand& app, int& exit_code) {
    auto line = std::make_shared<VerifyLine>();
    const auto command = app.subcommand("verify", "did a program, a step or a run with NCCL logs really use RDMA?");
    command.option("--log", line->log.files, "judge these logs of NCCL_DEBUG=INFO alone; - is standard input")
        .type_name("FILE...")
        .many_values();
    command.flag("--all", line->log.all, "with --log: a line for each process, even if they are alike");
    command.option("--step", line->node.step, "watch this step on all its nodes (srun --overlap)")
        .type_name("JOB.STEP");
    command.option("--seconds", line->node.seconds, "how long a step is watched").range(0.1, 86400.0).shows_default();
    command.flag("--on-this-node", line->node.on_this_node, "").hidden(); // the command that --step starts on each node
    command.flag("--full", line->node.full, "of a program: let NCCL write logs, and read them");
    command.flag("--json", line->json, "print JSON");
    command.option("--output", line->node.output, "of a program or step: write the verdict to FILE").type_name("FILE");
    add_settings_options(command, line->node.settings);
    command.option("program", line->node.program, "run this, and judge what the node moved meanwhile")
        .type_name("PROGRAM ...")
        .many_values();
    command.on_run([line, &exit_code] { exit_code = run_verify(*line); });
}

} // namespace rdma_nccl
