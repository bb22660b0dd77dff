// SPDX-License-Identifier: Apache-2.0
#include "lib/slurm/step.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

namespace rdma_nccl {

namespace {

using Words = std::span<const std::string>;

/// A program that starts ranks itself, and what makes each instance of it a world of its own. Sources: torch 2.9,
/// torch/distributed/run.py; accelerate of July 2026, commands/launch.py and utils/launch.py (it fills in torchrun's
/// options, so PET_* counts where it says nothing); DeepSpeed 0.18, launcher/runner.py; Composer of April 2026,
/// cli/launcher.py (without a world size it refuses a NODE_RANK other than 0).
struct Launcher {
    std::string_view name;    ///< of the command; empty: only a module
    std::string_view module;  ///< of python -m; empty: none
    std::string_view verb;    ///< its first argument when it starts ranks; empty: any
    std::string_view nodes;   ///< its option for the number of nodes
    std::string_view address; ///< its options for where the nodes meet, between blanks
    /// Options and a variable without one of which it takes its node alone; "-": its instances never meet by our
    /// variables; empty: they do.
    std::string_view joins;
};
constexpr std::string_view endpoint = "rdzv-endpoint master-addr";
constexpr auto launchers = std::to_array<Launcher>({
    {"torchrun", "torch.distributed.run", "", "nnodes", endpoint, ""},
    {"", "torch.distributed.launch", "", "nnodes", endpoint, ""},
    {"ft_launcher", "nvidia_resiliency_ext.fault_tolerance.launcher", "", "nnodes", endpoint, ""},
    {"torchrun_jsc", "torchrun_jsc", "", "nnodes", endpoint, ""},
    {"rdma-nccl", "", "run", "nnodes", "", ""},
    {"accelerate", "accelerate.commands.accelerate_cli", "launch", "num-machines", "main-process-ip", ""},
    {"accelerate-launch", "accelerate.commands.launch", "", "num-machines", "main-process-ip", ""},
    {"deepspeed", "deepspeed.launcher.runner", "", "num-nodes", "", "hostfile H"},
    {"composer", "composer.cli.launcher", "", "", "", "world-size WORLD_SIZE"},
    {"torchx", "", "", "", "", ""},
    {"torchrunx", "", "", "", "", ""},
    {"mpirun", "", "", "", "", "-"},
    {"mpiexec", "", "", "", "", "-"},
    {"horovodrun", "", "", "", "", "-"},
    {"ray", "", "", "", "", "-"},
});
constexpr auto daemons =
    std::to_array<std::string_view>({"orted", "prted", "hydra_pmi_proxy", "hydra_bstrap_proxy", "prrte"});
constexpr auto wrappers = std::to_array<std::string_view>(
    {"env", "numactl", "nice", "ionice", "time", "stdbuf", "timeout", "taskset", "exec", "setsid", "chrt", "nohup"});
/// Wrappers with words of any kind in front of the program.
constexpr auto runners = std::to_array<std::string_view>(
    {"apptainer", "singularity", "shifter", "sarus", "podman", "podman-hpc", "docker", "enroot", "ch-run", "conda",
     "mamba", "micromamba", "uv", "poetry", "pixi", "nsys", "ncu", "rocprof", "rocprofv3"});
constexpr auto shells = std::to_array<std::string_view>({"sh", "bash", "dash", "zsh", "ksh"});
/// Words in front of a command or an assignment.
constexpr auto keywords =
    std::to_array<std::string_view>({"if", "then", "elif", "else", "while", "until", "do", "!", "{", "eval", "command",
                                     "export", "local", "declare", "readonly"});
/// Variables that the plan will set: a script's own default for them does not count.
constexpr auto planned = std::to_array<std::string_view>({"MASTER_ADDR", "MASTER_PORT", "NNODES", "NODE_RANK"});

bool is_python(std::string_view name) {
    return name.starts_with("python") && name.substr(6).find_first_not_of("0123456789.") == std::string_view::npos;
}

/// Returns true if a word may name the program: it is not an option, NAME=VALUE, or numbers (nice 5, taskset 0-3).
bool may_be_program(std::string_view word) {
    return !word.empty() && word.front() != '-' && word.find('=') == std::string_view::npos &&
           word.find_first_not_of("0123456789.,-smhd") != std::string_view::npos;
}

// What makes a launcher a world of its own.

struct Option {
    std::string value;
    std::string written; ///< "--num_machines 1"
};

using Options = std::map<std::string, Option, std::less<>>;

/// Returns the options up to the program that the launcher starts, "--num_machines 1" as "num-machines". The word
/// behind a flag that is not in the list is taken for its value, unless it is a Python file.
Options options_of(Words words) {
    constexpr auto flags = std::to_array<std::string_view>({"standalone", "no-python", "run-path"});
    Options options;
    for (std::size_t i = 0; i < words.size() && words[i].starts_with('-'); ++i) {
        const auto [key, value] = split_once(words[i], '=');
        std::string name(key.substr(std::min(key.find_first_not_of('-'), key.size())));
        std::ranges::replace(name, '_', '-');
        if (name.empty() || name == "m" || name == "module") {
            break;
        }
        Option option{std::string(value.value_or("")), words[i]};
        const std::string_view next = i + 1 < words.size() ? std::string_view(words[i + 1]) : "-";
        if (!value && !contains(flags, name) && !next.starts_with('-') && !next.ends_with(".py")) {
            option = {words[i + 1], format_text("{} {}", words[i], next)};
            ++i;
        }
        options.insert_or_assign(std::move(name), std::move(option));
    }
    return options;
}

bool is_one_node(std::string_view nodes) {
    return nodes == "1" || nodes == "1:1";
}

bool is_loopback(std::string_view address) {
    return address.starts_with("localhost") || address.starts_with("127.") || address.starts_with("[::1]") ||
           address == "::1";
}

/// Returns "PET_NNODES=1", or whichever of the user's variables makes torchrun, or what is built on it, take its node
/// alone; else an empty text.
std::string alone_by_environment(const Launcher& launcher, const Environment& environment) {
    const bool meets_at_address = !launcher.address.empty() && !environment.get_users("PET_NNODES");
    for (const std::string_view name :
         {"PET_NNODES", "PET_STANDALONE", "PET_RDZV_ENDPOINT", "PET_MASTER_ADDR", "MASTER_ADDR"}) {
        const auto value = environment.get_users(name).value_or("");
        const bool is_address = name.ends_with("ENDPOINT") || name.ends_with("ADDR");
        if (is_address ? meets_at_address && is_loopback(value) : is_one_node(value)) {
            return format_text("{}={}", name, value);
        }
    }
    return "";
}

/// Returns what makes this launcher take its node alone, "--nnodes=1"; an empty text if nothing does.
std::string why_alone(const Launcher& launcher, const Options& options, const Environment& environment) {
    const auto joins = split_words(launcher.joins);
    const auto is_given = [&](std::string_view name) { // "world-size" or "WORLD_SIZE"
        return options.contains(name) || environment.get_users(name);
    };
    if (!joins.empty() && std::ranges::none_of(joins, is_given)) {
        return format_text("without --{}", joins.front());
    }
    if (options.contains("standalone")) {
        return "--standalone";
    }
    const auto nodes = options.find(launcher.nodes);
    const bool counts = nodes != options.end();
    if (counts && nodes->second.value.find('$') == std::string::npos) { // else it may be the plan's NNODES
        return is_one_node(nodes->second.value) ? nodes->second.written : "";
    }
    for (const auto name : split_words(launcher.address)) {
        if (const auto address = options.find(name); address != options.end()) {
            return is_loopback(address->second.value) ? address->second.written : "";
        }
    }
    return joins.empty() && !launcher.nodes.empty() && !counts ? alone_by_environment(launcher, environment) : "";
}

/// Returns true if the launcher is told that there are other nodes: "--nnodes=2", "PET_NODE_RANK=1". Of "2:4" the
/// least counts. A launcher that starts the nodes of a hostfile itself may be told of several.
bool names_others(const Launcher& launcher, const Options& options, const Environment& environment) {
    const auto number = [&](std::string_view option, std::string_view variable) {
        const auto found = options.find(option);
        const auto text = found != options.end() ? found->second.value : environment.get_users(variable).value_or("");
        return parse_number<unsigned>(split_once(text, ':').key).value_or(0);
    };
    return (launcher.joins.empty() && !launcher.nodes.empty() && number(launcher.nodes, "PET_NNODES") > 1) ||
           number("node-rank", "PET_NODE_RANK") > 0 || number("machine-rank", "") > 0;
}

// What a command line starts.

/// `name`: as it was written; `arguments`: behind it.
Program started(const Launcher& launcher, std::string_view name, Words arguments, const Environment& environment) {
    Program program{ProgramKind::Launcher, std::string(name)};
    program.meets = launcher.joins != "-";
    const std::size_t verbs = launcher.verb.empty() || arguments.empty() ? 0 : 1;
    const auto options = options_of(arguments.subspan(verbs));
    const auto why = program.meets ? why_alone(launcher, options, environment) : "";
    program.alone = !program.meets ? program.name : why.empty() ? "" : printable(format_text("{} {}", name, why));
    program.names_others = program.alone.empty() && names_others(launcher, options, environment);
    return program;
}

const Launcher* find_launcher(std::string_view name, Words arguments) {
    const auto* const found = name.empty() ? nullptr : find_by(launchers, &Launcher::name, name);
    const bool starts =
        found != nullptr && (found->verb.empty() || (!arguments.empty() && arguments.front() == found->verb));
    return starts ? found : nullptr;
}

Program python_program(Words arguments, const Environment& environment) {
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        const auto rest = arguments.subspan(i + 1);
        if (arguments[i] == "-m") {
            const auto module = rest.empty() ? "" : rest.front();
            const auto* const known = module.empty() ? nullptr : find_by(launchers, &Launcher::module, module);
            return known != nullptr ? started(*known, module, rest.subspan(1), environment) : Program{};
        }
        if (arguments[i] == "-X" || arguments[i] == "-W") {
            ++i;                                     // and its value
        } else if (!arguments[i].starts_with('-')) { // python /usr/bin/torchrun ...
            const auto name = base_name(arguments[i]);
            const auto* const known = find_launcher(name, rest);
            return known != nullptr ? started(*known, name, rest, environment) : Program{};
        }
    }
    return {};
}

/// What is left to spend on one program: in slurmstepd, texts of a user's may grow by variables and lead to each other.
struct Allowance {
    unsigned texts = 16; ///< each has the variables that it knows
    std::size_t characters = std::size_t{1} << 20;
    unsigned files = 8;
    const ReadScript& read; ///< empty: no file is read
};

/// The simple commands of a shell's text (sh(1p), Shell Grammar), as far as it takes to see what they start: without
/// comments and quotes, with the variables that are known. Other substitutions stay as they are written.
class ShellText {
public:
    ShellText(std::string_view text, Environment known, Allowance& allowance)
        : text_(text), known_(std::move(known)), allowance_(allowance) {}

