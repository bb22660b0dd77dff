// SPDX-License-Identifier: Apache-2.0
#include "tools/run/options/options.h"

#include <csignal>
#include <gtest/gtest.h>

namespace rdma_nccl::run {

namespace {

using Words = std::vector<std::string>;

Result<Options> parse(const Words& words, const Words& variables = {}) {
    return parse_options(words, Environment(variables));
}

std::string error_of(const Words& words, const Words& variables = {}) {
    const auto parsed = parse(words, variables);
    return parsed ? "no error" : parsed.error().message;
}

/// Of options in front of a program.
Options options_of(Words words, const Words& variables = {}) {
    words.emplace_back("./t");
    const auto parsed = parse(words, variables);
    EXPECT_TRUE(parsed) << parsed.error().message;
    return parsed.value_or(Options());
}

Words only_program(const Options& options) {
    EXPECT_EQ(options.programs.size(), 1U);
    return options.programs.empty() ? Words() : options.programs.front().command_line;
}

int signal_of(std::string_view name) {
    return name == "TERM" ? SIGTERM : name == "USR1" ? SIGUSR1 : SIGUSR2;
}

TEST(Options, NoNoteAboutWhatThePluginHasSet) {
    const std::string marker = "RDMA_NCCL_SET=@7.0," + marker_entry("PET_RDZV_CONF", "is_host=1");
    for (const bool ours : {true, false}) {
        const std::vector<std::string> entries{"PET_RDZV_CONF=is_host=1", ours ? marker : "X=1"};
        const auto parsed = parse_options({"true"}, Environment(entries));
        ASSERT_TRUE(parsed);
        EXPECT_EQ(parsed->notes.empty(), ours);
    }
}

TEST(Options, Defaults) {
    const auto parsed = parse({"./train"});
    ASSERT_TRUE(parsed);
    const auto& options = *parsed;
    EXPECT_EQ(only_program(options), Words{"./train"});
    EXPECT_FALSE(options.nproc_per_node || options.nnodes || options.node_rank || options.master_addr ||
                 options.master_port);
    EXPECT_FALSE(options.module || options.no_python);
    EXPECT_TRUE(options.torchelastic_environment);
    EXPECT_EQ(options.shutdown_timeout.count(), 30000);
    EXPECT_EQ(options.root, "");
}

TEST(Options, TorchrunsNames) {
    for (const Words& words :
         {Words{"--nproc-per-node", "4", "--nnodes", "2", "--node-rank", "1", "--master-addr", "h", "--master-port",
                "7", "t.py"},
          Words{"--nproc_per_node=4", "--nnodes=2", "--node_rank=1", "--master_addr=h", "--master_port=7", "t.py"},
          Words{"-n4", "--nnodes", "2", "--node_rank", "1", "--master_addr", "h", "--master_port", "7", "--",
                "t.py"}}) {
        const auto parsed = parse(words);
        ASSERT_TRUE(parsed) << parsed.error().message;
        EXPECT_EQ(parsed->nproc_per_node, "4");
        EXPECT_EQ(parsed->nnodes, "2");
        EXPECT_EQ(parsed->node_rank, "1");
        EXPECT_EQ(parsed->master_addr, "h");
        EXPECT_EQ(parsed->master_port, "7");
        EXPECT_EQ(only_program(*parsed), Words{"t.py"});
    }
}

TEST(Options, Flags) {
    const auto parsed = parse({"-m", "--no-torchelastic-env", "--shutdown-timeout", "0.25", "--root", "/r", "pkg.mod"});
    ASSERT_TRUE(parsed);
    EXPECT_TRUE(parsed->module);
    EXPECT_FALSE(parsed->torchelastic_environment);
    EXPECT_EQ(parsed->shutdown_timeout.count(), 250);
    EXPECT_EQ(parsed->root, "/r");
    EXPECT_TRUE(parse({"--no_python", "x.py"})->no_python);
}

TEST(Options, EverythingBehindTheProgramIsTheProgramsOwn) {
    const Words program = {"./t", "--nnodes", "9",  "-n", "--help", "--",    "[1,2]",
                           "",    "check",    "++", "-m", "{a,b}",  "--x=y", "run"};
    Words words = {"-n", "2"};
    words.insert(words.end(), program.begin(), program.end());
    auto parsed = parse(words);
    ASSERT_TRUE(parsed);
    EXPECT_EQ(only_program(*parsed), program);
    EXPECT_FALSE(parsed->nnodes || parsed->help);
    parsed = parse({"--", "-strange-name", "--", "x"});
    ASSERT_TRUE(parsed);
    EXPECT_EQ(only_program(*parsed), (Words{"-strange-name", "--", "x"}));
}

TEST(Options, LastOneCounts) {
    EXPECT_EQ(parse({"-n", "2", "--nproc-per-node=4", "t"})->nproc_per_node, "4");
}

TEST(Options, ValuesPassUnchanged) {
    EXPECT_EQ(parse({"--master-addr", "[fd00::1]", "t"})->master_addr, "[fd00::1]");
    EXPECT_EQ(parse({"--node-rank", "-1", "t"})->node_rank, "-1");
}

TEST(Options, AllOfTorchruns) {
    const auto options =
        options_of({"--standalone", "--rdzv_id=job", "--rdzv-endpoint", "[fd00::1]:29400", "--max_restarts=3", "--role",
                    "trainer", "--log_dir=/logs", "-r3", "-t=0:1,12:2", "--local-ranks-filter=0,2-3", "--run_path",
                    "--signals-to-handle", "SIGTERM,SIGUSR1", "--virtual_local_rank", "--numa-binding=exclusive"});
    EXPECT_TRUE(options.standalone && options.run_path && options.virtual_local_rank);
    EXPECT_EQ(options.rdzv_id, "job");
    ASSERT_TRUE(options.rdzv_endpoint);
    EXPECT_EQ(options.rdzv_endpoint->host, "fd00::1");
    EXPECT_EQ(options.rdzv_endpoint->port, 29400);
    EXPECT_EQ(options.rdzv_endpoint->source, "--rdzv-endpoint");
    EXPECT_EQ(options.max_restarts, 3U);
    EXPECT_EQ(options.role, "trainer");
    EXPECT_EQ(options.output.log_dir, "/logs");
    EXPECT_EQ(options.output.redirects.of(7), (Streams{true, true}));
    EXPECT_EQ(options.output.tee.of(0), (Streams{true, false}));
    EXPECT_EQ(options.output.tee.of(1), Streams());
    EXPECT_EQ(options.output.tee.of(12), (Streams{false, true}));
    EXPECT_EQ(options.output.only, (std::set<unsigned>{0, 2, 3}));
    EXPECT_EQ(options.end_signals, (std::set<int>{SIGTERM, SIGUSR1}));
    EXPECT_EQ(options.bind, "cpu");
    EXPECT_EQ(options.notes, Words());
}

TEST(Options, OwnOnes) {
    const auto options =
        options_of({"--raw", "--prefix", "{host}:{rank}> ", "--announce", "--events", "e.json", "--json=r.json",
                    "--on-signal", "TERM=USR1,SIGUSR2=term,10=12", "--no-restart-code=7", "--node-timeout", "60",
                    "--hang-timeout=300", "--hang-action=kill", "--recorder", "on", "--no-preflight", "--dry-run"});
    EXPECT_TRUE(options.output.raw && options.output.announce && options.hang_kill);
    EXPECT_EQ(options.output.prefix, "{host}:{rank}> ");
    EXPECT_EQ(options.output.events, "e.json");
    EXPECT_EQ(options.report_file, "r.json");
    EXPECT_EQ(options.recorder, "on");
    EXPECT_EQ(options.on_signal, (std::map<int, int>{{SIGTERM, SIGUSR1}, {SIGUSR2, SIGTERM}, {10, 12}}));
    EXPECT_EQ(options.no_restart_code, 7);
    EXPECT_EQ(options.node_timeout.count(), 60);
    EXPECT_EQ(options.hang_after->count(), 300);
    EXPECT_FALSE(options.preflight);
    EXPECT_EQ(options.dry_run, DryRun::Text);
    EXPECT_EQ(options_of({"--dry-run=json"}).dry_run, DryRun::Json);
    EXPECT_EQ(options_of({}).dry_run, DryRun::Off);
}

TEST(Options, CutShortAsArgparseDoes) {
    EXPECT_EQ(options_of({"--nnode=2"}).nnodes, "2");
    EXPECT_EQ(options_of({"--nproc", "3"}).nproc_per_node, "3");
    EXPECT_NE(error_of({"--rdzv=x", "t"}).find("unknown option --rdzv"), std::string::npos) << "several begin so";
    EXPECT_NE(error_of({"--announc", "t"}).find("unknown option"), std::string::npos) << "no option of torchrun's";
}

TEST(Options, PetVariables) {
    const Words variables = {"PET_STANDALONE=1",
                             "PET_RDZV_ID=j",
                             "PET_MAX_RESTARTS=2",
                             "PET_ROLE=r",
                             "PET_LOG_DIR=/l",
                             "PET_REDIRECTS=1",
                             "PET_TEE=2",
                             "PET_MODULE=1",
                             "PET_LOCAL_RANKS_FILTER=1",
                             "PET_NO_PYTHON=0",
                             "PET_RDZV_CONF=",
                             "PET_SHUTDOWN_TIMEOUT=5",
                             "PET_NUMA_BINDING=x",
                             "PET_NNODES=9",
                             "PET_VIRTUAL_LOCAL_RANK=1",
                             "PET_RDZV_ENDPOINT=n01",
                             "PET_SIGNALS_TO_HANDLE=USR2",
                             "PET_PREFIX=x"};
    auto options = options_of({}, variables);
    EXPECT_TRUE(options.standalone && options.module && options.virtual_local_rank);
    EXPECT_FALSE(options.no_python);
    EXPECT_EQ(options.rdzv_id, "j");
    EXPECT_EQ(options.max_restarts, 2U);
    EXPECT_EQ(options.role, "r");
    EXPECT_EQ(options.output.log_dir, "/l");
    EXPECT_EQ(options.output.redirects.all, (Streams{true, false}));
    EXPECT_EQ(options.output.tee.all, (Streams{false, true}));
    EXPECT_EQ(options.output.only, std::set<unsigned>{1});
    EXPECT_EQ(options.shutdown_timeout.count(), 5000);
    EXPECT_EQ(options.rdzv_endpoint->source, "PET_RDZV_ENDPOINT");
    EXPECT_EQ(options.end_signals, std::set<int>{SIGUSR2});
    EXPECT_EQ(options.output.prefix, Options().output.prefix) << "no option of torchrun's";
    EXPECT_FALSE(options.nnodes) << "plan_world() weighs it against other variables";
    EXPECT_FALSE(options.bind) << "torchrun does not read that one";
    EXPECT_EQ(options.notes, Words()) << "an empty variable counts as unset";
    options = options_of({"--role=mine", "--tee=0", "--max-restarts=0"}, variables);
    EXPECT_EQ(options.role, "mine");
    EXPECT_EQ(options.output.tee.all, Streams());
    EXPECT_EQ(options.max_restarts, 0U);
    EXPECT_NE(error_of({"t"}, {"PET_STANDALONE=yes"}).find("PET_STANDALONE \"yes\""), std::string::npos);
    EXPECT_NE(error_of({"t"}, {"PET_TEE=7"}).find("PET_TEE \"7\""), std::string::npos);
}

TEST(Options, OtherVariablesOfTorchrun) {
    const Words variables = {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT=9",
                             "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE=${role_name}/${rank}/${local_rank}@${hostname}: "};
    EXPECT_EQ(options_of({}, variables).shutdown_timeout.count(), 9000);
    EXPECT_EQ(options_of({}, variables).output.prefix, "{role}/{rank}/{local_rank}@{host}: ");
    EXPECT_EQ(options_of({"--shutdown-timeout=1", "--prefix="}, variables).shutdown_timeout.count(), 1000);
    EXPECT_EQ(options_of({"--prefix="}, variables).output.prefix, "");
}

TEST(Options, WhatMeansNothingIsSaidOnce) {
    const auto options = options_of({"--rdzv_backend=etcd", "--rdzv_conf=timeout=900,is_host=1", "--monitor-interval",
                                     "0.1", "--local-addr=n01", "--start-method=fork", "--event-log-handler=console",
                                     "--duplicate-stdout-filters=a"},
                                    {"PET_DUPLICATE_STDERR_FILTERS=b"});
    ASSERT_EQ(options.notes.size(), 1U);
    EXPECT_EQ(
        options.notes.front(),
        "--rdzv-backend etcd, --rdzv-conf, --local-addr, --monitor-interval, --start-method, --event-log-handler, "
        "--duplicate-stdout-filters, PET_DUPLICATE_STDERR_FILTERS: no meaning in a fixed world, ignored");
    EXPECT_EQ(options_of({"--rdzv-backend=static", "--start-method=spawn", "--event-log-handler=null",
                          "--rdzv-conf=", "--rdzv-endpoint=", "--local-ranks-filter=", "--logs-specs=default"})
                  .notes,
              Words());
    EXPECT_EQ(options_of({"--numa-binding=node"}).notes.size(), 1U);
    EXPECT_EQ(options_of({"--numa-binding=node", "--bind=off"}).bind, "off");
}

TEST(Options, SeveralPrograms) {
    const auto parsed = parse({"--rank", "8-9,0-3", "-n", "4", "--", "./a", "x", "::", ":::", ":", "--rank=4", "--",
                               "-b", "--rank", "7", ":", "./rest", "a:b", ""});
    ASSERT_TRUE(parsed) << parsed.error().message;
    const auto& programs = parsed->programs;
    ASSERT_EQ(programs.size(), 3U);
    EXPECT_EQ(programs[0].ranks, (std::vector<RankRange>{{0, 3}, {8, 9}}));
    EXPECT_EQ(programs[0].command_line, (Words{"./a", "x", ":", "::"}));
    EXPECT_EQ(programs[1].ranks, (std::vector<RankRange>{{4, 4}}));
    EXPECT_EQ(programs[1].command_line, (Words{"-b", "--rank", "7"}));
    EXPECT_EQ(programs[2].ranks, std::vector<RankRange>());
    EXPECT_EQ(programs[2].command_line, (Words{"./rest", "a:b", ""}));
    EXPECT_EQ(only_program(*parse({"./a", ":", "::", "--rank", "0"})), (Words{"./a", ":", "::", "--rank", "0"}))
        << "without --rank in front, colons are arguments";
}

TEST(Options, SeveralProgramsThroughSrun) {
    // srun keeps a word ":" for itself, so the line with --and has none.
    const auto parsed =
        parse({"--rank", "0-3", "./a", "::", "x:y", "a : b", "--and", "--rank=4", "./b", "--and", "./c"});
    ASSERT_TRUE(parsed) << parsed.error().message;
    ASSERT_EQ(parsed->programs.size(), 3U);
    EXPECT_EQ(parsed->programs[0].command_line, (Words{"./a", ":", "x:y", "a : b"}));
    EXPECT_EQ(parsed->programs[1].command_line, Words{"./b"});
    EXPECT_EQ(parsed->programs[2].command_line, Words{"./c"});
    EXPECT_EQ(parse({"--rank", "0", "./a", "--and", "--rank", "1", "./b", ":", "./c"})->programs.size(), 3U) << "both";
    EXPECT_EQ(only_program(*parse({"./a", "--and", "./b"})), (Words{"./a", "--and", "./b"})) << "without --rank";
    const Words quoted{"sh", "-c", "exec ./a --and"};
    EXPECT_EQ(only_program(*parse({"--rank", "0", "sh", "-c", "exec ./a --and"})), quoted);
    EXPECT_NE(error_of({"--rank", "0", "./a", "--and"}).find("--and stands in sh -c"), std::string::npos);
    EXPECT_NE(error_of({"--rank", "0", "--", "--and", "./a"}).find("no program in front of"), std::string::npos);
    EXPECT_EQ(only_program(*parse({"--rank", "0", "./a", ""})), (Words{"./a", ""}));
}

TEST(Options, SeveralProgramsMistakes) {
    EXPECT_NE(error_of({"--rank", "0", ":", "./a"}).find("no program in front of"), std::string::npos);
    EXPECT_NE(error_of({"--rank", "0", "./a", ":"}).find("no program behind"), std::string::npos);
    EXPECT_NE(error_of({"--rank", "0", "./a", ":", "--rank"}).find("--rank \"\""), std::string::npos);
    EXPECT_NE(error_of({"--rank", "0", "./a", ":", "--rank", "1"}).find("no program"), std::string::npos);
    EXPECT_NE(error_of({"--rank", "0", "./a", ":", "-m", "b"}).find("-m: behind"), std::string::npos);
    EXPECT_NE(error_of({"--rank", "0", "./a", ":", "./b", ":", "./c"}).find("./b and ./c"), std::string::npos);
    for (const char* const ranks : {"", "x", "3-2", "1,,2", "-1", "0-1,1", "4294967295", "2147483647"}) {
        EXPECT_NE(error_of({"--rank", ranks, "./a"}).find("--rank"), std::string::npos) << ranks;
    }
}

TEST(Options, Mistakes) {
    EXPECT_NE(error_of({}).find("no program"), std::string::npos);
    EXPECT_NE(error_of({"-n", "2"}).find("no program"), std::string::npos);
    EXPECT_NE(error_of({"-n", "2", "--"}).find("no program"), std::string::npos);
    EXPECT_NE(error_of({"--nnodes"}).find("--nnodes needs a value"), std::string::npos);
    EXPECT_NE(error_of({"--nndoes", "2", "t"}).find("did you mean --nnodes"), std::string::npos);
    EXPECT_NE(error_of({"-x", "t"}).find("unknown option -x"), std::string::npos);
    EXPECT_NE(error_of({"--", "-x"}), error_of({"-x"}));
    EXPECT_NE(error_of({"---", "t"}).find("unknown option"), std::string::npos);
    EXPECT_NE(error_of({"--=3", "t"}).find("unknown option"), std::string::npos);
    EXPECT_NE(error_of({"-m", "--no-python", "t"}).find("exclude"), std::string::npos);
    EXPECT_NE(error_of({"-m", "--run-path", "t"}).find("exclude"), std::string::npos);
    EXPECT_NE(error_of({"--raw=1", "t"}).find("takes no value"), std::string::npos);
    EXPECT_NE(error_of({"--hang-action=kill", "t"}).find("--hang-timeout"), std::string::npos);
    for (const char* const text : {"", "x", "-1", "nan", "inf", "1e9", "1s"}) {
        EXPECT_NE(error_of({std::string("--shutdown-timeout=") + text, "t"}), "no error") << text;
    }
}

TEST(Options, BadValuesNameTheOption) {
    for (const Words& bad :
         {Words{"--tee", "", "4", "33", "0:4", "0:1,", ":1", "a:1", "-1:1", "1 :1", "65536:1"},
          Words{"--redirects", "x", "0:1;1:2"},
          Words{"--local-ranks-filter", "x", "0,", "3-1", "65536"},
          Words{"--rdzv-endpoint", ":1", "h:", "h:x", "h:65536", "[::1", "[::1]x", "a b", "a/b", "[]:1"},
          Words{"--rdzv-conf", "x", "a=", "=b", "a=b,", "a=b,c"},
          Words{"--max-restarts", "", "-1", "x", "1000001", "1.5"},
          Words{"--monitor-interval", "x", "-1", "nan"},
          Words{"--start-method", "x", ""},
          Words{"--logs-specs", "x", ""},
          Words{"--numa-binding", "x", "numa", ""},
          Words{"--signals-to-handle", "", "KILL", "SIGSTOP", "9", "x", "TERM,", "65", "0", "-1"},
          Words{"--on-signal", "", "TERM", "TERM=", "=USR1", "TERM=KILL", "STOP=TERM", "19=1", "TERM=USR1,TERM=USR2"},
          Words{"--no-restart-code", "0", "256", "x"},
          Words{"--node-timeout", "0", "x", "1.5", "1000001"},
          Words{"--hang-timeout", "0", ""},
          Words{"--hang-action", "", "x"},
          Words{"--prefix", "{", "{x}", "{host", "{}", "{host}{ rank}"},
          Words{"--json", ""},
          Words{"--events", ""},
          Words{"--log-dir", ""}}) {
        for (std::size_t i = 1; i < bad.size(); ++i) {
            const auto message = error_of({bad.front() + "=" + bad[i], "./t"});
            EXPECT_EQ(message.find(bad.front() + " \"" + bad[i]), 0U)
                << bad.front() << "=" << bad[i] << ": " << message;
        }
    }
    EXPECT_EQ(error_of({"--tee=0", "./t"}), "no error");
    EXPECT_NE(error_of({"--dry-run=x", "./t"}).find("--dry-run"), std::string::npos);
}

TEST(Options, SignalNames) {
    for (const std::string name : {"TERM", "USR1", "USR2"}) {
        for (const auto& text : {name, "SIG" + name, std::to_string(signal_of(name))}) {
            EXPECT_EQ(options_of({"--signals-to-handle", text}).end_signals, std::set<int>{signal_of(name)}) << text;
        }
    }
}

TEST(Options, Help) {
    const auto parsed = parse({"--help"});
    ASSERT_TRUE(parsed && parsed->help);
    EXPECT_NE(parsed->help->find("--nproc-per-node"), std::string::npos);
    EXPECT_NE(parsed->help->find("PROGRAM"), std::string::npos);
}

} // namespace

} // namespace rdma_nccl::run
