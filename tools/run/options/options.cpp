// SPDX-License-Identifier: Apache-2.0
#include "tools/run/options/options.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "tools/common/command_line.h"
#include "tools/run/options/option_table.h"

#include <algorithm>
#include <array>

namespace rdma_nccl::run {

namespace {

struct Placeholder {
    std::string_view name;
    std::string PrefixValues::*value;
    std::string_view torchrun_name = {}; ///< empty: torchrun has none
};

constexpr auto placeholders = std::to_array<Placeholder>({{"host", &PrefixValues::host, "hostname"},
                                                          {"rank", &PrefixValues::rank, "rank"},
                                                          {"local_rank", &PrefixValues::local_rank, "local_rank"},
                                                          {"node_rank", &PrefixValues::node_rank},
                                                          {"role", &PrefixValues::role, "role_name"},
                                                          {"stream", &PrefixValues::stream},
                                                          {"time", &PrefixValues::time}});

Error unknown_placeholder(std::string_view name, std::string_view text) {
    const auto near = nearest_word(name, mapped(placeholders, &Placeholder::name));
    return {format_text("prefix '{}': {{{}}} is unknown{}; there are {{host}}, {{rank}}, {{local_rank}}, "
                        "{{node_rank}}, {{role}}, {{time}} and {{stream}}",
                        printable(text), printable(name),
                        near ? format_text(", did you mean {{{}}}", *near) : std::string())};
}

using Arguments = std::span<const std::string>;

/// Returns the help. CLI11 only writes the help: it must not parse the command line, because it splits unknown words
/// that look like lists ("[1,2]") or like a subcommand.
std::string help_text() {
    const CommandLine line(
        "Starts one rank per GPU on this node and ends them together.\n"
        "Values not given come from PET_* (torchrun's variables), NNODES, NODE_RANK, MASTER_ADDR and "
        "MASTER_PORT, then from Slurm's step; else the world is this node alone. torchrun's options that mean "
        "nothing in a fixed world are taken and ignored; see rdma-nccl-run(1).");
    list_run_options(line.command());
    constexpr std::string_view options_only = "[OPTIONS]";
    std::string text = line.help("rdma-nccl run");
    if (const auto place = text.find(options_only); place != std::string::npos) {
        text.insert(place + options_only.size(), " [--] PROGRAM [ARGS...]");
    }
    return text;
}

/// Splits a word that names an option: "--log_dir=x" gives "--log-dir" and "x", "-r3" gives "-r" and "3".
std::pair<std::string, std::optional<std::string_view>> read_word(std::string_view word) {
    if (word.starts_with("--")) {
        const auto [key, value] = split_once(word, '=');
        std::string name(key);
        std::ranges::replace(name, '_', '-');
        return {name, value};
    }
    const auto value = word.size() > 2 ? std::optional(word.substr(word[2] == '=' ? 3 : 2)) : std::nullopt;
    return {std::string(word.substr(0, 2)), value};
}

/// Finds an option by its name, its letter, or a prefix that is unique among torchrun's options (argparse,
/// allow_abbrev).
const OptionEntry* find_entry(std::string_view name) {
    const auto table = option_table();
    const bool is_long = name.starts_with("--");
    const auto plain = name.substr(is_long ? 2 : 1);
    const auto* const found = find_by(table, is_long ? &OptionEntry::name : &OptionEntry::letter, plain);
    if (found != nullptr || !is_long) {
        return found;
    }
    const auto may_be = [&](const OptionEntry& each) {
        return each.origin != OptionEntry::Origin::Own && each.name.starts_with(plain);
    };
    return std::ranges::count_if(table, may_be) == 1 ? &*std::ranges::find_if(table, may_be) : nullptr;
}

std::string unknown_option(const std::string& name) {
    const auto names = mapped(option_table(), [](const auto& entry) { return format_text("--{}", entry.name); });
    const auto nearest = nearest_word(name, {names.begin(), names.end()});
    return format_text("unknown option {}{}; options of the program stand behind its name", printable(name),
                       nearest ? format_text(" (did you mean {}?)", *nearest) : "");
}

/// The launcher's own options, and the words after them.
struct GivenLine {
    std::map<const OptionEntry*, GivenOption> given; ///< the last value of each: scripts append to a command line
    bool help = false;
    Arguments rest;
};

Result<GivenLine> read_command_line(Arguments args) {
    GivenLine line;
    while (!args.empty() && args.front() != "--" && args.front().size() > 1 && args.front().front() == '-') {
        auto [name, value] = read_word(args.front());
        args = args.subspan(1);
        if (name == "--help" || name == "-h") {
            line.help = true;
            continue;
        }
        const auto* const entry = find_entry(name);
        if (entry == nullptr) {
            return fail(unknown_option(name));
        }
        if (entry->type.empty() && value) {
            return fail(format_text("option {} takes no value", name));
        }
        if (!entry->type.empty() && !entry->type.starts_with('[') && !value) {
            if (args.empty()) {
                return fail(format_text("option {} needs a value", name));
            }
            value = args.front();
            args = args.subspan(1);
        }
        line.given[entry] = {format_text("--{}", entry->name), std::string(value.value_or("1"))};
    }
    line.rest = args.subspan(!args.empty() && args.front() == "--" ? 1 : 0);
    return line;
}

/// Adds the values of variables other than PET_* that torchrun also reads.
Result<void> add_torchruns_variables(Options& options, const GivenLine& line, const Environment& environment) {
    const auto has = [&line](std::string_view name) { return line.given.contains(find_entry(name)); };
    const auto value_of = [&](std::string_view name) { return text_if_any(environment.get(name).value_or("")); };
    if (const auto timeout = value_of("TORCH_ELASTIC_SHUTDOWN_TIMEOUT"); timeout && !has("--shutdown-timeout")) {
        const auto seconds = parse_seconds(*timeout);
        if (!seconds) {
            return fail(
                format_text("TORCH_ELASTIC_SHUTDOWN_TIMEOUT \"{}\": {}", printable(*timeout), seconds.error().message));
        }
        options.shutdown_timeout = *seconds;
    }
    if (const auto text = value_of("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"); text && !has("--prefix")) {
        options.output.prefix = prefix_of_template(*text);
    }
    return {};
}

Result<void> store_options(Options& options, const GivenLine& line, const Environment& environment) {
    OptionTarget target{options, {}};
    for (const auto& entry : option_table()) {
        const auto found = line.given.find(&entry);
        const bool on_line = found != line.given.end();
        GivenOption given = on_line ? found->second : GivenOption{entry.pet_variable(), ""};
        if (!on_line && entry.origin == OptionEntry::Origin::Pet) {
            given.text = environment.get(given.name).value_or("");
        }
        if (!on_line && given.text.empty()) {
            continue;
        }
        if (auto stored = entry.store(target, given); !stored) {
            return stored;
        }
        if (environment.ours().contains(given.name)) { // the plugin set it for torchrun, so the user did not ask for it
            std::erase(target.meaningless, given.name);
        }
    }
    if (!target.meaningless.empty()) {
        options.notes.push_back(joined(target.meaningless) + ": no meaning in a fixed world, ignored");
    }
    return {};
}

Result<void> check_together(const Options& options) {
    if (options.module && (options.no_python || options.run_path)) {
        return fail(
            format_text("--module and {} exclude each other", options.no_python ? "--no-python" : "--run-path"));
    }
    if (options.hang_kill && !options.hang_after) {
        return fail("--hang-action kill does nothing without --hang-timeout SECONDS");
    }
    return {};
}

Result<void> store_programs(Options& options, Arguments args) {
    if (args.empty()) {
        return fail("no program to run: rdma-nccl run [OPTIONS] [--] PROGRAM [ARGS...]");
    }
    auto first = options.programs.empty() ? std::vector<RankRange>() : options.programs.front().ranks;
    return split_programs(args, std::move(first)).map([&](auto programs) { options.programs = std::move(programs); });
}

} // namespace

Result<Options> parse_options(const std::vector<std::string>& arguments, const Environment& environment) {
    const auto line = read_command_line(arguments);
    if (!line) {
        return tl::unexpected(line.error());
    }
    Options options;
    if (line->help) {
        options.help = help_text();
        return options;
    }
    return add_torchruns_variables(options, *line, environment)
        .and_then([&] { return store_options(options, *line, environment); })
        .and_then([&] { return check_together(options); })
        .and_then([&] { return store_programs(options, line->rest); })
        .map([&] { return std::move(options); });
}

Result<PrefixTemplate> PrefixTemplate::parse(std::string_view text) {
    PrefixTemplate result;
    for (std::size_t at = 0; at < text.size();) {
        const auto rest = text.substr(at);
        auto& part = result.parts_.back();
        if (rest.starts_with("{{") || rest.starts_with("}}")) {
            part.text += rest.front();
            at += 2;
        } else if (rest.front() == '{' && rest.find('}') != std::string_view::npos) {
            const auto name = rest.substr(1, rest.find('}') - 1);
            const auto* const known = find_by(placeholders, &Placeholder::name, name);
            if (known == nullptr) {
                return tl::unexpected(unknown_placeholder(name, text));
            }
            part.value = known->value;
            result.parts_.emplace_back();
            at += name.size() + 2;
        } else if (rest.front() == '{' || rest.front() == '}') {
            return fail(format_text("prefix '{}': a single '{}' at byte {}; write '{}{}' for the character itself",
                                    printable(text), rest.front(), at + 1, rest.front(), rest.front()));
        } else {
            const auto plain = rest.substr(0, rest.find_first_of("{}"));
            part.text += plain;
            at += plain.size();
        }
    }
    return result;
}

std::string PrefixTemplate::render(const PrefixValues& values) const {
    std::string result;
    for (const auto& [text, value] : parts_) {
        result += text;
        if (value != nullptr) {
            result += values.*value;
        }
    }
    return result;
}

bool PrefixTemplate::has_time() const {
    return find_by(parts_, &Part::value, &PrefixValues::time) != nullptr;
}

Result<std::string> parse_prefix(std::string_view text) {
    for (auto open = text.find('{'); open != std::string_view::npos; open = text.find('{', open + 1)) {
        const auto close = text.find('}', open);
        const auto name = text.substr(open + 1, close == std::string_view::npos ? 0 : close - open - 1);
        if (name == "stream" || find_by(placeholders, &Placeholder::name, name) == nullptr) {
            return fail(format_text("\"{}\" has no value; there are {{host}}, {{rank}}, {{local_rank}}, {{node_rank}}, "
                                    "{{role}} and {{time}}",
                                    printable(text.substr(open, name.empty() ? 20 : name.size() + 2))));
        }
    }
    return std::string(text);
}

std::string prefix_of_template(std::string_view text) {
    std::string prefix(text);
    for (const auto& [name, value, torchrun_name] : placeholders) {
        const auto from = format_text("${{{}}}", torchrun_name);
        const auto to = format_text("{{{}}}", name);
        for (auto at = prefix.find(from); !torchrun_name.empty() && at != std::string::npos;
             at = prefix.find(from, at)) {
            prefix.replace(at, from.size(), to);
        }
    }
    return prefix;
}

} // namespace rdma_nccl::run

namespace rdma_nccl {

void list_run_options(const Subcommand& command) {
    for (const auto& entry : run::option_table()) {
        const auto letter = entry.letter.empty() ? "" : format_text("-{},", entry.letter);
        (void)command.listed(letter + format_text("--{}", entry.name), std::string(entry.type), std::string(entry.help))
            .group(std::string(entry.group));
    }
}

} // namespace rdma_nccl