    /// Returns the words of the next command that starts something; none at the end.
    std::vector<std::string> next() {
        words_.clear();
        while (at_ < text_.size() && allowance_.characters > 0) {
            if (take(text_[at_++]) && !is_assignment()) {
                return std::move(words_);
            }
        }
        end_word();
        return is_assignment() ? std::vector<std::string>() : std::move(words_);
    }
    [[nodiscard]] const Environment& known() const { return known_; }
    /// Returns true if a variable of the plan has been used, which the text itself does not set.
    [[nodiscard]] bool uses_plan() const { return uses_plan_; }

private:
    /// Returns true at the end of a command.
    bool take(char c) {
        if (c == '\\' && quote_ != '\'' && at_ < text_.size()) {
            if (const char escaped = text_[at_++]; escaped != '\n') { // else the line goes on
                add(escaped);
            }
        } else if (c == '$' && quote_ != '\'') {
            expand();
        } else if (quote_ != 0 && c == quote_) {
            quote_ = 0;
        } else if (quote_ == 0 && (c == '\'' || c == '"')) {
            quote_ = c;
            in_word_ = true;
        } else if (quote_ == 0 && c == '#' && !in_word_) {
            at_ = std::min(text_.find('\n', at_), text_.size());
        } else if (quote_ == 0 && std::string_view(" \t\r\n;&|()`").find(c) != std::string_view::npos) {
            return separate(c);
        } else {
            add(c);
        }
        return false;
    }

