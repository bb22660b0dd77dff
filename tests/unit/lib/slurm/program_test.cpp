// SPDX-License-Identifier: Apache-2.0
// What a command line or a shell script starts, and whether the launchers that it starts may meet.
#include "lib/slurm/step.h"

#include "lib/base/text.h"

#include <gtest/gtest.h>

namespace rdma_nccl {
namespace {

std::vector<std::string> words(std::string_view text) {
    const auto parts = split_words(text);
    return {parts.begin(), parts.end()};
}

Program of(std::string_view line, const Environment& environment = {}) {
    return classify_program(words(line), environment);
}

Program of_text(const std::string& text, const Environment& environment = {}) {
    return classify_program(std::vector<std::string>{"bash", "-c", text}, environment);
}

Program of_script(const std::vector<std::string>& argv, const std::string& text) {
    return classify_program(argv, {}, [&](const std::string&) { return text; });
}

Environment with(std::vector<std::string> variables) {
    return Environment(variables);
}

TEST(ProgramAlone, ALauncherThatIsToldOfOneNode) {
    for (const auto* const line :
         {"torchrun --standalone --nproc_per_node=2 x.py",
          "torchrun --standalone x.py",
          "torchrun --nnodes=1 x.py",
          "torchrun --nnodes 1 --nproc-per-node 2 x.py",
          "torchrun --nnodes=1:1 x.py",
          "/opt/bin/torchrun --nproc_per_node 2 --nnodes 1 x.py",
          "env A=b torchrun --standalone x.py",
          "python3 -u -m torch.distributed.run --nnodes=1 x.py",
          "python /usr/bin/torchrun --standalone x.py",
          "python -X dev -m torch.distributed.launch --nproc_per_node=2 --master_addr=127.0.0.1 x.py",
          "torchrun --rdzv-backend=c10d --rdzv-endpoint=localhost:0 --nproc-per-node=2 x.py",
          "torchrun --rdzv_endpoint [::1]:29400 x.py",
          "accelerate launch --num_machines 1 --num_processes 2 x.py",
          "accelerate launch --multi_gpu --num_machines=1 x.py",
          "accelerate-launch --num-machines 1 x.py",
          "python -m accelerate.commands.launch --num_machines=1 x.py",
          "rdma-nccl run --standalone x.py",
          "rdma-nccl run --nnodes 1 x.py",
          "apptainer exec --nv image.sif torchrun --standalone x.py",
          "numactl -C 0-15,32 torchrun --standalone x.py",
          "nsys profile -o out torchrun --standalone x.py",
          "ft_launcher --nnodes=1 x.py",
          "deepspeed --num_gpus 2 x.py",
          "deepspeed --hostfile h --num_nodes 1 x.py",
          "composer -n 8 x.py",
          "composer x.py --world_size 16"}) {
        const auto program = of(line);
        EXPECT_EQ(program.kind, ProgramKind::Launcher) << line;
        EXPECT_NE(program.alone, "") << line;
        EXPECT_TRUE(program.meets) << line;
    }
}

TEST(ProgramAlone, ALauncherThatMayMeetOthers) {
    for (const auto* const line : {"torchrun",
                                   "torchrun x.py",
                                   "timeout 60 torchrun x.py",
                                   "rdma-nccl run x",
                                   "torchrun x.py --standalone",
                                   "torchrun --nnodes=2 x.py --nnodes=1",
                                   "torchrun --nnodes 1:4 --rdzv-endpoint=n01:29400 x.py",
                                   "torchrun --nnodes=2 --master_addr=localhost x.py",
                                   "torchrun -m package.train --standalone",
                                   "torchrun --no-python ./train --nnodes=1",
                                   "torchrun --nnodes=$NNODES x.py",
                                   "torchrun --master_addr n01 x.py",
                                   "accelerate launch x.py",
                                   "accelerate launch --num_machines 2 x.py",
                                   "accelerate launch x.py --num_machines 1",
                                   "rdma-nccl run --master-addr localhost x.py",
                                   "deepspeed --hostfile=hosts --no_ssh --node_rank 1 --master_addr n01 x.py",
                                   "deepspeed -H hosts x.py",
                                   "composer --world_size 16 x.py",
                                   "torchx run dist.ddp"}) {
        const auto program = of(line);
        EXPECT_EQ(program.kind, ProgramKind::Launcher) << line;
        EXPECT_EQ(program.alone, "") << line;
    }
}

TEST(ProgramAlone, IsSaidAsItIsWritten) {
    EXPECT_EQ(of("accelerate launch --num_machines 1 x.py").alone, "accelerate --num_machines 1");
    EXPECT_EQ(of("python -m torch.distributed.run --nnodes=1 x.py").alone, "torch.distributed.run --nnodes=1");
    EXPECT_EQ(of("deepspeed x.py").alone, "deepspeed without --hostfile");
    EXPECT_EQ(of("composer x.py").alone, "composer without --world-size");
    EXPECT_EQ(of("ray start --head").alone, "ray");
}

TEST(ProgramAlone, ByTheUsersVariables) {
    const auto alone = [](const char* line, std::vector<std::string> variables) {
        return of(line, with(std::move(variables))).alone;
    };
    EXPECT_EQ(alone("torchrun x.py", {"PET_NNODES=1"}), "torchrun PET_NNODES=1");
    EXPECT_EQ(alone("torchrun x.py", {"PET_STANDALONE=1"}), "torchrun PET_STANDALONE=1");
    EXPECT_EQ(alone("accelerate launch x.py", {"MASTER_ADDR=localhost"}), "accelerate MASTER_ADDR=localhost");
    EXPECT_EQ(alone("torchrun x.py", {"MASTER_ADDR=n01", "PET_NNODES=2"}), "");
    EXPECT_EQ(alone("torchrun --nnodes=2 x.py", {"MASTER_ADDR=localhost"}), "") << "the command line wins";
    EXPECT_EQ(alone("torchrun --master-addr=n01 x.py", {"MASTER_ADDR=localhost"}), "");
    EXPECT_EQ(alone("rdma-nccl run x.py", {"MASTER_ADDR=localhost"}), "") << "it takes the nodes of the step";
    EXPECT_EQ(alone("composer x.py", {"WORLD_SIZE=16"}), "");
    const auto ours = "RDMA_NCCL_SET=@1.0," + marker_entry("PET_NNODES", "1");
    EXPECT_EQ(alone("torchrun x.py", {"PET_NNODES=1", ours}), "") << "of a step around this one";
}

TEST(ProgramAlone, WhatNeverMeetsByOurVariables) {
    for (const auto* const line : {"mpirun -np 8 ./a", "/opt/ompi/bin/mpiexec -n 2 ./a", "horovodrun -np 4 python x.py",
                                   "ray start --address n01:6379 --block", "ray symmetric-run -- python x.py"}) {
        EXPECT_EQ(of(line).kind, ProgramKind::Launcher) << line;
        EXPECT_FALSE(of(line).meets) << line;
    }
}

TEST(Program, RuntimesDaemons) {
    EXPECT_EQ(of("/opt/ompi/bin/prted").kind, ProgramKind::RuntimeDaemon);
    EXPECT_EQ(of("orted --x").kind, ProgramKind::RuntimeDaemon);
}

TEST(Program, AnArgumentOrAnOptionsValueIsNoLauncher) {
    for (const auto* const line : {"", "env", "bash -c", "bash x.sh", "mytorchrun", "rdma-nccl gids", "python -m train",
                                   "python train.py torchrun", "./train torchrun", "conda run -n deepspeed python x.py",
                                   "uv run --with ray python -u x.py", "nsys profile -o ray ./a",
                                   "apptainer exec --bind /opt/ray image.sif python3 x.py"}) {
        EXPECT_EQ(of(line).kind, ProgramKind::Ordinary) << line;
    }
    EXPECT_EQ(of("uv run --frozen torchrun --standalone x.py").alone, "torchrun --standalone");
    EXPECT_EQ(of("conda run -n train deepspeed x.py").kind, ProgramKind::Launcher);
}

TEST(ShellText, FindsTheLauncherAmongItsCommands) {
    for (const auto* const text : {"cd /x && torchrun --standalone x.py",
                                   "source env.sh; exec torchrun --nnodes=1 x.py",
                                   "torchrun \\\n  --nproc_per_node=2 \\\n  --nnodes=1 \\\n  x.py",
                                   "NCCL_DEBUG=INFO torchrun --standalone x.py",
                                   "NNODES=1\ntorchrun --nnodes=$NNODES x.py",
                                   "export N=1; torchrun --nnodes ${N} x.py",
                                   "torchrun --nnodes ${NUM_NODES:-1} x.py",
                                   "NNODES=${NNODES:-1}; torchrun --nnodes=$NNODES --rdzv_endpoint=localhost:0 x.py",
                                   "torchrun --nnodes=$NNODES --node_rank=$NODE_RANK --master_addr=127.0.0.1 x.py",
                                   "if true; then torchrun --standalone x.py; fi",
                                   "(cd x; torchrun --standalone x.py) & wait",
                                   "LAUNCHER=\"python -m torch.distributed.run --nnodes 1\"\n$LAUNCHER x.py",
                                   "ARGS=(\n  --nproc_per_node 8\n  --nnodes 1 # one\n)\ntorchrun ${ARGS[@]} x.py",
                                   "declare -a ARGS=(--standalone); torchrun \"${ARGS[@]}\" x.py",
                                   "python $(which torchrun) --standalone x.py",
                                   "$(command -v torchrun) --nnodes=1 x.py",
                                   "torchrun --nproc_per_node=$(nvidia-smi -L | wc -l) --nnodes=1 x.py",
                                   "bash -c 'torchrun --standalone x.py'",
                                   "set -euo pipefail; bash -euo pipefail -c \"torchrun --nnodes=1 x.py\"",
                                   "# torchrun --nnodes=2\ntorchrun --standalone x.py",
                                   "eval torchrun --standalone x.py"}) {
        const auto program = of_text(text);
        EXPECT_EQ(program.kind, ProgramKind::Launcher) << text;
        EXPECT_NE(program.alone, "") << text;
    }
}

TEST(ShellText, LaunchersThatMayMeet) {
    for (const auto* const text :
         {"torchrun --nnodes=$SLURM_NNODES --node_rank=$SLURM_NODEID x.py", "torchrun --nnodes=${NNODES:-1} x.py",
          "MASTER_ADDR=${MASTER_ADDR:-localhost}; torchrun --master_addr=$MASTER_ADDR x.py",
          "torchrun --nnodes=$NNODES --rdzv_endpoint=$MASTER_ADDR:29400 x.py",
          "export PET_NNODES=1; torchrun --nnodes=$NNODES x.py",
          "torchrun --nnodes=$SLURM_NNODES --master_addr=localhost x.py",
          "export MASTER_ADDR=$(scontrol show hostnames | head -1)\ntorchrun x.py", "torchrun $ARGS x.py",
          "if [ $N = 1 ]; then torchrun --standalone x.py; else torchrun --nnodes=$N x.py; fi",
          "bash -lc 'exec accelerate launch x'", "sh -c 'python -m torch.distributed.launch x'", "rdma-nccl run x"}) {
        const auto program = of_text(text, with({"SLURM_NNODES=2", "SLURM_NODEID=0"}));
        EXPECT_EQ(program.kind, ProgramKind::Launcher) << text;
        EXPECT_EQ(program.alone, "") << text;
    }
}

TEST(ShellText, ItMayHandTheVariablesOfThePlanToALauncherThatReadsNone) {
    const std::string head_or_worker = "if [ $NODE_RANK = 0 ]; then ray start --head; else ray start --address=$H; fi";
    const auto meets = [](const std::string& text) { return of_text(text).meets && of_text(text).alone.empty(); };
    EXPECT_TRUE(meets(head_or_worker));
    EXPECT_TRUE(meets("ray start --address=${MASTER_ADDR}:6379 --block"));
    EXPECT_FALSE(meets("NODE_RANK=$SLURM_NODEID; " + head_or_worker)) << "it has its own";
    EXPECT_FALSE(meets("echo $NODE_RANK; torchrun --standalone x.py")) << "the command line wins";
}

TEST(ShellText, WordsThatStartNothing) {
    for (const auto* const text : {"pip install accelerate; python x.py",
                                   "echo \"run; torchrun x.py\"",
                                   "python train.py",
                                   "module load deepspeed\n./train",
                                   "cd /scratch/composer && python x.py",
                                   "# torchrun x.py\npython x.py",
                                   "which torchrun",
                                   "export PATH=/opt/torchrun:$PATH",
                                   "case $L in\n  torchrun) echo no;;\nesac\npython x.py",
                                   "python x.py --launcher torchrun",
                                   "'",
                                   "\"",
                                   "$(",
                                   "${",
                                   "\\",
                                   "A=(",
                                   "$",
                                   "`",
                                   "((",
                                   ")",
                                   "$(which "}) {
        EXPECT_EQ(of_text(text).kind, ProgramKind::Ordinary) << text;
    }
}

/// The plugin reads a user's text in slurmstepd: nothing in it may grow without end or recurse.
TEST(ShellText, TextsThatGrowOrNameThemselvesHaveAnEnd) {
    std::string doubling = "A=0123456789\n";
    for (int i = 0; i < 60; ++i) {
        doubling += "A=$A$A\n";
    }
    EXPECT_EQ(of_text(doubling + "torchrun x.py").kind, ProgramKind::Ordinary) << "given up";
    EXPECT_EQ(of_text("A='bash -c \"$A\"'; bash -c \"$A\"").kind, ProgramKind::Ordinary);
    std::string many;
    for (int i = 0; i < 5000; ++i) {
        many += "bash -c 'bash -c true'\n";
    }
    EXPECT_EQ(of_text(many).kind, ProgramKind::Ordinary);
    const Environment wide(std::vector<std::string>{"A=" + std::string(131000, 'x')});
    std::string uses;
    for (int i = 0; i < 20000; ++i) {
        uses += "$A;";
    }
    EXPECT_EQ(of_text(uses, wide).kind, ProgramKind::Ordinary);
    const Environment blank(std::vector<std::string>{"A=" + std::string(131000, ' ')});
    EXPECT_EQ(of_text("$A $A $A $A $A $A $A $A $A; torchrun x.py", blank).kind, ProgramKind::Ordinary) << "given up";
}

TEST(Script, ALauncherInAFileIsFound) {
    const auto argv = words("./run.sh --standalone x.py");
    const auto program = classify_program(argv);
    ASSERT_EQ(program.script, "./run.sh");
    const auto in = [&](const char* text) { return of_script(argv, text); };
    EXPECT_EQ(in("#!/bin/bash\nsource env.sh\ntorchrun x.py\n").name, "torchrun in run.sh");
    EXPECT_EQ(in("#!/usr/bin/env bash\nexec torchrun \"$@\"\n").alone, "torchrun --standalone") << "its own arguments";
    EXPECT_EQ(in("#!/bin/sh\npython train.py\n").kind, ProgramKind::Ordinary);
    EXPECT_EQ(in("#!/usr/bin/python3\ntorchrun\n").kind, ProgramKind::Ordinary) << "no shell";
    EXPECT_EQ(in("ray stop --force\npython train.py\n").kind, ProgramKind::Ordinary) << "it ends in a rank";
    EXPECT_EQ(in("if [ $N -gt 1 ]; then torchrun x.py; else python x.py; fi\n").kind, ProgramKind::Ordinary);
    EXPECT_EQ(in("python prepare.py\ntorchrun x.py\necho done\n").kind, ProgramKind::Launcher);
    EXPECT_EQ(in("").kind, ProgramKind::Ordinary);
    const auto wrapper = words("bash -e tools/env.sh accelerate launch --num_machines 1 x.py");
    EXPECT_EQ(classify_program(wrapper).script, "tools/env.sh");
    EXPECT_EQ(of_script(wrapper, "module load cuda\nexec \"$@\"\n").alone, "accelerate --num_machines 1");
}

TEST(Script, IsLookedForOnlyWhereItCanBeOne) {
    for (const auto* const line :
         {"python x.py", "train", "torchrun x.py", "apptainer exec image ./run.sh", "env", "bash -c true"}) {
        EXPECT_EQ(of(line).script, "") << line;
    }
    EXPECT_EQ(of("env A=b timeout 60 /scratch/run.sh").script, "/scratch/run.sh");
}

Step two_nodes(unsigned tasks_per_node) {
    Step step;
    step.node_count = 2;
    step.tasks_per_node = {tasks_per_node, tasks_per_node};
    step.task_count = 2 * tasks_per_node;
    return step;
}

TEST(LayoutAlone, TasksThatMeetNobody) {
    const auto standalone = of("torchrun --standalone x.py");
    EXPECT_EQ(choose_layout({}, two_nodes(1), standalone, 8).alone, "torchrun --standalone");
    const auto shared = choose_layout({}, two_nodes(2), standalone, 8);
    EXPECT_EQ(shared.alone, "torchrun --standalone");
    EXPECT_EQ(shared.warnings.size(), 0U) << "each is meant to be a world of its own";
    Settings settings;
    settings.layout = Layout::Node;
    EXPECT_NE(choose_layout(settings, two_nodes(1), standalone, 8).alone, "");
    for (const auto layout : {Layout::Rank, Layout::Pod}) {
        settings.layout = layout;
        EXPECT_EQ(choose_layout(settings, two_nodes(1), standalone, 8).alone, "") << "the user knows better";
    }
    Step one;
    EXPECT_EQ(choose_layout({}, one, standalone, 8).alone, "") << "there is nobody else, and the port is its own";
    EXPECT_EQ(choose_layout({}, one, of("ray start --head"), 1).alone, "ray");
    EXPECT_EQ(choose_layout({}, one, of("ray start --head"), 1).layout, Layout::Node);
}

TEST(LayoutAlone, AScriptCountsOnlyWhereItCanBeTheLauncher) {
    const auto argv = words("./run.sh");
    const auto script = of_script(argv, "#!/bin/sh\ntorchrun x.py\n");
    EXPECT_EQ(choose_layout({}, two_nodes(1), script, 1).layout, Layout::Node);
    EXPECT_EQ(choose_layout({}, two_nodes(1), script, 1).why, "torchrun in run.sh starts the ranks of its node");
    EXPECT_EQ(choose_layout({}, two_nodes(4), script, 4).layout, Layout::Rank);
    Settings spawn;
    spawn.spawn = true;
    EXPECT_TRUE(choose_layout(spawn, two_nodes(1), script, 4).spawn);
}

} // namespace
} // namespace rdma_nccl
