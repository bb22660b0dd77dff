// SPDX-License-Identifier: Apache-2.0
#include "tools/common/scontrol.h"

#include "lib/base/format.h"
#include "lib/base/text.h"
#include "tools/common/process.h"

#include <cstdlib>
#include <sys/wait.h>

namespace rdma_nccl {

Result<std::string> run_scontrol(const std::vector<std::string>& command, std::chrono::milliseconds limit,
                                 std::size_t most, std::string_view if_missing) {
    if (limit <= std::chrono::milliseconds(0)) {
        return fail("no time is left to start scontrol");
    }
    const auto& name = command.front();
    const char* const path = ::getenv("PATH");
    const auto file =
        name.find('/') != std::string::npos
            ? name
            : find_in_path(name, format_text("{}:/usr/bin:/usr/local/bin:/opt/slurm/bin:/usr/local/slurm/bin",
                                             path != nullptr ? path : ""));
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

Result<std::string> ask_topology() {
    constexpr std::size_t most = std::size_t{64} << 20;
    return run_scontrol({"scontrol", "show", "topology"}, std::chrono::seconds(20), most);
}

} // namespace rdma_nccl