    bool separate(char c) {
        if (c == '(' && word_.ends_with('=')) { // NAME=(WORD ...)
            array_ = std::exchange(word_, {});
            array_.back() = '[';
            in_word_ = false;
            words_.clear(); // declare -a
            return false;
        }
        end_word();
        if (std::string_view(" \t\r").find(c) != std::string_view::npos || (!array_.empty() && c != ')')) {
            return false;
        }
        if (!array_.empty()) {
            known_.set(std::exchange(array_, {}) + "@]", joined(words_, " "));
            words_.clear();
        } else if (c == ')' && open_ == 0) { // a pattern: case $LAUNCHER in torchrun) ...
            words_.clear();
        }
        open_ = c == '(' ? open_ + 1 : c == ')' && open_ > 0 ? open_ - 1 : open_;
        return true;
    }

    void add(char c) {
        if (allowance_.characters > 0) {
            --allowance_.characters;
            word_ += c;
        }
        in_word_ = true;
    }

    void end_word() {
        if (std::exchange(in_word_, false)) {
            words_.push_back(std::exchange(word_, {}));
        }
    }

    /// Adds the value of $NAME, ${NAME}, ${NAME[@]} or ${NAME:-OTHERWISE}, or X for $(which X); else what is written.
    void expand() {
        const auto rest = text_.substr(at_);
        const auto size = length_of_name(rest);
        at_ += size;
        const bool braced = rest.starts_with('{');
        const auto written = rest.substr(0, size);
        const auto [name, otherwise] = split_once(braced && size > 1 ? written.substr(1, size - 2) : written, ':');
        auto value = known_.get_users(name).value_or("");
        uses_plan_ = uses_plan_ || (value.empty() && contains(planned, name));
        if (value.empty() && braced && otherwise && otherwise->starts_with('-') && !contains(planned, name)) {
            value = otherwise->substr(1);
        }
        for (const std::string_view finds : {"(which ", "(command -v "}) {
            if (written.starts_with(finds) && written.ends_with(')')) {
                value = written.substr(finds.size(), size - finds.size() - 1);
            }
        }
        const bool splits = quote_ == 0 || name.find('@') != std::string_view::npos;
        for (const char c : value.empty() ? format_text("${}", written) : value) {
            if (allowance_.characters == 0) {
                break;
            }
            if (c == ' ' && splits && !value.empty()) {
                --allowance_.characters;
                end_word();
            } else {
                add(c);
            }
        }
    }

