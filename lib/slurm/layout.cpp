// SPDX-License-Identifier: Apache-2.0
#include "lib/base/lists.h"
#include "lib/slurm/step.h"

#include "lib/base/format.h"
#include "lib/base/text.h"

#include <array>

namespace rdma_nccl {

namespace {

/// Spawns the ranks, except for a program that starts them itself: `rdma-nccl run` would start it once per GPU.
LayoutChoice choose_to_spawn(const Program& program) {
    LayoutChoice choice{Layout::Node, "spawn setting", {}, program.kind != ProgramKind::Launcher};
    if (!choice.spawn && program.name != "rdma-nccl") {
        choice.warnings.push_back(format_text("spawn=on: {} starts the ranks itself, so rdma-nccl run is not put in "
                                              "front of it",
                                              program.name));
    }
    return choice;
}

LayoutChoice choose_automatically(const Step& step, const Program& program, unsigned visible_gpus) {
    if (program.kind == ProgramKind::Launcher) {
        return {Layout::Node, format_text("{} starts the ranks of its node", program.name), {}};
    }
    if (step.most_tasks_per_node() > 1) {
        return {Layout::Rank, "several tasks on a node", {}};
    }
    if (visible_gpus > 1) {
        return {Layout::Node, format_text("one task per node, {} GPUs visible", visible_gpus), {}};
    }
    return {Layout::Rank, visible_gpus == 1 ? "one task with one GPU" : "one task, no GPU", {}};
}

using Words = std::span<const std::string>;

constexpr std::array<std::string_view, 8> launchers = {"torchrun",    "accelerate",   "deepspeed", "composer",
                                                       "ft_launcher", "torchrun_jsc", "torchx",    "torchrunx"};
constexpr std::array<std::string_view, 8> launcher_modules = {"torch.distributed.run",
                                                              "torch.distributed.launch",
                                                              "accelerate.commands.launch",
                                                              "accelerate.commands.accelerate_cli",
                                                              "deepspeed.launcher.runner",
                                                              "composer.cli.launcher",
                                                              "torchrun_jsc",
                                                              "nvidia_resiliency_ext.fault_tolerance.launcher"};
constexpr std::array<std::string_view, 5> daemons = {"orted", "prted", "hydra_pmi_proxy", "hydra_bstrap_proxy",
                                                     "prrte"};
constexpr std::array<std::string_view, 11> wrappers = {"env",     "numactl", "nice", "time",   "stdbuf", "timeout",
                                                       "taskset", "nsys",    "exec", "setsid", "chrt"};
constexpr std::array<std::string_view, 5> shells = {"sh", "bash", "dash", "zsh", "ksh"};

bool is_python(std::string_view name) {
    return name.starts_with("python") && name.substr(6).find_first_not_of("0123456789.") == std::string_view::npos;
}

/// Returns true if a word may name the program: it is not an option, NAME=VALUE, or a number (nice 5, timeout 60).
bool may_be_program(std::string_view word) {
    return !word.empty() && word.front() != '-' && word.find('=') == std::string_view::npos &&
           word.find_first_not_of("0123456789.smhd") != std::string_view::npos;
}

bool is_launcher(std::string_view name, std::string_view first_argument) {
    return contains(launchers, name) || (name == "rdma-nccl" && first_argument == "run");
}

Program python_program(Words arguments) {
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        if (arguments[i] == "-m") {
            const bool known = i + 1 < arguments.size() && contains(launcher_modules, arguments[i + 1]);
            return known ? Program{ProgramKind::Launcher, arguments[i + 1]} : Program{};
        }
        if (!arguments[i].starts_with('-')) { // python /usr/bin/torchrun ...
            const auto name = base_name(arguments[i]);
            return contains(launchers, name) ? Program{ProgramKind::Launcher, std::string(name)} : Program{};
        }
    }
    return {};
}

/// Classifies the text of `bash -c TEXT`. Any word that names a launcher counts.
Program shell_text_program(std::string_view text) {
    constexpr std::size_t longest_text = 65536;
    std::string spaced(text.substr(0, longest_text));
    std::ranges::replace_if(
        spaced, [](char c) { return std::string_view(";&|()\n\"'`").find(c) != std::string_view::npos; }, ' ');
    const auto words = split_words(spaced);
    for (std::size_t i = 0; i < words.size(); ++i) {
        const auto name = base_name(words[i]);
        const bool module = i > 0 && words[i - 1] == "-m" && contains(launcher_modules, words[i]);
        if (is_launcher(name, i + 1 < words.size() ? words[i + 1] : "") || module) {
            return {ProgramKind::Launcher, std::string(name)};
        }
    }
    return {};
}

Program shell_program(Words arguments) {
    for (std::size_t i = 0; i + 1 < arguments.size() && arguments[i].starts_with('-'); ++i) {
        if (!arguments[i].starts_with("--") && arguments[i].ends_with('c')) { // -c, -lc, -ec
            return shell_text_program(arguments[i + 1]);
        }
    }
    return {};
}

} // namespace

LayoutChoice choose_layout(const Settings& settings, const Step& step, const Program& program, unsigned visible_gpus) {
    LayoutChoice choice = settings.spawn                    ? choose_to_spawn(program)
                          : settings.layout == Layout::Auto ? choose_automatically(step, program, visible_gpus)
                                                            : LayoutChoice{settings.layout, "layout setting", {}};
    if (!choice.spawn && choice.layout != Layout::Rank && step.most_tasks_per_node() > 1) {
        choice.warnings.push_back(
            format_text("{} tasks on one node, each would start ranks of its own ({}): use --ntasks-per-node=1, or "
                        "layout=rank for a program that is one rank itself",
                        step.most_tasks_per_node(), choice.why));
    }
    return choice;
}

std::string_view layout_name(Layout layout) {
    constexpr std::array<std::string_view, 4> names = {"auto", "rank", "node", "pod"};
    return names.at(static_cast<std::size_t>(layout));
}

Program classify_program(Words argv) {
    bool wrapped = false;
    for (std::size_t i = 0; i < argv.size(); ++i) {
        const std::string_view name = base_name(argv[i]);
        const Words rest = argv.subspan(i + 1);
        if (contains(daemons, name)) {
            return {ProgramKind::RuntimeDaemon, std::string(name)};
        }
        if (is_launcher(name, rest.empty() ? "" : std::string_view(rest[0]))) {
            return {ProgramKind::Launcher, std::string(name)};
        }
        if (is_python(name)) {
            return python_program(rest);
        }
        if (contains(shells, name)) {
            return shell_program(rest);
        }
        if (contains(wrappers, name)) {
            wrapped = true;
        } else if (!wrapped || may_be_program(argv[i])) {
            return {};
        }
    }
    return {};
}

} // namespace rdma_nccl
