// SPDX-License-Identifier: Apache-2.0
#include "tools/common/command_line.h"

#include "lib/base/lists.h"
#include "lib/base/text.h"

#include <CLI/CLI.hpp>

namespace rdma_nccl {

CommandOption CommandOption::type_name(const char* name) const {
    return CommandOption(option_->type_name(name));
}

CommandOption CommandOption::not_empty() const {
    return check([](const std::string& text) { return text.empty() ? "the value is empty" : ""; });
}

CommandOption CommandOption::one_of(const std::vector<std::string>& words) const {
    // The description would stand behind the type in the help.
    return CommandOption(option_->type_name(joined(words, "|"))->check(CLI::IsMember(words).description("")));
}

template<typename Number>
CommandOption CommandOption::range(Number least, Number most) const {
    return CommandOption(option_->check(CLI::Range(least, most)));
}
template CommandOption CommandOption::range(double, double) const;
template CommandOption CommandOption::range(int, int) const;
template CommandOption CommandOption::range(unsigned, unsigned) const;
template CommandOption CommandOption::range(std::uint64_t, std::uint64_t) const;

CommandOption CommandOption::check(std::function<std::string(const std::string& text)> problem) const {
    return CommandOption(option_->check(CLI::Validator(std::move(problem), "")));
}

CommandOption CommandOption::transform(std::function<std::string(std::string& text)> problem) const {
    return CommandOption(option_->transform(CLI::Validator(std::move(problem), "")));
}

CommandOption CommandOption::shows_default() const {
    return CommandOption(option_->capture_default_str());
}

CommandOption CommandOption::optional_value(const std::string& value) const {
    return CommandOption(option_->expected(0, 1)->default_str(value));
}

CommandOption CommandOption::many_values() const {
    return CommandOption(option_->expected(-1));
}

CommandOption CommandOption::values_with_commas() const {
    return CommandOption(option_->delimiter(','));
}

CommandOption CommandOption::excludes(const CommandOption& other) const {
    return CommandOption(option_->excludes(other.option_));
}

CommandOption CommandOption::needs(const CommandOption& other) const {
    return CommandOption(option_->needs(other.option_));
}

CommandOption CommandOption::group(const std::string& heading) const {
    return CommandOption(option_->group(heading));
}

CommandOption CommandOption::when_given(std::function<void()> action) const {
    return CommandOption(option_->each([action = std::move(action)](const std::string& /*text*/) { action(); }));
}

bool CommandOption::is_given() const {
    return option_->count() > 0;
}

template<typename T>
CommandOption Subcommand::option(const std::string& names, T& value, const std::string& help) const {
    return CommandOption(app_->add_option(names, value, help));
}
template CommandOption Subcommand::option(const std::string&, std::string&, const std::string&) const;
template CommandOption Subcommand::option(const std::string&, double&, const std::string&) const;
template CommandOption Subcommand::option(const std::string&, int&, const std::string&) const;
template CommandOption Subcommand::option(const std::string&, unsigned&, const std::string&) const;
template CommandOption Subcommand::option(const std::string&, std::uint64_t&, const std::string&) const;
template CommandOption Subcommand::option(const std::string&, std::optional<std::string>&, const std::string&) const;
template CommandOption Subcommand::option(const std::string&, std::optional<unsigned>&, const std::string&) const;
template CommandOption Subcommand::option(const std::string&, std::optional<std::uint64_t>&, const std::string&) const;
template CommandOption Subcommand::option(const std::string&, std::vector<std::string>&, const std::string&) const;
template CommandOption Subcommand::option(const std::string&, std::vector<unsigned>&, const std::string&) const;

CommandOption Subcommand::flag(const std::string& names, bool& value, const std::string& help) const {
    return CommandOption(app_->add_flag(names, value, help));
}

CommandOption Subcommand::listed(const std::string& names, const std::string& type, const std::string& help) const {
    auto* const option = type.empty() ? app_->add_flag(names) : app_->add_option(names)->type_name(type);
    return CommandOption(option->description(help));
}

Subcommand Subcommand::subcommand(const char* name, const char* help) const {
    return Subcommand(app_->add_subcommand(name, help));
}

Subcommand Subcommand::alternatives(const char* heading, const char* help) const {
    auto* const group = app_->add_option_group(heading, help);
    group->require_option(0, 1);
    return Subcommand(group);
}

void Subcommand::let_last_count(bool last) const {
    app_->option_defaults()->multi_option_policy(last ? CLI::MultiOptionPolicy::TakeLast
                                                      : CLI::MultiOptionPolicy::Throw);
}

void Subcommand::leave_the_rest() const {
    app_->prefix_command();
}

void Subcommand::on_run(std::function<void()> action) const {
    app_->callback(std::move(action));
}

std::string Subcommand::name() const {
    return app_->get_name();
}

std::string Subcommand::help() const {
    return app_->get_description();
}

std::vector<Subcommand> Subcommand::subcommands() const {
    const auto named = app_->get_subcommands([](CLI::App* each) { return !each->get_name().empty(); });
    return mapped(named, [](CLI::App* each) { return Subcommand(each); });
}

std::vector<ListedOption> Subcommand::options() const {
    std::vector<ListedOption> list;
    for (const auto* const option : app_->get_options([](CLI::Option* each) { return !each->get_group().empty(); })) {
        auto& listed = list.emplace_back();
        for (const auto& letter : option->get_snames()) {
            listed.names.push_back("-" + letter);
        }
        for (const auto& name : option->get_lnames()) {
            listed.names.push_back("--" + name);
        }
        listed.type = option->get_items_expected_max() == 0 ? "" : option->get_type_name();
        listed.help = option->get_description();
        listed.many_values = option->get_items_expected_max() > 1;
    }
    // CLI11 makes an option group a subcommand without a name.
    for (auto* const group : app_->get_subcommands([](CLI::App* each) { return each->get_name().empty(); })) {
        append(list, Subcommand(group).options());
    }
    return list;
}

CommandLine::CommandLine(const std::string& help) : app_(std::make_unique<CLI::App>(help)) {}

CommandLine::~CommandLine() = default;

Subcommand CommandLine::command() const {
    return Subcommand(app_.get());
}

std::string CommandLine::help(const std::string& name) const {
    app_->name(name);
    return app_->help();
}

void CommandLine::add_version(const std::string& version) {
    app_->set_version_flag("--version", version);
    app_->set_help_all_flag("--help-all", "help of all subcommands"); // before adding subcommands, which inherit it
}

int CommandLine::run(int argc, char** argv) {
    app_->require_subcommand(1);
    try {
        app_->parse(argc, argv);
    } catch (const CLI::ParseError& fault) {
        return app_->exit(fault) == 0 ? exit_good : exit_bad_line;
    }
    return exit_good;
}

void refuse_option(const std::string& name, const std::string& problem) {
    throw CLI::ValidationError(name, problem);
}

} // namespace rdma_nccl