    /// `text`: behind a "$". A name that does not end soon has no length.
    static std::size_t length_of_name(std::string_view text) {
        text = text.substr(0, 256);
        if (text.starts_with('{')) {
            return text.find('}') + 1; // npos + 1 is 0
        }
        std::size_t open = 0;
        for (std::size_t i = 0; text.starts_with('(') && i < text.size(); ++i) {
            open = text[i] == '(' ? open + 1 : text[i] == ')' ? open - 1 : open;
            if (open == 0) {
                return i + 1;
            }
        }
        return text.starts_with('@') ? 1 : std::min(text.find_first_not_of(name_characters), text.size());
    }

    /// Keeps the assignments and keywords at the front of the words in mind; returns true if there is nothing else.
    bool is_assignment() {
        std::size_t count = 0;
        for (; count < words_.size(); ++count) {
            const auto [name, value] = split_once(words_[count], '=');
            if (value && !name.empty() && name.find_first_not_of(name_characters) == std::string_view::npos) {
                known_.set(std::string(name), std::string(*value));
            } else if (!contains(keywords, words_[count])) {
                break;
            }
        }
        words_.erase(words_.begin(), words_.begin() + static_cast<std::ptrdiff_t>(count));
        return words_.empty();
    }

    static constexpr std::string_view name_characters =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";
    std::string_view text_;
    Environment known_;
    Allowance& allowance_;
    std::size_t at_ = 0;
    char quote_ = 0;
    std::size_t open_ = 0; ///< parentheses
    bool in_word_ = false;
    bool uses_plan_ = false;
    std::string word_;
    std::string array_; ///< "NAME[" in one
    std::vector<std::string> words_;
};

Program classify_command(Words argv, const Environment& environment, Allowance& allowance);

bool starts_python(Words words) {
    return std::ranges::any_of(words, [](const std::string& word) { return is_python(base_name(word)); });
}

/// Returns the first launcher that a shell's text starts. It is alone, or names others, only if all of them do. One
/// that never meets by our variables does so if the text hands them to it. A script that ends in Python may do so in
/// place of the launcher (if ... else), or after it has tried something (ray stop, torchrun smoke.py): what it is
/// cannot be told.
Program shell_text_program(std::string_view text, const Environment& environment, Allowance& allowance,
                           bool is_script) {
    if (allowance.texts == 0) {
        return {};
    }
    --allowance.texts;
    ShellText shell(text, environment, allowance);
    std::optional<Program> first;
    bool another_meets = false;
    bool ends_in_python = false;
    for (auto words = shell.next(); !words.empty(); words = shell.next()) {
        auto program = classify_command(words, shell.known(), allowance);
        const bool starts = program.kind == ProgramKind::Launcher;
        ends_in_python = !starts && (ends_in_python || starts_python(words));
        if (starts && !first) {
            first = std::move(program);
        } else if (starts) {
            first->names_others = first->names_others && program.names_others;
            another_meets = another_meets || program.alone.empty();
        }
    }
    if (is_script && ends_in_python) {
        return {};
    }
    if (first && (another_meets || (!first->meets && shell.uses_plan()))) { // ray start --address=$MASTER_ADDR:6379
        first->meets = true;
        first->alone.clear();
    }
    return first.value_or(Program());
}

Program shell_program(Words arguments, const Environment& environment, Allowance& allowance) {
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        const std::string_view word = arguments[i];
        const bool letters = word.starts_with('-') && !word.starts_with("--");
        if (letters && word.ends_with('c') && i + 1 < arguments.size()) { // -c, -lc, -ec
            return shell_text_program(arguments[i + 1], environment, allowance, false);
        }
        if (letters && word.ends_with('o')) {
            ++i; // -euo pipefail
        } else if (!word.starts_with('-')) {
            return {.script = arguments[i]};
        }
    }
    return {};
}

