// SPDX-License-Identifier: Apache-2.0
#include "tools/complete/complete.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "lib/settings/parse.h"
#include "tools/common/print.h"

#include <algorithm>
#include <array>

namespace rdma_nccl::complete {

namespace {

using Options = std::vector<ListedOption>;

constexpr std::string_view slurm_option = "--rdma-nccl";

/// Returns true for a word to type as it is, false for a placeholder like N, FILE or a+b:1.
bool is_literal(std::string_view word) {
    return !word.empty() && word.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789+-_") == std::string_view::npos;
}

bool is_option(std::string_view word) {
    return word.size() > 1 && word.front() == '-';
}

const ListedOption* find_option(const Options& options, const std::string& name) {
    const auto found =
        std::ranges::find_if(options, [&](const ListedOption& each) { return contains(each.names, name); });
    return found == options.end() || found->type.empty() ? nullptr : &*found;
}

class Candidates {
public:
    explicit Candidates(std::string_view typed) : typed_(typed) {}

    void add(std::string_view prefix, std::string_view word, std::string_view help) {
        const auto whole = format_text("{}{}", prefix, word);
        if (whole.starts_with(typed_)) {
            lines_.push_back(format_text("{}\t{}", whole, help));
        }
    }

    void add_options(const Options& options) {
        for (const auto& option : options) {
            for (const auto& name : option.names) {
                add("", name, option.help);
            }
        }
    }

    /// Adds what may follow `before`, the part in front of the settings: keys, and values of a key.
    void add_settings(std::string_view before) {
        const auto prefix = with_list(before);
        const auto [name, value] = split_once(typed_.substr(std::min(prefix.size(), typed_.size())), '=');
        if (prefix == before && before.starts_with(slurm_option)) { // these stand alone
            add(prefix, "off", "leave this step alone");
            add(prefix, "help", "print all keys, and end");
        }
        for (const auto& key : settings_keys()) {
            if (key.site_only) {
                continue;
            }
            if (!value) {
                add(prefix, format_text("{}=", key.name), key.meaning);
            } else if (key.name == name) {
                add_literals(format_text("{}{}=", prefix, name), split(key.values, ','));
            }
        }
    }

    /// Adds values of this type, as ListedOption has it, behind `before`: "--name=" or "".
    void add_values(std::string_view before, const std::string& type) {
        if (type.find("KEY=VALUE") != std::string::npos) {
            add_settings(before);
        } else if (type.find("FILE") != std::string::npos || type.find("PATH") != std::string::npos) {
            lines_ = {":files"};
        } else if (type.find("DIR") != std::string::npos) {
            lines_ = {":directories"};
        } else {
            constexpr std::string_view more = ",...";
            std::string words = type.substr(0, type.ends_with(more) ? type.size() - more.size() : type.size());
            std::erase_if(words, [](char c) { return c == '[' || c == ']' || c == '='; });
            add_literals(words.size() < type.size() ? with_list(before) : std::string(before), split(words, '|'));
        }
    }

    void add_command(std::size_t first_word) { lines_ = {format_text(":command {}", first_word)}; }

    std::vector<std::string> take() { return std::move(lines_); }

private:
    /// Returns `before` with the items of a list that are complete: "--x=a,b," of "--x=a,b,c".
    [[nodiscard]] std::string with_list(std::string_view before) const {
        const auto comma = typed_.rfind(',');
        return std::string(comma == std::string_view::npos ? before : typed_.substr(0, comma + 1));
    }

    void add_literals(std::string_view before, const std::vector<std::string_view>& words) {
        for (const auto word : words) {
            if (is_literal(trim(word))) {
                add(before, trim(word), "");
            }
        }
    }

    std::string_view typed_;
    std::vector<std::string> lines_;
};

/// Completes in a subcommand, whose name is words[1].
void complete_subcommand(Candidates& candidates, std::span<const std::string> words, const Options& options,
                         bool takes_program) {
    const ListedOption* waiting = nullptr; // an option whose value is the next word
    for (std::size_t i = 2; i + 1 < words.size(); ++i) {
        const auto& word = words[i];
        if (waiting != nullptr && !is_option(word)) {
            waiting = waiting->many_values ? waiting : nullptr;
            continue;
        }
        waiting = find_option(options, word);
        if (waiting != nullptr && waiting->type.starts_with("[=")) { // the value is in the same word, or left out
            waiting = nullptr;
        }
        if (takes_program && (word == "--" || !is_option(word))) {
            return candidates.add_command(i + (word == "--" ? 1 : 0));
        }
    }
    const auto& typed = words.back();
    if (waiting != nullptr && !is_option(typed)) {
        return candidates.add_values("", waiting->type);
    }
    if (const auto [name, value] = split_once(typed, '='); value && typed.starts_with("--")) {
        if (const auto* const option = find_option(options, std::string(name))) {
            candidates.add_values(format_text("{}=", name), option->type);
        }
    } else if (takes_program && !typed.starts_with('-')) {
        candidates.add_command(words.size() - 1);
    } else {
        candidates.add_options(options);
    }
}

} // namespace

std::vector<std::string> complete_words(std::span<const std::string> words, const Subcommand& app) {
    constexpr auto slurm_commands = std::to_array<std::string_view>({"srun", "sbatch", "salloc"});
    const std::string_view typed = words.back();
    Candidates candidates(typed);
    if (contains(slurm_commands, words.front().substr(words.front().rfind('/') + 1))) {
        if (const auto before = format_text("{}=", slurm_option); typed.starts_with(before)) {
            candidates.add_settings(before);
        } else if (typed.starts_with("--")) {
            candidates.add(slurm_option, "", "NCCL over RDMA");
            candidates.add(slurm_option, "=", "NCCL over RDMA, with settings");
        }
    } else if (words.size() == 2) {
        for (const auto& command : app.subcommands()) {
            candidates.add("", command.name(), command.help());
        }
        if (typed.starts_with('-')) {
            candidates.add_options(app.options());
        }
    } else {
        for (const auto& command :
             selected(app.subcommands(), [&](const auto& each) { return each.name() == words[1]; })) {
            const CommandLine run("");
            const bool is_run = command.name() == "run"; // which parses its own line
            list_run_options(run.command());
            const auto options = is_run ? run.command().options() : command.options();
            const bool has_positional =
                std::ranges::any_of(options, [](const auto& each) { return each.names.empty(); });
            complete_subcommand(candidates, words, options, is_run || has_positional);
        }
    }
    return candidates.take();
}

int print(const std::vector<std::string>& words, const Subcommand& app) {
    for (const auto& line : complete_words(words, app)) {
        print_out(line + "\n");
    }
    return finish_output() ? exit_good : exit_cannot_tell;
}

} // namespace rdma_nccl::complete
