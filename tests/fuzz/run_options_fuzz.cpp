// SPDX-License-Identifier: Apache-2.0
// The command line of `rdma-nccl run`: the input's lines up to an empty one are PET_* and other variables, those behind
// it the words. Then the programs are given to the ranks of small worlds.
#include "lib/base/text.h"
#include "lib/sys/environment.h"
#include "tests/fuzz/check.h"
#include "tools/run/options/options.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>
#include <string>
#include <vector>

using namespace rdma_nccl;
using namespace rdma_nccl::run;
using fuzz::require;

namespace {

using Words = std::vector<std::string>;

bool names(const RankProgram& program, unsigned rank) {
    return std::any_of(program.ranks.begin(), program.ranks.end(),
                       [rank](const RankRange& range) { return range.first <= rank && rank <= range.second; });
}

/// Counted rank by rank: who has it, and whether that is for sure one.
void check_world(const std::vector<RankProgram>& programs, unsigned world_size) {
    const auto rest = std::find_if(programs.begin(), programs.end(), [](const auto& p) { return p.ranks.empty(); });
    std::vector<std::size_t> expected;
    bool good = true;
    bool rest_has_one = false;
    for (unsigned rank = 0; rank < world_size; ++rank) {
        const auto count =
            std::count_if(programs.begin(), programs.end(), [&](const auto& program) { return names(program, rank); });
        const auto owner =
            std::find_if(programs.begin(), programs.end(), [&](const auto& program) { return names(program, rank); });
        good = good && (count == 1 || (count == 0 && rest != programs.end()));
        rest_has_one = rest_has_one || count == 0;
        expected.push_back(static_cast<std::size_t>((count == 0 ? rest : owner) - programs.begin()));
    }
    good = good && (rest == programs.end() || rest_has_one);
    for (const auto& program : programs) {
        good = good && std::all_of(program.ranks.begin(), program.ranks.end(),
                                   [&](const RankRange& range) { return range.second < world_size; });
    }
    const auto all = assign_programs(programs, world_size, 0, world_size);
    require(all.has_value() == good, "every rank has exactly one program, or this is an error");
    if (!all) {
        return fuzz::require_plain(all.error().message);
    }
    require(*all == expected, "the program that names the rank");
    const auto half = assign_programs(programs, world_size, world_size / 2, world_size - world_size / 2);
    require(half && std::equal(half->begin(), half->end(), expected.begin() + world_size / 2), "a node's part");
}

void check_programs(const std::vector<RankProgram>& programs) {
    require(!programs.empty(), "a program");
    require(std::count_if(programs.begin(), programs.end(), [](const auto& p) { return p.ranks.empty(); }) <= 1,
            "one program at most for those that are left");
    for (const auto& program : programs) {
        require(!program.command_line.empty(), "a program's name");
        for (std::size_t i = 0; i < program.ranks.size(); ++i) {
            require(program.ranks[i].first <= program.ranks[i].second, "a range");
            require(i == 0 || program.ranks[i - 1].second < program.ranks[i].first, "no rank twice");
        }
    }
    for (const unsigned world_size : {1U, 2U, 8U, 40U}) {
        check_world(programs, world_size);
    }
}

bool can_be_caught(int signal) {
    return signal >= 1 && signal <= SIGRTMAX && signal != SIGKILL && signal != SIGSTOP;
}

void check_values(const Options& options) {
    require(!options.end_signals.empty(), "a signal that ends the job");
    require(std::all_of(options.end_signals.begin(), options.end_signals.end(), can_be_caught), "signals");
    for (const auto& [from, to] : options.on_signal) {
        require(can_be_caught(from) && can_be_caught(to), "signals that become others");
    }
    require(options.shutdown_timeout.count() >= 0 && options.node_timeout.count() >= 1, "times");
    require(!options.hang_after || options.hang_after->count() >= 1, "time of a hang");
    require(options.no_restart_code >= 1 && options.no_restart_code <= 255, "an exit code");
    require(!options.output.only || !options.output.only->empty(), "ranks that are shown");
    require(!options.rdzv_endpoint || !options.rdzv_endpoint->host.empty(), "a host");
    fuzz::require_all_plain(options.notes);
}

/// Without options, nothing of the program's is touched.
void check_programs_own(const Words& words) {
    Words line = words;
    line.insert(line.begin(), "--");
    const auto parsed = parse_options(line, Environment());
    require(parsed.has_value() == !words.empty(), "a program behind --");
    require(!parsed || parsed->programs.front().command_line == words, "the program's own words");
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    Words variables;
    Words words;
    Words* target = &variables;
    for (const auto line : split({reinterpret_cast<const char*>(data), size}, '\n')) {
        if (line.empty() && target == &variables) {
            target = &words;
            continue;
        }
        target->emplace_back(line);
    }
    const auto parsed = parse_options(words, Environment(variables));
    if (!parsed) {
        fuzz::require_plain(parsed.error().message);
    } else if (!parsed->help) {
        check_values(*parsed);
        check_programs(parsed->programs);
    }
    check_programs_own(words);
    return 0;
}