Program classify(Words argv, const Environment& environment, Allowance& allowance) {
    bool wrapped = false;
    bool anywhere = false;
    for (std::size_t i = 0; i < argv.size(); ++i) {
        const std::string_view name = base_name(argv[i]);
        const Words rest = argv.subspan(i + 1);
        if (contains(daemons, name)) {
            return {ProgramKind::RuntimeDaemon, std::string(name)};
        }
        const auto* const launcher = find_launcher(name, rest);
        // Behind an option of a runner it may be a name: conda run -n deepspeed python x.py.
        const bool is_value = launcher != nullptr && anywhere && argv[i - 1].starts_with('-') &&
                              argv[i - 1].find('=') == std::string::npos &&
                              (launcher->joins == "-" || starts_python(rest));
        if (launcher != nullptr && !is_value) {
            return started(*launcher, name, rest, environment);
        }
        if (is_python(name)) {
            return python_program(rest, environment);
        }
        if (contains(shells, name)) {
            return shell_program(rest, environment, allowance);
        }
        if (contains(runners, name)) {
            anywhere = true;
        } else if (contains(wrappers, name)) {
            wrapped = true;
        } else if (!anywhere && (!wrapped || may_be_program(argv[i]))) {
            return {.script = name.size() < argv[i].size() ? argv[i] : ""}; // a path
        }
    }
    return {};
}

/// Classifies a command, and the text of the script that it is.
Program classify_command(Words argv, const Environment& environment, Allowance& allowance) {
    Program program = classify(argv, environment, allowance);
    const bool found_before = program.kind != ProgramKind::Ordinary;
    if (found_before || program.script.empty() || !allowance.read || allowance.files == 0) {
        return program;
    }
    --allowance.files;
    const auto text = allowance.read(program.script);
    const auto first_line = text.substr(0, text.find('\n'));
    const auto interpreter = split_words(first_line.starts_with("#!") ? std::string_view(first_line).substr(2) : "");
    const bool is_shell = interpreter.empty() || std::ranges::any_of(interpreter, [](std::string_view word) {
                              return contains(shells, base_name(word));
                          });
    if (!is_shell) {
        return program;
    }
    Environment known = environment;
    const auto own = std::ranges::find(argv, program.script);
    known.set("@", joined(Words(own == argv.end() ? own : own + 1, argv.end()), " "));
    Program found = shell_text_program(text, known, allowance, true);
    found.script = program.script;
    found.name = format_text("{} in {}", found.name, printable(base_name(program.script)));
    return found.kind == ProgramKind::Launcher ? found : program;
}

} // namespace

Program classify_program(Words argv, const Environment& environment, const ReadScript& read) {
    Allowance allowance{.read = read};
    return classify_command(argv, environment, allowance);
}

} // namespace rdma_nccl
