// SPDX-License-Identifier: Apache-2.0
#include "tools/common/process.h"
#include "tools/run/options/options.h"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <unistd.h>

namespace rdma_nccl::run {

namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

/// A directory with "tool", "python3" and "other-python" (executable) and "train.py", "text" (not).
class RunProgram : public testing::Test {
protected:
    void SetUp() override {
        std::string name = testing::TempDir() + "run-program-XXXXXX";
        ASSERT_NE(::mkdtemp(name.data()), nullptr);
        directory_ = name;
        for (const char* const file : {"tool", "python3", "other-python", "train.py", "text"}) {
            std::ofstream(directory_ / file) << "x\n";
        }
        for (const char* const file : {"tool", "python3", "other-python"}) {
            fs::permissions(directory_ / file, fs::perms::owner_all);
        }
    }
    void TearDown() override { fs::remove_all(directory_); }

    [[nodiscard]] std::string path(const std::string& name) const { return (directory_ / name).string(); }

    [[nodiscard]] Result<Command> find(const Words& program, bool module = false, bool no_python = false,
                                       const Words& more = {}) const {
        Options options;
        options.module = module;
        options.no_python = no_python;
        Words entries{"PATH=/nonexistent:" + directory_.string()};
        entries.insert(entries.begin(), more.begin(), more.end());
        return find_program({{}, program}, options, Environment(entries));
    }

private:
    fs::path directory_;
};

TEST_F(RunProgram, AlongPath) {
    const auto command = find({"tool", "--a", ""});
    ASSERT_TRUE(command) << command.error().message;
    EXPECT_EQ(command->file, path("tool"));
    EXPECT_EQ(command->arguments, (Words{"tool", "--a", ""}));
}

TEST_F(RunProgram, ByPath) {
    const auto command = find({path("tool")}, false, false, {"PATH="});
    ASSERT_TRUE(command) << command.error().message;
    EXPECT_EQ(command->file, path("tool"));
}

TEST_F(RunProgram, PythonFile) {
    const auto command = find({path("train.py"), "-u"});
    ASSERT_TRUE(command) << command.error().message;
    EXPECT_EQ(command->file, path("python3"));
    EXPECT_EQ(command->arguments, (Words{path("python3"), "-u", path("train.py"), "-u"}));
}

TEST_F(RunProgram, PythonModule) {
    const auto command = find({"pkg.mod", "x"}, true);
    ASSERT_TRUE(command) << command.error().message;
    EXPECT_EQ(command->arguments, (Words{path("python3"), "-u", "-m", "pkg.mod", "x"}));
}

TEST_F(RunProgram, FileThatIsPythonWhateverItsName) {
    Options options;
    options.run_path = options.no_python = true; // torchrun: the former takes precedence
    const auto command = find_program({{}, {path("text"), "x"}}, options, Environment(Words{"PATH=" + path("")}));
    ASSERT_TRUE(command) << command.error().message;
    EXPECT_EQ(command->arguments, (Words{path("") + "/python3", "-u", path("text"), "x"}));
}

TEST_F(RunProgram, EachRankItsOwn) {
    Options options;
    options.programs = {{{{1, 1}}, {path("tool")}}, {{{2, 2}}, {"nosuch"}}, {{}, {path("train.py")}}};
    const Environment environment(Words{"PATH=" + path("")});
    const auto commands = find_commands(options, environment, 4, 0, 2);
    ASSERT_TRUE(commands) << commands.error().message;
    EXPECT_EQ(commands->at(0).arguments.back(), path("train.py"));
    EXPECT_EQ(commands->at(1).file, path("tool"));
    const auto missing = find_commands(options, environment, 4, 2, 2);
    ASSERT_FALSE(missing) << "that one is for rank 2, which is here";
    EXPECT_EQ(missing.error().os_error, ENOENT);
    const auto outside = find_commands(options, environment, 2, 0, 2);
    ASSERT_FALSE(outside);
    EXPECT_EQ(outside.error().os_error, 0) << "no fault of a file";
}

TEST_F(RunProgram, ChosenInterpreter) {
    auto command = find({"pkg"}, true, false, {"PYTHON_EXEC=" + path("other-python")});
    ASSERT_TRUE(command) << command.error().message;
    EXPECT_EQ(command->file, path("other-python"));
    command = find({"pkg"}, true, false, {"PYTHON_EXEC=nosuch"});
    ASSERT_FALSE(command);
    EXPECT_NE(command.error().message.find("PYTHON_EXEC"), std::string::npos);
    EXPECT_EQ(exit_code_for_exec_error(command.error().os_error), 127);
}

TEST_F(RunProgram, NoPythonAnywhere) {
    const auto command = find({"pkg"}, true, false, {"PATH=/nonexistent"});
    ASSERT_FALSE(command);
    EXPECT_EQ(exit_code_for_exec_error(command.error().os_error), 127);
}

TEST_F(RunProgram, NotFoundIs127) {
    for (const auto& name : {std::string("nosuch"), path("nosuch"), path("nosuch.py"), path("tool/x"), std::string()}) {
        const auto command = find({name});
        ASSERT_FALSE(command) << name;
        EXPECT_EQ(exit_code_for_exec_error(command.error().os_error), 127) << name;
        EXPECT_NE(command.error().message.find(name), std::string::npos);
    }
}

TEST_F(RunProgram, NotExecutableIs126) {
    for (const auto& name : {std::string("text"), path("text"), path("")}) {
        const auto command = find({name});
        ASSERT_FALSE(command) << name;
        EXPECT_EQ(exit_code_for_exec_error(command.error().os_error), 126) << name;
    }
    const auto command = find({path("train.py")}, false, true);
    ASSERT_FALSE(command);
    EXPECT_EQ(exit_code_for_exec_error(command.error().os_error), 126);
}

} // namespace

} // namespace rdma_nccl::run
