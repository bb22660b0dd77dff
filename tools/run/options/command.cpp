// SPDX-License-Identifier: Apache-2.0
#include "tools/run/options/options.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "tools/run/options/option_table.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <sys/stat.h>
#include <unistd.h>

namespace rdma_nccl::run {

namespace {

using Arguments = std::span<const std::string>;

/// srun takes a word ":", wherever it stands, for its own separator of the components of a heterogeneous step (srun(1),
/// SYNOPSIS), so there is a second word.
constexpr auto separators = std::to_array<std::string_view>({"--and", ":"});

/// Returns the words of one program. Words of colons lose the colon that escapes them.
std::vector<std::string> arguments_of(Arguments args) {
    std::vector<std::string> arguments(args.begin(), args.end());
    for (auto& argument : arguments) {
        if (!argument.empty() && argument.find_first_not_of(':') == std::string::npos) {
            argument.pop_back();
        }
    }
    return arguments;
}

/// Parses "[--rank RANGES] [--] PROGRAM ARGS".
Result<RankProgram> read_part(Arguments args) {
    RankProgram part;
    std::optional<std::string_view> ranks;
    if (!args.empty() && args.front() == "--rank") {
        ranks = args.size() > 1 ? args[1] : std::string_view();
        args = args.subspan(std::min<std::size_t>(2, args.size()));
    } else if (!args.empty() && args.front().starts_with("--rank=")) {
        ranks = split_once(args.front(), '=').value;
        args = args.subspan(1);
    }
    if (ranks) {
        auto ranges = parse_rank_ranges(*ranks);
        if (!ranges) {
            return fail(format_text("--rank \"{}\": {}", printable(*ranks), ranges.error().message));
        }
        part.ranks = std::move(*ranges);
    }
    if (!args.empty() && args.front() == "--") {
        args = args.subspan(1);
    } else if (!args.empty() && args.front().starts_with('-')) {
        return fail(format_text("{}: behind --and only --rank may stand in front of the program; other options hold "
                                "for all, and stand before the first",
                                printable(args.front())));
    }
    if (args.empty()) {
        return fail(R"(no program behind --and or ":"; as an argument of a program, ":" is written "::", and --and )"
                    "stands in sh -c 'PROGRAM --and'");
    }
    part.command_line = arguments_of(args);
    return part;
}

struct Owned {
    RankRange range;
    std::size_t program = 0;
};

std::string range_text(const RankRange& range) {
    return range.first == range.second ? format_text("rank {}", range.first)
                                       : format_text("ranks {}-{}", range.first, range.second);
}

std::string program_name(const RankProgram& program) {
    return printable(program.command_line.front());
}

/// Returns the ranks that are not in `owned`, which must be sorted.
std::vector<RankRange> left_over(const std::vector<Owned>& owned, unsigned world_size) {
    std::vector<RankRange> gaps;
    unsigned next = 0;
    for (const auto& each : owned) {
        if (each.range.first > next) {
            gaps.emplace_back(next, each.range.first - 1);
        }
        next = each.range.second + 1;
    }
    if (next < world_size) {
        gaps.emplace_back(next, world_size - 1);
    }
    return gaps;
}

/// Returns all named ranges in order. Fails if a rank is named twice or is outside of the world.
Result<std::vector<Owned>> named_ranks(const std::vector<RankProgram>& programs, unsigned world_size) {
    std::vector<Owned> owned;
    for (std::size_t i = 0; i < programs.size(); ++i) {
        for (const auto& range : programs[i].ranks) {
            owned.push_back({range, i});
        }
    }
    std::ranges::sort(owned, {}, &Owned::range);
    for (std::size_t i = 0; i + 1 < owned.size(); ++i) {
        if (owned[i + 1].range.first <= owned[i].range.second) {
            const RankRange twice{owned[i + 1].range.first, std::min(owned[i].range.second, owned[i + 1].range.second)};
            return fail(format_text("{} would run both {} and {}: name each rank once", range_text(twice),
                                    program_name(programs[owned[i].program]),
                                    program_name(programs[owned[i + 1].program])));
        }
    }
    if (!owned.empty() && owned.back().range.second >= world_size) {
        return fail(format_text("--rank names rank {} for {}, but the world has ranks 0 to {} only",
                                owned.back().range.second, program_name(programs[owned.back().program]),
                                world_size - 1));
    }
    return owned;
}

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
    const bool is_path = name.find('/') != std::string::npos;
    for (const auto directory : split(is_path ? std::string_view() : path, ':')) {
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
    const std::string_view what = problem == EACCES ? "not an executable file (a Python program that is not named *.py "
                                                      "needs chmod +x and a #! line)"
                                  : is_path         ? "no such program"
                                                    : "no such program in PATH";
    return fail(format_text("{}: {}", printable(name, 4096), what), problem);
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

Result<std::vector<RankProgram>> split_programs(Arguments args, std::vector<RankRange> first) {
    if (first.empty()) {
        return std::vector{RankProgram{{}, {args.begin(), args.end()}}};
    }
    const auto next_separator = [&args](std::size_t from) {
        const auto rest = args.subspan(from);
        return from + static_cast<std::size_t>(std::ranges::find_first_of(rest, separators) - rest.begin());
    };
    std::size_t end = next_separator(0);
    if (end == 0) {
        return fail(R"(no program in front of --and or ":")");
    }
    std::vector<RankProgram> programs{{std::move(first), arguments_of(args.first(end))}};
    while (end < args.size()) {
        const std::size_t begin = end + 1;
        end = next_separator(begin);
        auto part = read_part(args.subspan(begin, end - begin));
        if (!part) {
            return tl::unexpected(part.error());
        }
        programs.push_back(std::move(*part));
    }
    const auto rest =
        std::partition(programs.begin(), programs.end(), [](const auto& each) { return !each.ranks.empty(); });
    if (programs.end() - rest > 1) {
        return fail(format_text("{} and {} are both for the ranks that no --rank names: give one of them --rank",
                                program_name(*rest), program_name(*std::next(rest))));
    }
    return programs;
}

Result<std::vector<std::size_t>> assign_programs(const std::vector<RankProgram>& programs, unsigned world_size,
                                                 unsigned first_rank, unsigned count) {
    const auto rest = std::ranges::find(programs, std::vector<RankRange>(), &RankProgram::ranks);
    const auto owned = named_ranks(programs, world_size);
    if (!owned) {
        return tl::unexpected(owned.error());
    }
    const auto gaps = left_over(*owned, world_size);
    if (rest == programs.end() && !gaps.empty()) {
        return fail(format_text("{} {} no program: name {} with --rank, or end with --and PROGRAM for the rest "
                                "(srun takes a word \":\" for itself)",
                                range_text(gaps.front()), gaps.front().first == gaps.front().second ? "has" : "have",
                                gaps.size() == 1 ? "them" : "these and others"));
    }
    if (rest != programs.end() && gaps.empty()) {
        return fail(format_text("no rank is left for {}: all {} are named by --rank", program_name(*rest), world_size));
    }
    std::vector<std::size_t> assigned(count, static_cast<std::size_t>(rest - programs.begin()));
    for (const auto& [range, program] : *owned) {
        const unsigned last = std::min(range.second, first_rank + count - 1);
        for (unsigned rank = std::max(range.first, first_rank); rank <= last && count > 0; ++rank) {
            assigned[rank - first_rank] = program;
        }
    }
    return assigned;
}

Result<Command> find_program(const RankProgram& program, const Options& options, const Environment& environment) {
    const std::string& name = program.command_line.front();
    const bool is_file = options.run_path || (!options.no_python && name.ends_with(".py"));
    if (!options.module && !is_file) {
        return find_executable(name, environment).map([&program](std::string file) {
            return Command{std::move(file), program.command_line};
        });
    }
    if (const int error = options.module ? 0 : access_error(name, R_OK); error != 0) {
        const bool missing = is_missing(error);
        return fail(format_text("{}: {}", printable(name, 4096), missing ? "no such file" : "not a readable file"),
                    missing ? ENOENT : EACCES);
    }
    auto python = find_python(environment);
    if (!python) {
        return tl::unexpected(python.error());
    }
    Command command{*python, {*python, "-u"}}; // unbuffered, so that the last output of a killed rank is not lost
    if (options.module) {
        command.arguments.emplace_back("-m");
    }
    append(command.arguments, program.command_line);
    return command;
}

Result<std::vector<Command>> find_commands(const Options& options, const Environment& environment, unsigned world_size,
                                           unsigned first_rank, unsigned ranks) {
    const auto assigned = assign_programs(options.programs, world_size, first_rank, ranks);
    if (!assigned) {
        return tl::unexpected(assigned.error());
    }
    std::map<std::size_t, Command> found; // the other programs run on other nodes, and may exist only there
    for (const auto program : std::set(assigned->begin(), assigned->end())) {
        auto command = find_program(options.programs[program], options, environment);
        if (!command) {
            return tl::unexpected(command.error());
        }
        found.emplace(program, std::move(*command));
    }
    return mapped(*assigned, [&found](std::size_t program) { return found.at(program); });
}

} // namespace rdma_nccl::run
