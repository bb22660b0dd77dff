// SPDX-License-Identifier: Apache-2.0
// Commands, their options and exit codes. CLI11 parses the command line and writes the help. Only command_line.cpp
// includes its header, which takes longer to compile than most files that would include it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
} // namespace CLI

namespace rdma_nccl {

// Exit codes of subcommands (rdma-nccl(1), EXIT STATUS)
inline constexpr int exit_good = 0;
inline constexpr int exit_warning = 1;
inline constexpr int exit_critical = 2; ///< nothing is usable
inline constexpr int exit_bad_line = 2; ///< invalid command line
inline constexpr int exit_cannot_tell = 3;

/// Describes an option of a command. Valid as long as the CommandLine.
class CommandOption {
public:
    explicit CommandOption(CLI::Option* option) : option_(option) {}

    // NOLINTBEGIN(modernize-use-nodiscard): each describes more of the option, and gives it back for the next
    /// Sets the name of the value in the help.
    CommandOption type_name(const char* name) const;
    CommandOption not_empty() const;                                   ///< e.g. refuses an unset variable of a script
    CommandOption one_of(const std::vector<std::string>& words) const; ///< the help shows "all|quick|ring"
    /// `Number` is an arithmetic type that Subcommand::option() accepts.
    template<typename Number>
    CommandOption range(Number least, Number most) const;
    /// `problem` returns an error message, or "".
    CommandOption check(std::function<std::string(const std::string& text)> problem) const;
    /// Like check(), but may change the text.
    CommandOption transform(std::function<std::string(std::string& text)> problem) const;
    CommandOption shows_default() const;                          ///< the help shows the variable's value
    CommandOption optional_value(const std::string& value) const; ///< the value if the option is given without one
    CommandOption many_values() const;
    CommandOption values_with_commas() const;
    CommandOption excludes(const CommandOption& other) const;
    CommandOption needs(const CommandOption& other) const;
    CommandOption group(const std::string& heading) const; ///< in the help
    CommandOption hidden() const { return group(""); }     ///< not in the help
    CommandOption when_given(std::function<void()> action) const;
    // NOLINTEND(modernize-use-nodiscard)

    [[nodiscard]] bool is_given() const;

private:
    CLI::Option* option_;
};

/// An option as the help of a command lists it.
struct ListedOption {
    std::vector<std::string> names; ///< "-n", "--count"; empty: a positional argument
    std::string type;               ///< of the value: "FILE", "v1|v2", "[K]" if it may be left out; empty: a flag
    std::string help;
    bool many_values = false;
};

/// Describes a command. Valid as long as the CommandLine.
class Subcommand {
public:
    explicit Subcommand(CLI::App* app) : app_(app) {}

    /// Adds an option. `names`: "-n,--count"; a name without dashes is a positional argument. T: std::string, double,
    /// int, unsigned, std::uint64_t, an optional of string or unsigned, a vector of string or unsigned. `value` must
    /// outlive the CommandLine.
    template<typename T>
    CommandOption option(const std::string& names, T& value, const std::string& help) const;
    CommandOption flag(const std::string& names, bool& value, const std::string& help) const;
    /// Adds an option that another parser reads; an empty `type` makes it a flag.
    [[nodiscard]] CommandOption listed(const std::string& names, const std::string& type,
                                       const std::string& help) const;
    /// Adds a number whose default is shown in the help.
    template<typename T>
    CommandOption number(const std::string& names, T& value, const char* help, T least, T most,
                         const char* type = "N") const {
        return option(names, value, help).type_name(type).range(least, most).shows_default();
    }

    [[nodiscard]] Subcommand subcommand(const char* name, const char* help) const;
    /// A group of options of which only one may be given.
    [[nodiscard]] Subcommand alternatives(const char* heading, const char* help) const;
    /// Options added after this may be given repeatedly (the last one counts) or only once.
    void let_last_count(bool last) const;
    /// Leaves the arguments after this command's name unparsed.
    void leave_the_rest() const;
    void on_run(std::function<void()> action) const;

    // What the help lists.
    [[nodiscard]] std::string name() const;
    [[nodiscard]] std::string help() const;
    [[nodiscard]] std::vector<Subcommand> subcommands() const;
    [[nodiscard]] std::vector<ListedOption> options() const;

private:
    CLI::App* app_;
};

/// The command line of a program.
class CommandLine {
public:
    explicit CommandLine(const std::string& help);
    CommandLine(const CommandLine&) = delete;
    CommandLine& operator=(const CommandLine&) = delete;
    ~CommandLine();

    [[nodiscard]] Subcommand command() const;
    [[nodiscard]] std::string help(const std::string& name) const;
    void add_version(const std::string& version);
    /// Runs the subcommand named on the command line. Returns 0, also for --help and --version; 2 for a bad command
    /// line, after reporting it. Throws what the subcommand throws.
    int run(int argc, char** argv);

private:
    std::unique_ptr<CLI::App> app_;
};

/// Called by commands; makes CommandLine::run() report a bad command line.
[[noreturn]] void refuse_option(const std::string& name, const std::string& problem);

// Each subcommand registers itself. Running it sets `exit_code` as in rdma-nccl(1), EXIT STATUS, unless its own header
// or manual page says otherwise.
void add_check_command(const Subcommand& app, int& exit_code);   ///< is this node ready for RDMA?
void add_env_command(const Subcommand& app, int& exit_code);     ///< prints the variables for interactive shells
void add_explain_command(const Subcommand& app, int& exit_code); ///< prints the plan of this node with its reasons
void add_gids_command(const Subcommand& app, int& exit_code);    ///< prints the GID tables of this node
void add_hang_command(const Subcommand& app, int& exit_code);    ///< for which rank a step waits; 1: for one or more
void add_order_command(const Subcommand& app, int& exit_code);   ///< prints a job's nodes in the network's order
void add_top_command(const Subcommand& app, int& exit_code);     ///< shows live traffic over RDMA and over sockets
void add_topo_command(const Subcommand& app, int& exit_code);    ///< prints distances and places of ranks; 1: warnings
void add_verify_command(const Subcommand& app, int& exit_code);  ///< 0 USED or IDLE, 1 MIXED, 2 NOT USED, 3 UNKNOWN

/// Adds the options of `rdma-nccl run` for the help and for completion.
void list_run_options(const Subcommand& command);

/// Runs `rdma-nccl run`; `arguments` are the words after "run". CLI11 does not parse them: everything after PROGRAM
/// belongs to the program, but CLI11 would interpret words that look like a subcommand ("run ./a check") or a list
/// ("[1,2]"). Returns the exit code: that of the first rank that failed; 128 + n if signal n ended that rank or the
/// job; 127 or 126 if the program is not found or not executable; 2 for an error on the command line or in a variable;
/// 1 for a failure of the launcher itself.
int run_command(const std::vector<std::string>& arguments);

} // namespace rdma_nccl
