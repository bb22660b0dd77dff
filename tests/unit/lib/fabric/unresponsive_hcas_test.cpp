// SPDX-License-Identifier: Apache-2.0
// Devices that do not answer.
#include "lib/fabric/fabric.h"

#include "lib/base/unique_fd.h"
#include "lib/select/port_selection.h"
#include "tests/unit/fabric_machine.h"
#include "tests/unit/fabric_values.h"
#include "tests/unit/hang.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <thread>

namespace rdma_nccl {
namespace {

using namespace std::chrono_literals;
using test::below_root_port;
using test::Hang;
using test::Machine;

/// Two rails, each beside a GPU.
struct TwoRails : Machine {
    TwoRails() {
        connectx("mlx5_0", "eth0", "10.0.0.1", below_root_port("50", "53"));
        connectx("mlx5_1", "eth1", "10.0.1.1", below_root_port("60", "63"));
        gpu(below_root_port("50", "53") + "/0000:54:00.0").gpu(below_root_port("60", "63") + "/0000:64:00.0");
    }
};

std::string state_of(Machine& machine, const std::string& hca) {
    return machine.tree().at("/sys/class/infiniband/" + hca + "/ports/1/state").string();
}

TEST(SilentDevices, AllAnswerOnAWorkingMachine) {
    TwoRails machine;
    const auto silent = find_unresponsive_hcas(machine.tree().root(), 10s);
    ASSERT_TRUE(silent) << silent.error().message;
    EXPECT_TRUE(silent->empty());
    while (::waitpid(-1, nullptr, WNOHANG) == 0) { // killed, and not dead yet where the machine is busy
        std::this_thread::sleep_for(10ms);
    }
}

TEST(SilentDevices, AMachineWithoutAny) {
    const test::Tree tree;
    const auto silent = find_unresponsive_hcas(tree.root(), 10s);
    ASSERT_TRUE(silent);
    EXPECT_TRUE(silent->empty());
}

TEST(SilentDevices, OneThatHangsIsLeftOutAndTheOthersAreUsed) {
    TwoRails machine;
    UnresponsiveHcas silent;
    {
        const Hang hang({state_of(machine, "mlx5_0")});
        if (!hang.works()) {
            GTEST_SKIP() << "no fanotify permission events here: " << std::strerror(errno);
        }
        const auto found = find_unresponsive_hcas(machine.tree().root(), 1s);
        ASSERT_TRUE(found) << found.error().message;
        silent = *found;
    }
    EXPECT_EQ(silent, UnresponsiveHcas{"mlx5_0"});

    const Fabric fabric = read_fabric(machine.tree().root(), silent);
    EXPECT_EQ(fabric.find_hca("mlx5_0")->ports.at(0).state, "");
    EXPECT_EQ(fabric.find_netdev("eth0")->speed_gbps, 0);
    const auto choice = choose_fabric(fabric, {});
    EXPECT_EQ(choice.nccl_ib_hca(), "=mlx5_1:1");
    EXPECT_EQ(test::port_of(choice, "mlx5_0").rule, PortRule::TooSlowToRead);
    EXPECT_EQ(choice.warnings, (std::vector<std::string>{
                                   "mlx5_0 port 1 does not answer (its driver hangs): left out; reset the device"}));
}

TEST(SilentDevices, TheTimeIsBoundedWhenNothingAnswers) {
    Machine machine;
    std::vector<std::string> states;
    for (unsigned i = 0; i < 12; ++i) {
        const auto name = "mlx5_" + std::to_string(i);
        machine.connectx(name, "eth" + std::to_string(i), "10.0." + std::to_string(i) + ".1",
                         below_root_port("50", std::to_string(50 + i)));
        states.push_back(state_of(machine, name));
    }
    const Hang hang(states);
    if (!hang.works()) {
        GTEST_SKIP() << "no fanotify permission events here: " << std::strerror(errno);
    }
    const auto silent = find_unresponsive_hcas(machine.tree().root(), 50ms);
    ASSERT_TRUE(silent);
    EXPECT_EQ(silent->size(), 12U);
    const auto answers = ask_hcas(machine.tree().root(), 50ms);
    ASSERT_TRUE(answers);
    EXPECT_GE(answers->unresponsive.size(), 1U);
    EXPECT_LE(answers->unresponsive.size(), 5U);
    EXPECT_EQ(answers->unresponsive.size() + answers->not_asked.size(), 12U) << "each is one or the other";
}

/// The first child of a process, once it has one.
std::string child_of(pid_t pid) {
    std::string child;
    for (int i = 0; i < 500 && child.empty(); ++i) {
        std::this_thread::sleep_for(10ms);
        std::ifstream("/proc/" + std::to_string(pid) + "/task/" + std::to_string(pid) + "/children") >> child;
    }
    return child;
}

TEST(SilentDevices, TheChildHoldsNoFileOfItsParent) {
    TwoRails machine;
    const Hang hang({state_of(machine, "mlx5_0")});
    if (!hang.works()) {
        GTEST_SKIP() << "no fanotify permission events here: " << std::strerror(errno);
    }
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe(ends.data()), 0); // for a child to inherit
    const UniqueFd reader(ends[0]);
    const UniqueFd writer(ends[1]);
    const pid_t parent = ::fork();
    if (parent == 0) {
        (void)find_unresponsive_hcas(machine.tree().root(), 20s);
        ::_exit(0);
    }
    const std::string child = child_of(parent);
    constexpr std::ptrdiff_t own_files = 5; // 0, 1, 2, the root and the pipe for its answers
    std::ptrdiff_t files = 0;
    for (int i = 0; i < 500 && files != own_files; ++i) { // until it has closed the others; it hangs then
        std::this_thread::sleep_for(10ms);
        const auto entries = std::filesystem::directory_iterator("/proc/" + child + "/fd");
        files = std::distance(begin(entries), end(entries));
    }
    EXPECT_EQ(files, own_files);
    ::kill(std::stoi(child), SIGKILL);
    ::kill(parent, SIGKILL);
    ::waitpid(parent, nullptr, 0);
}

} // namespace
} // namespace rdma_nccl
