// SPDX-License-Identifier: Apache-2.0
#include "tools/verify.h"

#include "tools/print.h"
#include "tools/verify_log.h"

#include <memory>

namespace rdma_nccl {

namespace {

constexpr int exit_bad_line = 2;

/// What is judged: exactly one of these is given.
struct VerifyLine {
    VerifyLogOptions log;
};

int run_verify(const VerifyLine& line) {
    if (line.log.files.empty()) {
        print_error("verify: say what to judge: --log FILE... (- for standard input)");
        return exit_bad_line;
    }
    return verify_log(line.log);
}

} // namespace

void add_verify_command(CLI::App& app, int& exit_code) {
    auto line = std::make_shared<VerifyLine>();
    auto* command = app.add_subcommand("verify", "was RDMA really used? judged by the logs of NCCL");
    command->add_option("--log", line->log.files, "judge these logs of NCCL_DEBUG=INFO alone; - is standard input")
        ->type_name("FILE...")
        ->expected(-1);
    command->add_flag("--all", line->log.all, "a line for each process, also for those that are alike");
    command->add_flag("--json", line->log.json, "print JSON");
    command->callback([line, &exit_code] { exit_code = run_verify(*line); });
}

} // namespace rdma_nccl
