// SPDX-License-Identifier: Apache-2.0
// usage: profiled MIB: a task of a step that plays NCCL (fake_nccl.h) with the plugin that NCCL_PROFILER_PLUGIN names:
// a ring all-reduce over all tasks that sends MIB mebibytes to the next one. Nothing goes over a network.
#include "tests/profiler/fake_nccl.h"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

int number_in(const char* variable) {
    const char* const text = std::getenv(variable);
    return text == nullptr ? 0 : std::atoi(text);
}

} // namespace

int main(int argc, char** argv) {
    const char* const plugin = std::getenv("NCCL_PROFILER_PLUGIN");
    if (argc != 2 || plugin == nullptr) {
        std::fputs("usage: profiled MIB, with NCCL_PROFILER_PLUGIN set\n", stderr);
        return 2;
    }
    const rdma_nccl::test::Library library(plugin);
    constexpr int interface = 6;
    rdma_nccl::test::FakeNccl<interface> nccl(library, 0x4711, number_in("SLURM_NTASKS"), number_in("SLURM_PROCID"));
    if (!nccl.good()) {
        std::fprintf(stderr, "profiled: %s is no profiler plugin\n", plugin);
        return 1;
    }
    nccl.all_reduce(std::vector<std::size_t>(static_cast<std::size_t>(std::atoi(argv[1])), std::size_t{1} << 20U));
    nccl.finalize();
    return nccl.good() ? 0 : 1;
}
