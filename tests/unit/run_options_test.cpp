// SPDX-License-Identifier: Apache-2.0
#include "tools/run_options.h"

#include <gtest/gtest.h>

namespace rdma_nccl {

namespace {

using Words = std::vector<std::string>;

std::string error_of(const Words& words) {
    const auto parsed = parse_run_options(words);
    return parsed ? "no error" : parsed.error().message;
}

TEST(RunOptions, Defaults) {
    const auto parsed = parse_run_options({"./train"});
    ASSERT_TRUE(parsed);
    const auto& options = parsed->options;
    EXPECT_EQ(options.program, Words{"./train"});
    EXPECT_FALSE(options.nproc_per_node || options.nnodes || options.node_rank || options.master_addr ||
                 options.master_port);
    EXPECT_FALSE(options.module || options.no_python);
    EXPECT_TRUE(options.torchelastic_environment);
    EXPECT_EQ(options.shutdown_timeout.count(), 30000);
    EXPECT_EQ(options.root, "");
}

TEST(RunOptions, TorchrunsNames) {
    for (const Words& words :
         {Words{"--nproc-per-node", "4", "--nnodes", "2", "--node-rank", "1", "--master-addr", "h", "--master-port",
                "7", "t.py"},
          Words{"--nproc_per_node=4", "--nnodes=2", "--node_rank=1", "--master_addr=h", "--master_port=7", "t.py"},
          Words{"-n4", "--nnodes", "2", "--node_rank", "1", "--master_addr", "h", "--master_port", "7", "--",
                "t.py"}}) {
        const auto parsed = parse_run_options(words);
        ASSERT_TRUE(parsed) << parsed.error().message;
        EXPECT_EQ(parsed->options.nproc_per_node, "4");
        EXPECT_EQ(parsed->options.nnodes, "2");
        EXPECT_EQ(parsed->options.node_rank, "1");
        EXPECT_EQ(parsed->options.master_addr, "h");
        EXPECT_EQ(parsed->options.master_port, "7");
        EXPECT_EQ(parsed->options.program, Words{"t.py"});
    }
}

TEST(RunOptions, Flags) {
    const auto parsed =
        parse_run_options({"-m", "--no-torchelastic-env", "--shutdown-timeout", "0.25", "--root", "/r", "pkg.mod"});
    ASSERT_TRUE(parsed);
    EXPECT_TRUE(parsed->options.module);
    EXPECT_FALSE(parsed->options.torchelastic_environment);
    EXPECT_EQ(parsed->options.shutdown_timeout.count(), 250);
    EXPECT_EQ(parsed->options.root, "/r");
    EXPECT_TRUE(parse_run_options({"--no_python", "x.py"})->options.no_python);
}

TEST(RunOptions, EverythingBehindTheProgramIsTheProgramsOwn) {
    const Words program = {"./t", "--nnodes", "9",  "-n", "--help", "--",    "[1,2]",
                           "",    "check",    "++", "-m", "{a,b}",  "--x=y", "run"};
    Words words = {"-n", "2"};
    words.insert(words.end(), program.begin(), program.end());
    auto parsed = parse_run_options(words);
    ASSERT_TRUE(parsed);
    EXPECT_EQ(parsed->options.program, program);
    EXPECT_FALSE(parsed->options.nnodes || parsed->help);
    parsed = parse_run_options({"--", "-strange-name", "--", "x"});
    ASSERT_TRUE(parsed);
    EXPECT_EQ(parsed->options.program, (Words{"-strange-name", "--", "x"}));
}

TEST(RunOptions, LastOneCounts) {
    EXPECT_EQ(parse_run_options({"-n", "2", "--nproc-per-node=4", "t"})->options.nproc_per_node, "4");
}

TEST(RunOptions, ValuesPassUnchanged) {
    EXPECT_EQ(parse_run_options({"--master-addr", "[fd00::1]", "t"})->options.master_addr, "[fd00::1]");
    EXPECT_EQ(parse_run_options({"--node-rank", "-1", "t"})->options.node_rank, "-1");
}

TEST(RunOptions, Mistakes) {
    EXPECT_NE(error_of({}).find("no program"), std::string::npos);
    EXPECT_NE(error_of({"-n", "2"}).find("no program"), std::string::npos);
    EXPECT_NE(error_of({"-n", "2", "--"}).find("no program"), std::string::npos);
    EXPECT_NE(error_of({"--nnodes"}).find("--nnodes needs a value"), std::string::npos);
    EXPECT_NE(error_of({"--nnode", "2", "t"}).find("did you mean --nnodes"), std::string::npos);
    EXPECT_NE(error_of({"--rdzv_backend=c10d", "t"}).find("torchrun's option --rdzv_backend"), std::string::npos);
    EXPECT_NE(error_of({"-t", "3", "t"}).find("torchrun's option -t"), std::string::npos);
    EXPECT_NE(error_of({"-x", "t"}).find("unknown option -x"), std::string::npos);
    EXPECT_NE(error_of({"-m", "--no-python", "t"}).find("exclude"), std::string::npos);
    for (const char* const text : {"", "x", "-1", "nan", "inf", "1e9", "1s"}) {
        EXPECT_NE(error_of({std::string("--shutdown-timeout=") + text, "t"}), "no error") << text;
    }
}

TEST(RunOptions, Help) {
    const auto parsed = parse_run_options({"--help"});
    ASSERT_TRUE(parsed && parsed->help);
    EXPECT_NE(parsed->help->find("--nproc-per-node"), std::string::npos);
    EXPECT_NE(parsed->help->find("PROGRAM"), std::string::npos);
}

} // namespace

} // namespace rdma_nccl
