// SPDX-License-Identifier: Apache-2.0
#include "tools/pairs/pairs.h"

#include "lib/base/format.h"
#include "tools/common/print.h"
#include "tools/pairs/pair_run.h"
#include "tools/pairs/roster.h"

#include <algorithm>
#include <map>

namespace rdma_nccl::pairs {

namespace {

using Time = measure::Clock::time_point;

/// Carries out rounds of pairings on the workers; all pairings of a round run at the same time.
class RoundRunner {
public:
    /// `report` holds the nodes and the measurement, and receives the results. `deadline`: of all rounds; absent: none.
    RoundRunner(measure::Coordinator& coordinator, NodeRoster& roster, Report& report, measure::Progress& progress,
                std::optional<Time> deadline)
        : coordinator_(coordinator), roster_(roster), report_(report), progress_(progress), deadline_(deadline) {}

    /// Returns false if it ended early; Report::ended_early then says why.
    bool run(const std::vector<Round>& rounds, bool retest) {
        for (std::size_t i = 0; i < rounds.size(); ++i) {
            const auto started = measure::Clock::now();
            begin(rounds[i], retest);
            while (std::ranges::any_of(runs_, [](const PairingRun& run) { return !run.done(); })) {
                show(rounds.size() - i);
                if (!wait()) {
                    return false;
                }
            }
            collect(true);
            ++rounds_done_;
            spent_ += measure::Clock::now() - started;
        }
        return true;
    }

private:
    void begin(const Round& round, bool retest) {
        runs_.clear();
        sides_.clear();
        runs_.reserve(round.size()); // so that they stay in their places
        const auto now = measure::Clock::now();
        for (const auto& pairing : round) {
            auto job = job_of(pairing, retest);
            const auto a = roster_.why_unusable(pairing.a);
            const auto b = roster_.why_unusable(pairing.b);
            if (a || b) {
                skip(job, a ? pairing.a : pairing.b, a ? *a : *b);
                continue;
            }
            job.number = ++last_number_;
            auto& run = runs_.emplace_back(std::move(job));
            for (unsigned side = 0; side < run.job().sides(); ++side) {
                sides_[roster_.worker_of(run.job().node(side))] = {&run, side};
            }
            send(run, run.start(now));
        }
    }

    [[nodiscard]] PairingJob job_of(const Pairing& pairing, bool retest) const {
        const auto& a = report_.nodes.at(pairing.a);
        const auto& b = report_.nodes.at(pairing.b);
        return {.pairing = pairing,
                .round = rounds_done_,
                .retest = retest,
                .names = {a.name, b.name},
                .rails = {a.rails.at(pairing.rail_a), b.rails.at(pairing.rail_b)},
                .measure = report_.measure,
                .was_unresponsive = roster_.was_unresponsive(pairing.a) || roster_.was_unresponsive(pairing.b)};
    }

    void skip(const PairingJob& job, unsigned node, const std::string& why) {
        PairingResult result;
        result.pairing = job.pairing;
        result.round = job.round;
        result.retest = job.retest;
        result.problem = "skipped: " + why;
        result.fault_of = node;
        add(std::move(result));
    }

    void add(PairingResult result) {
        failed_ += result.problem.empty() ? 0U : 1U;
        report_.results.push_back(std::move(result));
    }

    void send(const PairingRun& run, const SideOrders& orders) {
        for (const auto& order : orders) {
            coordinator_.send(roster_.worker_of(run.job().node(order.side)), order.what);
        }
    }

    [[nodiscard]] Time next_deadline() const {
        constexpr std::chrono::milliseconds between_drawings(500);
        auto next = measure::Clock::now() + between_drawings;
        for (const auto& run : runs_) {
            next = run.done() ? next : std::min(next, run.deadline());
        }
        return deadline_ ? std::min(next, *deadline_) : next;
    }

    bool wait() {
        const auto event = coordinator_.next(next_deadline());
        if (event.kind == measure::Event::Kind::Interrupted) {
            return end_early(format_text("interrupted by {}", event.why));
        }
        take(event);
        if (deadline_ && measure::Clock::now() >= *deadline_) {
            return end_early("time limit");
        }
        expire();
        return true;
    }

    void take(const measure::Event& event) {
        const auto found = sides_.find(event.worker);
        const auto [run, side] = found == sides_.end() ? std::pair<PairingRun*, unsigned>() : found->second;
        if (event.kind == measure::Event::Kind::Lost) {
            roster_.lose(event.worker, event.why);
            if (run != nullptr) {
                send(*run, run->lose(side, event.why));
            }
        } else if (event.kind == measure::Event::Kind::Message) {
            roster_.note_answer(event.worker);
            if (run != nullptr) {
                send(*run, run->take(side, event.message, measure::Clock::now()));
            }
        }
    }

