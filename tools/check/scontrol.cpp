// SPDX-License-Identifier: Apache-2.0
// Runs scontrol. slurmd gives its programs almost no environment, and a controller that does not answer must not block
// the check.
#include "lib/base/format.h"
#include "lib/base/text.h"
#include "tools/check/drain.h"
#include "tools/common/process.h"

#include <cstdlib>
#include <sys/wait.h>

namespace rdma_nccl {

namespace {

std::string find_program(const std::string& name) {
    if (name.find('/') != std::string::npos) {
        return name;
    }
    const char* const path = ::getenv("PATH");
    return find_in_path(name, format_text("{}:/usr/bin:/usr/local/bin:/opt/slurm/bin:/usr/local/slurm/bin",
                                          path != nullptr ? path : ""));
}

} // namespace

Result<std::string> run_scontrol(const std::vector<std::string>& command, std::chrono::milliseconds limit) {
    if (limit <= std::chrono::milliseconds(0)) {
        return fail("no time is left to start scontrol: the check took it (--limit)");
    }
    const auto file = find_program(command.front());
    if (file.empty()) {
        return fail("no scontrol in PATH; name it in the file of expectations: scontrol = /PATH/scontrol");
    }
    auto process = CapturedProcess::start({.words = command, .file = file, .input = -1}, true);
    if (!process) {
        return tl::unexpected(process.error());
    }
    CapturedProcess::read({&*process, 1}, std::chrono::steady_clock::now() + limit);
    const auto status = process->finish();
    if (!status) {
        return fail(format_text("{} did not end within {:.2g} s", file, static_cast<double>(limit.count()) / 1000));
    }
    if (!WIFEXITED(*status) || WEXITSTATUS(*status) != 0) {
        return fail(format_text("{} {}: {}", file, command.size() > 1 ? command[1] : "",
                                printable(trim(process->text()), 300)));
    }
    return process->text();
}

} // namespace rdma_nccl
