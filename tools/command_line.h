// SPDX-License-Identifier: Apache-2.0
// Commands and their options. CLI11 reads the line and writes the help, in command_line.cpp alone: its header takes
// longer to compile than most files that would include it.
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

/// An option of a command, while it is described; valid as long as the program's line.
class CommandOption {
public:
    explicit CommandOption(CLI::Option* option) : option_(option) {}

    // NOLINTBEGIN(modernize-use-nodiscard): each describes more of the option, and gives it back for the next
    /// What the help calls its value.
    CommandOption type_name(const char* name) const;
    CommandOption not_empty() const; ///< a script's unset variable is refused
    CommandOption one_of(const std::vector<std::string>& words) const;
    /// Number: an arithmetic type that Subcommand::option() accepts.
    template<typename Number>
    CommandOption range(Number least, Number most) const;
    /// Gives the problem, or "".
    CommandOption check(std::function<std::string(const std::string& text)> problem) const;
    /// Likewise; may change the text.
    CommandOption transform(std::function<std::string(std::string& text)> problem) const;
    CommandOption shows_default() const;                          ///< the help has the variable's value
    CommandOption optional_value(const std::string& value) const; ///< what it is where none is given
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

/// A command, while it is described; valid as long as the program's line.
class Subcommand {
public:
    explicit Subcommand(CLI::App* app) : app_(app) {}

    /// `names`: "-n,--count"; without dashes: a positional argument. T: std::string, double, int, unsigned,
    /// std::uint64_t, an optional of string or unsigned, a vector of string or unsigned. `value` outlives the line.
    template<typename T>
    CommandOption option(const std::string& names, T& value, const std::string& help) const;
    CommandOption flag(const std::string& names, bool& value, const std::string& help) const;
    /// A number; help shows its default.
    template<typename T>
    CommandOption number(const std::string& names, T& value, const char* help, T least, T most,
                         const char* type = "N") const {
        return option(names, value, help).type_name(type).range(least, most).shows_default();
    }

    [[nodiscard]] Subcommand subcommand(const char* name, const char* help) const;
    /// Options of which one may be given.
    [[nodiscard]] Subcommand alternatives(const char* heading, const char* help) const;
    /// From here on, new options may be given repeatedly (the last counts) or only once.
    void let_last_count(bool last) const;
    /// Leaves what follows this command's name unparsed.
    void leave_the_rest() const;
    void on_run(std::function<void()> action) const;

private:
    CLI::App* app_;
};

/// A program's command line.
class CommandLine {
public:
    explicit CommandLine(const std::string& help);
    CommandLine(const CommandLine&) = delete;
    CommandLine& operator=(const CommandLine&) = delete;
    ~CommandLine();

    [[nodiscard]] Subcommand command() const;
    [[nodiscard]] std::string help(const std::string& name) const;
    void add_version(const std::string& version);
    /// Runs the subcommand that the line names. 0, also for --help and --version; 2: bad line, reported. Throws
    /// what the subcommand throws.
    int run(int argc, char** argv);

private:
    std::unique_ptr<CLI::App> app_;
};

/// For commands: makes CommandLine::run() report a bad line.
[[noreturn]] void refuse_option(const std::string& name, const std::string& problem);

} // namespace rdma_nccl
