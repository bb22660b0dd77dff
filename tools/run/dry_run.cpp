// SPDX-License-Identifier: Apache-2.0
#include "tools/run/job.h"

#include "lib/base/format.h"
#include "lib/base/json.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "tools/common/print.h"

#include <algorithm>

namespace rdma_nccl::run {

namespace {

constexpr std::size_t longest_word = 4096;

/// Returns the word quoted so that it is safe on a terminal. For a POSIX shell it is the same word if all its bytes are
/// printable.
std::string shell_word(std::string_view word) {
    constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=:,./@%";
    if (!word.empty() && word.find_first_not_of(plain) == std::string_view::npos) {
        return std::string(word);
    }
    return shell_quoted(printable(word, longest_word));
}

struct DryRank {
    unsigned rank = 0;
    unsigned local_rank = 0;
    const Command& command;
    RankDeviceNames devices;
    Binding binding;
    Variables variables;
};

std::vector<DryRank> ranks_of(const Job& job) {
    RankDevices devices(job.find_devices);
    std::vector<DryRank> ranks;
    for (unsigned i = 0; i < job.plan.ranks_per_node.value; ++i) {
        ranks.push_back({.rank = job.plan.first_rank() + i,
                         .local_rank = i,
                         .command = job.commands.at(i),
                         .devices = devices.of(i),
                         .binding = job.worker.placed == nullptr ? Binding() : binding_of(*job.worker.placed, i),
                         .variables = worker_variables(job.plan, job.options, i, job.worker, job.environment)});
    }
    return ranks;
}

bool has(const Variables& variables, const std::pair<std::string, std::string>& variable) {
    return std::ranges::find(variables, variable) != variables.end();
}

/// Removes the variables that all ranks have with the same value from the ranks' lists, and returns them.
Variables take_common(std::vector<DryRank>& ranks) {
    auto common = selected(ranks.front().variables, [&](const auto& variable) {
        return std::ranges::all_of(ranks, [&](const auto& rank) { return has(rank.variables, variable); });
    });
    for (auto& rank : ranks) {
        std::erase_if(rank.variables, [&](const auto& variable) { return has(common, variable); });
    }
    return common;
}

std::string word_or_dash(std::string_view text) {
    return or_dash(printable(text, longest_word));
}

std::string world_text(const Job& job) {
    const auto& plan = job.plan;
    return aligned_table(
        {{"world", format_text("{} on {} ({})", format_count(plan.world_size(), "rank"),
                               format_count(plan.nodes.value, "node"), plan.nodes.source)},
         {"here", format_text("{}, node rank {} ({}), {} ({})", printable(job.node), plan.node_rank.value,
                              plan.node_rank.source, format_count(plan.ranks_per_node.value, "rank"),
                              plan.ranks_per_node.source)},
         {"meet at", format_text("{} ({}), port {} ({})", printable(plan.master_addr.value), plan.master_addr.source,
                                 plan.master_port.value, plan.master_port.source)}});
}

std::string ranks_text(const std::vector<DryRank>& ranks) {
    const auto first_command = command_text(ranks.front().command);
    const bool several =
        std::ranges::any_of(ranks, [&](const auto& r) { return command_text(r.command) != first_command; });
    std::vector<TableRow> rows{{"RANK", "LOCAL", "GPU", "PCI", "UUID", "HCAS", "CPUS", "MEMORY"}};
    if (several) {
        rows.front().emplace_back("COMMAND");
    }
    for (const auto& rank : ranks) {
        const auto& memory = rank.binding.memory_node;
        rows.push_back({std::to_string(rank.rank), std::to_string(rank.local_rank), word_or_dash(rank.devices.gpu),
                        word_or_dash(rank.devices.gpu_pci), word_or_dash(rank.devices.gpu_uuid),
                        word_or_dash(joined(rank.devices.hcas, ",")), word_or_dash(rank.binding.cpus.list()),
                        memory ? format_text("node {}", *memory) : "-"});
        if (several) {
            rows.back().push_back(command_text(rank.command));
        }
    }
    const std::string one = several ? "" : format_text("\nEvery rank runs\n  {}\n", first_command);
    return one + "\n" + aligned_table(rows);
}

/// Returns a table with one column per variable that differs between ranks.
std::string own_variables_text(const std::vector<DryRank>& ranks) {
    std::vector<std::string> names;
    for (const auto& rank : ranks) {
        for (const auto& [name, value] : rank.variables) {
            if (std::ranges::count(names, name) == 0) {
                names.push_back(name);
            }
        }
    }
    if (names.empty()) {
        return "";
    }
    std::vector<TableRow> rows{names};
    for (const auto& rank : ranks) {
        rows.push_back(mapped(names, [&](const auto& name) {
            const auto* const found = find_by(rank.variables, &Variables::value_type::first, name);
            return found == nullptr ? "-" : shell_word(found->second);
        }));
    }
    return "\nOf each rank\n" + aligned_table(rows, "  ");
}

Json variables_json(const Variables& variables) {
    auto object = Json::object();
    for (const auto& [name, value] : variables) {
        object[name] = value;
    }
    return object;
}

Json rank_json(const DryRank& rank) {
    return {{"rank", rank.rank},
            {"local_rank", rank.local_rank},
            {"file", rank.command.file},
            {"arguments", rank.command.arguments},
            {"gpu", rank.devices.gpu},
            {"gpu_pci", rank.devices.gpu_pci},
            {"gpu_uuid", rank.devices.gpu_uuid},
            {"hcas", rank.devices.hcas},
            {"cpus", rank.binding.cpus.list()},
            {"memory_node", rank.binding.memory_node},
            {"variables", variables_json(rank.variables)}};
}

} // namespace

std::string command_text(const Command& command) {
    std::string line = shell_word(command.file);
    for (std::size_t i = 1; i < command.arguments.size(); ++i) {
        line += " " + shell_word(command.arguments[i]);
    }
    return line;
}

std::string dry_run_text(const Job& job) {
    auto ranks = ranks_of(job);
    std::string text = world_text(job) + ranks_text(ranks);
    text += "\nVariables of every rank\n";
    for (const auto& [name, value] : take_common(ranks)) {
        text += format_text("  {}={}\n", name, shell_word(value));
    }
    return text + own_variables_text(ranks);
}

std::string dry_run_json(const Job& job) {
    auto ranks = ranks_of(job);
    const auto common = take_common(ranks);
    const Json json = {{"schema", 1},
                       {"host", job.node},
                       {"nodes", job.plan.nodes.value},
                       {"node_rank", job.plan.node_rank.value},
                       {"world_size", job.plan.world_size()},
                       {"master_addr", job.plan.master_addr.value},
                       {"master_port", job.plan.master_port.value},
                       {"run_id", job.plan.run_id},
                       {"variables", variables_json(common)},
                       {"ranks", mapped(ranks, rank_json)},
                       {"warnings", job.plan.warnings}};
    return json.dump(2) + "\n";
}

} // namespace rdma_nccl::run
