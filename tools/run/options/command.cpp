// SPDX-License-Identifier: Apache-2.0
#include "tools/run/options/command.h"

#include "lib/base/format.h"
#include "lib/base/text.h"
#include "tools/run/options/rank_commands.h"

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>

namespace rdma_nccl::run {

namespace {

/// The path that confstr(_CS_PATH) and shells use if PATH is unset.
constexpr std::string_view default_path = "/usr/local/bin:/usr/bin:/bin";

/// Returns 0, or the errno if the file cannot be opened in this mode.
int access_error(const std::string& path, int mode) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) {
        return errno;
    }
    if (S_ISDIR(status.st_mode)) {
        return EISDIR;
    }
    return ::access(path.c_str(), mode) == 0 ? 0 : errno;
}

bool is_missing(int os_error) {
    return os_error == ENOENT || os_error == ENOTDIR;
}

/// Finds a program as execvp(3) does: a name with a slash is a path, any other is searched along PATH.
Result<std::string> find_executable(const std::string& name, const Environment& environment) {
    int problem = ENOENT;
    const std::string path = environment.get("PATH").value_or(std::string(default_path));
    const std::vector<std::string_view> here{""};
    for (const auto directory : name.find('/') == std::string::npos ? split(path, ':') : here) {
        std::string file = directory.empty() ? name : format_text("{}/{}", directory, name);
        const int error = name.empty() ? ENOENT : access_error(file, X_OK);
        if (error == 0) {
            // An empty entry of PATH stands for the current directory.
            return file.find('/') == std::string::npos ? "./" + file : file;
        }
        if (!is_missing(error)) {
            problem = EACCES;
        }
    }
    if (problem == EACCES) {
        return fail(format_text("{}: not an executable file (a Python program that is not named *.py needs chmod +x "
                                "and a #! line)",
                                printable(name, 4096)),
                    problem);
    }
    return fail(format_text("{}: no such program{}", printable(name, 4096),
                            name.find('/') == std::string::npos ? " in PATH" : ""),
                problem);
}

Result<std::string> find_python(const Environment& environment) {
    if (const auto chosen = environment.get("PYTHON_EXEC"); chosen && !chosen->empty()) {
        auto found = find_executable(*chosen, environment);
        return found ? found : fail("PYTHON_EXEC: " + found.error().message, found.error().os_error);
    }
    for (const char* const name : {"python3", "python"}) {
        if (auto found = find_executable(name, environment)) {
            return found;
        }
    }
    return fail("no python3 and no python in PATH: set PYTHON_EXEC to the interpreter", ENOENT);
}

} // namespace

Result<Command> find_program(const RankProgram& program, const Options& options, const Environment& environment) {
    const std::string& name = program.program.front();
    const bool is_file = options.run_path || (!options.no_python && name.ends_with(".py"));
    if (!options.module && !is_file) {
        return find_executable(name, environment).map([&program](std::string file) {
            return Command{std::move(file), program.program};
        });
    }
    if (const int error = options.module ? 0 : access_error(name, R_OK); error != 0) {
        return is_missing(error) ? fail(format_text("{}: no such file", printable(name, 4096)), ENOENT)
                                 : fail(format_text("{}: not a readable file", printable(name, 4096)), EACCES);
    }
    auto python = find_python(environment);
    if (!python) {
        return tl::unexpected(python.error());
    }
    Command command{*python, {*python, "-u"}}; // unbuffered, so that the last output of a killed rank is not lost
    if (options.module) {
        command.arguments.emplace_back("-m");
    }
    command.arguments.insert(command.arguments.end(), program.program.begin(), program.program.end());
    return command;
}

Result<RankCommands> find_commands(const Options& options, const Environment& environment, unsigned world_size,
                                   unsigned first_rank, unsigned ranks) {
    const auto assigned = assign_programs(options.programs, world_size, first_rank, ranks);
    if (!assigned) {
        return tl::unexpected(assigned.error());
    }
    std::vector<Command> commands(options.programs.size());
    for (std::size_t i = 0; i < commands.size(); ++i) {
        if (std::find(assigned->begin(), assigned->end(), i) == assigned->end()) {
            continue; // this program runs on other nodes, and may exist only there
        }
        auto command = find_program(options.programs[i], options, environment);
        if (!command) {
            return tl::unexpected(command.error());
        }
        commands[i] = std::move(*command);
    }
    return RankCommands(std::move(commands), *assigned);
}

} // namespace rdma_nccl::run
