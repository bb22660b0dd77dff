// SPDX-License-Identifier: Apache-2.0
#include "lib/base/json.h"
#include "tools/measure/rails.h"
#include "tools/pairs/pairs.h"

#include "lib/base/format.h"
#include "tools/common/wall_time.h"
#include "tools/measure/command.h"
#include "tools/pairs/nodes.h"
#include "tools/pairs/round_runner.h"

#include <algorithm>

namespace rdma_nccl {

namespace {

std::string schedule_of(const PairsOptions& options, std::size_t nodes) {
    return nodes == 1 ? "loopback" : options.schedule.empty() ? "all" : options.schedule;
}

std::vector<unsigned> rail_counts(const std::vector<PairNode>& nodes) {
    std::vector<unsigned> counts;
    counts.reserve(nodes.size());
    for (const auto& node : nodes) {
        counts.push_back(static_cast<unsigned>(node.rails.size()));
    }
    return counts;
}

std::size_t count_pairings(const std::vector<Round>& rounds) {
    std::size_t count = 0;
    for (const auto& round : rounds) {
        count += round.size();
    }
    return count;
}

/// Returns the rounds for all rails, or only for `only_rail`. Leaves out empty rounds.
std::vector<Round> over_rails(const PairsOptions& options, const NodeRounds& node_rounds,
                              const std::vector<PairNode>& nodes) {
    auto rounds = with_rails(node_rounds, rail_counts(nodes), options.rails);
    if (options.only_rail) {
        for (auto& round : rounds) {
            std::erase_if(round, [rail = *options.only_rail](const Pairing& pairing) {
                return pairing.rail_a != rail || pairing.rail_b != rail;
            });
        }
    }
    std::erase_if(rounds, [](const Round& round) { return round.empty(); });
    return rounds;
}

/// Plans rounds in which each suspect is measured again with a good node.
std::vector<Round> plan_retest(const PairsOptions& options, const PairsReport& report) {
    const auto nodes = retest_nodes(report, judge_pairs(report, options.rules));
    return over_rails(options, retest_pairs(nodes.suspects, nodes.good), report.nodes);
}

class Lead {
public:
    Lead(MeasureHead& head, const MeasureWorld& world, const Step& step, const PairsOptions& options,
         PairsProgress& progress)
        : head_(head), world_(world), options_(options), progress_(progress), crew_(world, step), time_(options) {
        report_.started = wall_time_text(wall_time_us());
        report_.measure = options.measure;
        report_.on_gpu = options.measure.gpu;
        report_.with_tcp = options.measure.tcp;
    }

    PairsReport report() {
        report_.ended_early =
            await_members(head_, time_, progress_,
                          {.complete = [this] { return crew_.complete(); },
                           .missing = [this] { return crew_.missing(); },
                           .join = [this](unsigned member, const Json& hello) { crew_.join(member, hello); },
                           .lose = [this](unsigned member, const std::string& why) { crew_.lose(member, why); }});
        const bool gathered = report_.ended_early.empty();
        crew_.close(gathered ? format_text("it did not come within {}", duration_text(options_.join_time)) : "");
        report_.nodes = crew_.nodes();
        report_.schedule = schedule_of(options_, report_.nodes.size());
        if (gathered) {
            measure();
        }
        dismiss();
        progress_.clear();
        report_.seconds = time_.seconds();
        return std::move(report_);
    }

private:
    /// A member that does not leave in time must first finish an earlier order, or hangs; its connection is then
    /// closed.
    void dismiss() {
        constexpr std::chrono::seconds timeout(2);
        shutdown_workers(head_, world_.members, timeout, false);
    }

    void measure() {
        const auto rounds = plan_rounds(options_, report_.schedule, report_.nodes);
        report_.planned = count_pairings(rounds);
        progress_.say(announce(report_.schedule, report_.nodes, rounds, report_.measure));
        PairsRounds carried(head_, crew_, report_, progress_, time_.deadline);
        const auto expected =
            expected_time(report_.measure, report_.schedule == "loopback") * static_cast<long>(rounds.size());
        if (options_.time_limit && expected > *options_.time_limit) {
            progress_.say(format_text("the time limit of {} ends it before; --quick and --seconds make it shorter",
                                      duration_text(*options_.time_limit)));
        }
        const bool retest = options_.retest.value_or(report_.schedule == "quick");
        if (!carried.run(rounds, false) || !retest) {
            return;
        }
        const auto again = plan_retest(options_, report_);
        if (!again.empty()) {
            report_.planned += count_pairings(again);
            progress_.say(
                format_text("{} pairings are measured again, suspects with good nodes", count_pairings(again)));
            carried.run(again, true);
        }
    }

    MeasureHead& head_;
    const MeasureWorld& world_;
    const PairsOptions& options_;
    PairsProgress& progress_;
    NodeRoster crew_;
    MeasureTime time_;
    PairsReport report_;
};

} // namespace

std::vector<Round> plan_rounds(const PairsOptions& options, const std::string& schedule,
                               const std::vector<PairNode>& nodes) {
    const auto count = static_cast<unsigned>(nodes.size());
    const auto rounds = [&] {
        return schedule == "loopback"    ? loopback_pairs(count)
               : schedule == "quick"     ? quick_pairs(count, options.quick_rounds, options.seed)
               : schedule == "ring"      ? ring_pairs(count)
               : schedule == "bisection" ? bisection_pairs(count)
                                         : all_pairs(count);
    };
    return over_rails(options, rounds(), nodes);
}

std::string announce(const std::string& schedule, const std::vector<PairNode>& nodes, const std::vector<Round>& rounds,
                     const PairsMeasure& measure) {
    unsigned rails = 0;
    std::size_t without = 0;
    for (const auto& node : nodes) {
        rails = std::max(rails, static_cast<unsigned>(node.rails.size()));
        without += node.rails.empty() ? 1U : 0U;
    }
    const auto plural = [](std::size_t count, std::string_view what) {
        return format_text("{} {}{}", count, what, count == 1 ? "" : "s");
    };
    const auto time = expected_time(measure, schedule == "loopback") * static_cast<long>(rounds.size());
    return format_text("{}{}, {}, {}: {}, {}, about {}", plural(nodes.size(), "node"),
                       without > 0 ? format_text(" ({} without RDMA)", without) : "", plural(rails, "rail"),
                       schedule == "all" ? "all pairs" : schedule, plural(rounds.size(), "round"),
                       plural(count_pairings(rounds), "pairing"), duration_text(time));
}

PairsReport lead_pairs(MeasureHead& head, const MeasureWorld& world, const Step& step, const PairsOptions& options,
                       PairsProgress& progress) {
    return Lead(head, world, step, options, progress).report();
}

} // namespace rdma_nccl