    void expire() {
        const auto now = measure::Clock::now();
        for (auto& run : runs_) {
            if (run.done() || now < run.deadline()) {
                continue;
            }
            for (const unsigned side : run.awaited()) {
                roster_.note_timeout(run.job().node(side));
            }
            send(run, run.expire());
        }
    }

    bool end_early(std::string why) {
        report_.ended_early = std::move(why);
        for (auto& run : runs_) {
            send(run, run.stop());
        }
        collect(false);
        return false;
    }

    /// Adds the results of the round. Without `all`, leaves out pairings that have neither values nor a problem.
    void collect(bool all) {
        for (const auto& run : runs_) {
            if (all || run.has_values() || !run.result().problem.empty()) {
                add(run.result());
            }
        }
        runs_.clear();
    }

    void show(std::size_t rounds_left) {
        const auto now = measure::Clock::now();
        if (!progress_.due(now)) {
            return;
        }
        const bool loopback = !runs_.empty() && runs_.front().job().loopback();
        const auto each = rounds_done_ > 0 ? spent_ / rounds_done_
                                           : measure::Clock::duration(expected_time(report_.measure, loopback));
        const auto time_left = std::chrono::duration_cast<std::chrono::milliseconds>(each * rounds_left);
        progress_.show(format_text("{} of {} pairings measured{}, about {} left", report_.results.size(),
                                   report_.planned, failed_ > 0 ? format_text(", {} failed", failed_) : "",
                                   measure::format_duration(time_left)),
                       now);
    }

    measure::Coordinator& coordinator_;
    NodeRoster& roster_;
    Report& report_;
    measure::Progress& progress_;
    std::optional<Time> deadline_;
    std::vector<PairingRun> runs_;                               ///< of this round
    std::map<unsigned, std::pair<PairingRun*, unsigned>> sides_; ///< run and side of each worker
    std::uint64_t last_number_ = 0;                              ///< of a pairing
    unsigned rounds_done_ = 0;
    std::size_t failed_ = 0;            ///< number of failed results in the report
    measure::Clock::duration spent_{0}; ///< in finished rounds
};

/// Plans the rounds, runs them, and runs those in which each suspect is measured again with a good node.
void run_rounds(RoundRunner& runner, const Options& options, Report& report, measure::Progress& progress) {
    const auto rounds = plan_rounds(options, report.schedule, report.nodes);
    report.planned = count_pairings(rounds);
    progress.say(announce(report.schedule, report.nodes, rounds, report.measure));
    const auto expected =
        expected_time(report.measure, report.schedule == "loopback") * static_cast<long>(rounds.size());
    const auto limit = measure::to_milliseconds(options.time_limit_s);
    if (limit.count() > 0 && expected > limit) {
        progress.say(format_text("the time limit of {} ends it before; --quick and --seconds make it shorter",
                                 measure::format_duration(limit)));
    }
    const bool retest = options.retest.value_or(report.schedule == "quick");
    if (!runner.run(rounds, false) || !retest) {
        return;
    }
    const auto nodes = retest_nodes(report, judge(report, options.rules));
    const auto again = over_rails(retest_pairs(nodes.suspects, nodes.good), options, report.nodes);
    if (!again.empty()) {
        report.planned += count_pairings(again);
        progress.say(format_text("{} pairings are measured again, suspects with good nodes", count_pairings(again)));
        runner.run(again, true);
    }
}

} // namespace

Report coordinate(measure::Coordinator& coordinator, const measure::World& world, const Options& options,
                  measure::Progress& progress) {
    const measure::TimeLimits time(options);
    NodeRoster roster(world);
    Report report;
    report.started = wall_time_text(wall_time_us());
    report.measure = options.measure;
    report.on_gpu = options.measure.gpu;
    report.with_tcp = options.measure.tcp;
    report.ended_early = measure::await_workers(coordinator, time, progress, roster);
    const bool gathered = report.ended_early.empty();
    roster.close(gathered ? format_text("it did not come within {}", measure::format_duration(options.join_time()))
                          : "");
    report.nodes = roster.nodes();
    report.schedule = report.nodes.size() == 1 ? "loopback" : options.schedule.empty() ? "all" : options.schedule;
    if (gathered) {
        RoundRunner runner(coordinator, roster, report, progress, time.deadline);
        run_rounds(runner, options, report, progress);
    }
    // A worker that does not leave in time must first finish an earlier order, or hangs; its connection is then closed.
    constexpr std::chrono::seconds timeout(2);
    measure::shutdown_workers(coordinator, world.workers, timeout, false);
    progress.clear();
    report.seconds = time.seconds();
    return report;
}

} // namespace rdma_nccl::pairs
