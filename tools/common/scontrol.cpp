// SPDX-License-Identifier: Apache-2.0
#include "tools/common/scontrol.h"

#include "lib/base/format.h"
#include "lib/base/text.h"
#include "tools/common/process.h"

#include <cstdlib>
#include <sys/wait.h>

namespace rdma_nccl {

std::string find_slurms_command(std::string_view name) {
    const char* const path = ::getenv("PATH");
    return find_in_path(name, format_text("{}:/usr/bin:/usr/local/bin:/opt/slurm/bin:/usr/local/slurm/bin",
                                          path != nullptr ? path : ""));
}

Result<std::string> run_scontrol(const std::vector<std::string>& command, std::chrono::milliseconds limit,
                                 std::size_t most, std::string_view if_missing) {
    if (limit <= std::chrono::milliseconds(0)) {
        return fail("no time is left to start scontrol");
    }
    const auto& name = command.front();
    const auto file = name.find('/') != std::string::npos ? name : find_slurms_command(name);
    if (file.empty()) {
        return fail(format_text("there is no {} in PATH: {}", printable(name, 100), if_missing));
    }
    auto process =
        CapturedProcess::start({.words = command,
                                .file = file,
                                .input = -1,
                                .prepare =
                                    [] {
                                        ::unsetenv("SLURM_TOPO_LEN"); // it would cut lines of `show topology`
                                        ::unsetenv("SLURM_CLUSTERS"); // sbatch's -M: the job's own cluster is asked
                                    }},
                               true, most);
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

Result<std::string> ask_topology(const Environment& environment) {
    constexpr std::size_t most = std::size_t{64} << 20;
    std::vector<std::string> command = {"scontrol", "show", "topology"};
    const auto cluster = environment.get("SLURM_JOB_ID") ? std::nullopt : environment.get("SLURM_CLUSTERS");
    if (cluster && !cluster->empty()) {
        command.push_back(format_text("--clusters={}", *cluster));
    }
    return run_scontrol(command, std::chrono::seconds(20), most);
}

} // namespace rdma_nccl
