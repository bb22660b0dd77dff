// SPDX-License-Identifier: Apache-2.0
#include "tools/node/node_plan.h"

#include "tests/unit/fabric_machine.h"

#include <csignal>
#include <filesystem>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace rdma_nccl {
namespace {

/// The step of another process may have been started anywhere.
TEST(NodePlan, AScriptIsRelativeToItsProcess) {
    test::Machine machine;
    machine.tree().file("/run.sh", "#!/bin/bash\nexec torchrun --standalone x.py\n");
    Settings settings;
    settings.root = machine.tree().path();
    const auto own = std::filesystem::current_path();
    std::filesystem::current_path(settings.root);
    const pid_t other = ::fork();
    if (other == 0) {
        ::pause();
        ::_exit(0);
    }
    std::filesystem::current_path(own);
    const auto node = plan_node({}, settings, {}, {}, GidTables::Expected,
                                {.environment = Environment(), .program = {"bash", "./run.sh"}, .pid = other});
    ::kill(other, SIGKILL);
    ::waitpid(other, nullptr, 0);
    ASSERT_TRUE(node);
    EXPECT_EQ(node->facts.program.name, "torchrun in run.sh");
}

} // namespace
} // namespace rdma_nccl
