// SPDX-License-Identifier: Apache-2.0
#include "tools/run/failure/hang.h"

#include "tests/unit/tree.h"
#include "tools/common/process_state.h"

#include <chrono>
#include <csignal>
#include <filesystem>
#include <gtest/gtest.h>
#include <sstream>
#include <string>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace rdma_nccl::run {
namespace {

using namespace std::chrono_literals;

class Judge : public ::testing::Test {
protected:
    /// A look of a node, so many seconds after the start.
    bool sample(std::size_t node, bool moved, std::chrono::seconds at) {
        return judge_.on_sample(node, moved, start_ + at);
    }
    /// Looks of both nodes at which nothing moves, once a second; the second at which the hang is told, or -1.
    int quiet_from(int first, int last) {
        for (int second = first; second <= last; ++second) {
            const std::chrono::seconds at(second);
            if (sample(0, false, at) || sample(1, false, at)) {
                return second;
            }
        }
        return -1;
    }

    HangJudge::Time start_{1000s};
    HangJudge judge_{2, 10s, 1s, start_};
};

TEST_F(Judge, TellsAHangOnce) {
    EXPECT_EQ(quiet_from(1, 100), 10);
    EXPECT_EQ(quiet_from(11, 100), -1);
    EXPECT_EQ(judge_.idle_time(start_ + 100s), 100s);
}

TEST_F(Judge, TellsTheNextAfterSomethingMoved) {
    EXPECT_EQ(quiet_from(1, 10), 10);
    EXPECT_FALSE(sample(1, true, 11s));
    EXPECT_EQ(quiet_from(12, 100), 21);
}

TEST_F(Judge, WaitsWhileOneNodeMoves) {
    for (int second = 1; second <= 50; ++second) {
        const std::chrono::seconds at(second);
        EXPECT_FALSE(sample(0, false, at)) << second;
        EXPECT_FALSE(sample(1, true, at)) << second;
    }
    EXPECT_EQ(quiet_from(51, 100), 60);
}

TEST_F(Judge, DoesNotJudgeWithoutWordFromEveryNode) {
    for (int second = 1; second <= 50; ++second) {
        EXPECT_FALSE(sample(0, false, std::chrono::seconds(second))) << second;
    }
    EXPECT_FALSE(sample(1, false, 51s)) << "what it did meanwhile is not known";
    EXPECT_EQ(quiet_from(52, 100), 61);
}

TEST_F(Judge, BeginsAnewWhereItWasStoppedItself) {
    EXPECT_EQ(quiet_from(1, 9), -1);
    EXPECT_EQ(quiet_from(609, 700), 619);
}

TEST_F(Judge, IgnoresNodesThatAreNone) {
    EXPECT_FALSE(sample(7, true, 1s));
    HangJudge none(0, 1s, 1s, start_);
    EXPECT_FALSE(none.on_sample(0, false, start_ + 1s));
}

class Probe : public ::testing::Test {
protected:
    void counter(const std::string& value) {
        for (const auto* const name : {"port_xmit_data", "port_rcv_data"}) {
            replace(std::string("/sys/class/infiniband/mlx5_1/ports/1/counters/") + name, value);
        }
    }
    /// At once, as the kernel does: a counter that is missing for a moment is a counter that is lost.
    void replace(const std::string& name, const std::string& value) {
        tree_.file(name + ".new", value);
        std::filesystem::rename(tree_.at(name + ".new"), tree_.at(name));
    }
    /// Whether it says within a long while what is expected.
    static bool soon(const std::function<bool()>& holds) {
        const auto end = std::chrono::steady_clock::now() + 20s;
        while (!holds()) {
            if (std::chrono::steady_clock::now() > end) {
                return false;
            }
            std::this_thread::sleep_for(5ms);
        }
        return true;
    }
    test::Tree tree_;
};

TEST_F(Probe, SeesOutput) {
    ActivityProbe probe(tree_.root(), {}, {});
    EXPECT_FALSE(probe.moved(0));
    EXPECT_TRUE(probe.moved(5));
    EXPECT_FALSE(probe.moved(5));
}

TEST_F(Probe, SeesBytesOfPorts) {
    counter("100");
    ActivityProbe probe(tree_.root(), {"mlx5_1:1", "mlx5_9:1"}, {}, 5ms);
    std::uint64_t bytes = 100;
    const auto moves = [&] {
        bytes += 1'000'000;
        counter(std::to_string(bytes));
        return probe.moved(0);
    };
    ASSERT_TRUE(soon(moves));
    EXPECT_TRUE(soon([&] { return !probe.moved(0); })) << "nothing moves any more";
    EXPECT_TRUE(soon(moves));
}

TEST_F(Probe, LeavesOutTheFewBytesOfAFileSystem) {
    counter("100");
    ActivityProbe probe(tree_.root(), {"mlx5_1:1"}, {}, 1ms);
    for (unsigned bytes = 200; bytes < 10'000; bytes += 100) { // a slow machine takes fewer samples, and sees no more
        counter(std::to_string(bytes));
        ASSERT_FALSE(probe.moved(0));
        std::this_thread::sleep_for(1ms);
    }
}

TEST_F(Probe, SeesBytesWhereverTheDriverCountsThem) {
    const std::string directory = "/sys/class/infiniband/bnxt_re0/ports/1/hw_counters/";
    tree_.file(directory + "tx_bytes", "5").file(directory + "rx_bytes", "5");
    ActivityProbe probe(tree_.root(), {"bnxt_re0:1"}, {}, 5ms);
    std::uint64_t bytes = 5;
    EXPECT_TRUE(soon([&] {
        bytes += 1'000'000;
        replace(directory + "rx_bytes", std::to_string(bytes));
        return probe.moved(0);
    }));
}

/// A library with NVML's names that takes the use of memory from a file, in percent; "x" cannot be told.
class ProbeOfGpus : public Probe {
protected:
    void SetUp() override {
        use("0");
        tree_.file("/nvml.c", R"(
            #include <stdio.h>
            #include <string.h>
            struct use { unsigned gpu, memory; };
            int nvmlInit_v2(void) { return 0; }
            int nvmlShutdown(void) { return 0; }
            int nvmlDeviceGetHandleByUUID(const char* id, void** d) { *d = stdout; return strcmp(id, "GPU-1b2c") ? 6 : 0; }
            int nvmlDeviceGetHandleByPciBusId_v2(const char* id, void** d) { *d = stdout; return strcmp(id, "0000:8d:00.0") ? 6 : 0; }
            int nvmlDeviceGetUtilizationRates(void* d, struct use* u) {
                FILE* f = fopen(USE_FILE, "r");
                int n = f ? fscanf(f, "%u", &u->memory) : 0;
                if (f) fclose(f);
                u->gpu = 100;
                return n == 1 ? 0 : 3;
            })");
        const std::string command = "cc -shared -fPIC -DUSE_FILE='\"" + tree_.at("/use").string() + "\"' -o " +
                                    library() + " " + tree_.at("/nvml.c").string() + " 2>/dev/null";
        if (std::system(command.c_str()) != 0) {
            GTEST_SKIP() << "no C compiler";
        }
    }
    void use(const std::string& percent) {
        tree_.file("/use.new", percent);
        std::filesystem::rename(tree_.at("/use.new"), tree_.at("/use"));
    }
    [[nodiscard]] std::string library() const { return tree_.at("/libnvidia-ml.so.1"); }
};

TEST_F(ProbeOfGpus, SeesTheUseOfTheirMemoryAlone) {
    ActivityProbe probe(tree_.root(), {}, {"GPU-1b2c", "GPU-none", "0000:8d:00.0"}, 5ms, library());
    std::this_thread::sleep_for(50ms);
    EXPECT_FALSE(probe.moved(0)) << "a kernel that waits";
    use("3");
    EXPECT_TRUE(soon([&] { return probe.moved(0); }));
    use("0");
    EXPECT_TRUE(soon([&] { return !probe.moved(0); })) << "a kernel that waits again";
}

TEST_F(ProbeOfGpus, LeavesOutThoseThatCannotTell) {
    EXPECT_TRUE(watch_gpu_memory(library(), {"GPU-1b2c"}));
    EXPECT_FALSE(watch_gpu_memory(library(), {"GPU-none"}));
    use("x");
    EXPECT_FALSE(watch_gpu_memory(library(), {"GPU-1b2c"}));
    EXPECT_FALSE(watch_gpu_memory(tree_.at("/absent.so"), {"GPU-1b2c"}));
    EXPECT_FALSE(watch_gpu_memory("libc.so.6", {"GPU-1b2c"}));
}

/// Programs of the test's own in the place of gdb and py-spy, and a process to look at.
class Stacks : public ::testing::Test {
protected:
    void SetUp() override {
        child_ = ::fork();
        if (child_ == 0) {
            ::pause();
            ::_exit(0);
        }
        while (kernel_state(*SysRoot::open("/"), child_).find("(sleeping)") == std::string::npos) {
            std::this_thread::sleep_for(1ms);
        }
    }
    void TearDown() override {
        ::kill(child_, SIGKILL);
        ::waitpid(child_, nullptr, 0);
    }
    void program(const std::string& name, const std::string& script) {
        tree_.file("/bin/" + name, "#!/bin/sh\nPATH=/usr/bin:/bin\n" + script + "\n");
        ASSERT_EQ(::chmod(tree_.at("/bin/" + name).c_str(), 0755), 0);
    }
    [[nodiscard]] Environment environment() const {
        return Environment{std::vector<std::string>{"PATH=" + tree_.at("/bin").string(), "X=y"}};
    }
    std::vector<ProcessStack> read(std::chrono::milliseconds limit = 20s) {
        return read_stacks(*SysRoot::open("/"), std::vector{child_}, environment(), limit);
    }
    test::Tree tree_;
    pid_t child_ = -1;
};

TEST_F(Stacks, AreReadByGdb) {
    program("gdb", "echo \"$X: $*\"; echo warning >&2");
    const auto stacks = read();
    ASSERT_EQ(stacks.size(), 1U);
    EXPECT_EQ(stacks[0].command, "gdb");
    EXPECT_EQ(stacks[0].problem, "");
    const auto pid = std::to_string(child_);
    EXPECT_TRUE(stacks[0].text.starts_with("y: -p " + pid + " -batch -nx ")) << stacks[0].text;
    EXPECT_TRUE(stacks[0].text.ends_with("bt 64\nwarning\n")) << stacks[0].text;
    EXPECT_TRUE(stacks[0].kernel.starts_with("state S (sleeping), 1 threads")) << stacks[0].kernel;
}

TEST_F(Stacks, OfPythonAreReadByPySpyWhereItIs) {
    tree_.link("/proc/77/exe", "/usr/bin/python3.11").link("/proc/78/exe", "/opt/train");
    program("gdb", "");
    const auto of = [&](pid_t pid) { return stack_command(tree_.root(), pid, environment()); };
    EXPECT_EQ(of(77)->front(), tree_.at("/bin/gdb"));
    program("py-spy", "");
    EXPECT_EQ(of(77), (std::vector<std::string>{tree_.at("/bin/py-spy"), "dump", "--pid", "77"}));
    EXPECT_EQ(of(78)->front(), tree_.at("/bin/gdb"));
}

TEST_F(Stacks, AreThoseOfTheKernelWithoutAProgram) {
    tree_.directory("/bin");
    const auto stacks = read();
    EXPECT_EQ(stacks[0].command, "");
    EXPECT_EQ(stack_text(stacks[0], "rank 3 (local 3) on n01"),
              "rank 3 (local 3) on n01, pid " + std::to_string(child_) + ": " + stacks[0].kernel +
                  "\n  no stack: neither py-spy nor gdb is in PATH\n");
}

TEST_F(Stacks, DoNotWaitForAProgramThatHangs) {
    program("gdb", "trap '' TERM INT; sleep 1000 & echo $$ $!; while :; do wait; done");
    const auto stacks = read(300ms);
    EXPECT_EQ(stacks[0].problem, "did not end within 0.3 s");
    std::istringstream text(stacks[0].text);
    pid_t reader = 0;
    pid_t below = 0;
    ASSERT_TRUE(text >> reader >> below) << stacks[0].text;
    ::waitpid(reader, nullptr, 0); // on a busy machine it does not end within the second that it is given
    EXPECT_EQ(::kill(reader, 0), -1);
    while (::kill(below, 0) == 0 && kernel_state(*SysRoot::open("/"), below).find("zombie") == std::string::npos) {
        std::this_thread::sleep_for(1ms); // what it started was killed, too, and not only asked to end
    }
}

TEST_F(Stacks, SayWhatWentWrong) {
    program("gdb", "echo 'ptrace: Operation not permitted.'; exit 3");
    const auto text = stack_text(read()[0], "rank 0");
    EXPECT_EQ(text.substr(text.find('\n')), "\n  gdb ended with code 3\n    | ptrace: Operation not permitted.\n");
}

TEST_F(Stacks, AreBoundedAndPlain) {
    program("gdb", "exec yes \"$(printf 'a\\tb\\033[31m')\"");
    const auto stacks = read(300ms); // it would write for ever
    EXPECT_EQ(stacks[0].text.size(), 65536U);
    const auto text = stack_text(stacks[0], "rank 0");
    EXPECT_EQ(text.find('\x1b'), std::string::npos);
    EXPECT_NE(text.find("    | a b?[31m\n"), std::string::npos);
}

TEST_F(Stacks, AreReadWhereAnotherThreadWaitsForAllChildren) {
    program("gdb", "echo done");
    struct sigaction ignore {};
    struct sigaction before {};
    ignore.sa_handler = SIG_IGN; // the kernel reaps at once
    ::sigaction(SIGCHLD, &ignore, &before);
    const auto stacks = read();
    ::sigaction(SIGCHLD, &before, nullptr);
    EXPECT_EQ(stacks[0].text, "done\n");
    EXPECT_EQ(stacks[0].problem, "");
}

class ContainedPrograms : public ::testing::Test {
protected:
    /// `ids`: in the PID namespaces, from /proc's down; `children`: as the kernel lists them.
    void process(pid_t pid, const std::string& name, const std::string& ids, const std::string& children = "") {
        const auto folder = "/proc/" + std::to_string(pid);
        tree_.file(folder + "/status", "Name:\t" + name + "\nThreads:\t1\nNSpid:\t" + ids + "\n")
            .file(folder + "/task/" + std::to_string(pid) + "/children", children);
    }
    test::Tree tree_;
};

TEST_F(ContainedPrograms, AreBelowWhatStartsThem) {
    process(10, "bash", "10", "11 ");
    process(11, "unshare", "11", "12 ");
    process(12, "python", "12\t1", "13 ");
    process(13, "python", "13\t7"); // loads data
    EXPECT_EQ(program_of(tree_.root(), 10), 12);
    EXPECT_EQ(stack_text({10, 12, "state S", "gdb", "#0 main", ""}, "rank 0"),
              "rank 0, pid 12 in the container of 10: state S\n    | #0 main\n");
}

TEST_F(ContainedPrograms, AreBelowBubblewrapsOwnProcess) {
    process(20, "bwrap", "20", "21 ");
    process(21, "bwrap", "21\t1", "22 30 "); // 30: an orphan
    process(22, "python", "22\t2");
    EXPECT_EQ(program_of(tree_.root(), 20), 22);
}

TEST_F(ContainedPrograms, AreTheRanksWhereThereIsNoContainer) {
    process(30, "bash", "30", "31 ");
    process(31, "python", "31");
    EXPECT_EQ(program_of(tree_.root(), 30), 30);
    process(40, "python", "40", "41 42 ");
    process(41, "sandbox", "41\t1");
    process(42, "sandbox", "42\t1");
    EXPECT_EQ(program_of(tree_.root(), 40), 40);
    EXPECT_EQ(program_of(tree_.root(), 50), 50) << "it is gone";
}

TEST_F(Stacks, OfOneThatIsGone) {
    tree_.directory("/proc");
    EXPECT_EQ(kernel_state(tree_.root(), 77), "is gone");
    tree_.file("/proc/77/status", "Name:\tx\nState:\tD (disk sleep)\nThreads:\t9\n")
        .file("/proc/77/wchan", "nvidia_ioctl");
    tree_.file("/proc/77/syscall", "16 0x5 0x0\n")
        .file("/proc/77/stack", "[<0>] nvidia_ioctl+0x1/0x2\n[<0>] sys_ioctl+0x8/0x9\n");
    EXPECT_EQ(
        kernel_state(tree_.root(), 77),
        "state D (disk sleep), 9 threads, waits in nvidia_ioctl, system call 16, kernel stack nvidia_ioctl+0x1/0x2 "
        "< sys_ioctl+0x8/0x9");
}

} // namespace
} // namespace rdma_nccl::run
