// SPDX-License-Identifier: Apache-2.0
#include "lib/program.h"

#include "lib/text.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace rdma_nccl {

namespace {

using Words = std::span<const std::string>;

template<std::size_t N>
bool contains(const std::array<std::string_view, N>& list, std::string_view word) {
    return std::find(list.begin(), list.end(), word) != list.end();
}

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

/// A word that may name the program: no option, no NAME=VALUE, no number (nice 5, timeout 60).
bool may_be_program(std::string_view word) {
    return !word.empty() && word.front() != '-' && word.find('=') == std::string_view::npos &&
           word.find_first_not_of("0123456789.smhd") != std::string_view::npos;
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

/// The text of `bash -c TEXT`: any word in it that names a launcher counts.
Program shell_text_program(std::string_view text) {
    constexpr std::size_t longest_text = 65536;
    std::string spaced(text.substr(0, longest_text));
    std::replace_if(
        spaced.begin(), spaced.end(),
        [](char c) { return std::string_view(";&|()\n\"'`").find(c) != std::string_view::npos; }, ' ');
    const auto words = split_words(spaced);
    for (std::size_t i = 0; i < words.size(); ++i) {
        const auto name = base_name(words[i]);
        const bool own = name == "rdma-nccl" && i + 1 < words.size() && words[i + 1] == "run";
        const bool module = i > 0 && words[i - 1] == "-m" && contains(launcher_modules, words[i]);
        if (contains(launchers, name) || own || module) {
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

Program classify_program(Words argv) {
    bool wrapped = false;
    for (std::size_t i = 0; i < argv.size(); ++i) {
        const std::string_view name = base_name(argv[i]);
        const Words rest = argv.subspan(i + 1);
        if (contains(daemons, name)) {
            return {ProgramKind::RuntimeDaemon, std::string(name)};
        }
        if (contains(launchers, name) || (name == "rdma-nccl" && !rest.empty() && rest[0] == "run")) {
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
