// SPDX-License-Identifier: Apache-2.0
#include "tools/pairs/round_runner.h"

#include "lib/base/format.h"

#include <algorithm>

namespace rdma_nccl {

namespace {

constexpr std::chrono::milliseconds between_samples(500);

} // namespace

bool PairsRounds::run(const std::vector<Round>& rounds, bool retest) {
    for (std::size_t i = 0; i < rounds.size(); ++i) {
        const auto started = MeasureClock::now();
        begin(rounds[i], retest);
        while (busy()) {
            show(rounds.size() - i);
            if (!wait()) {
                return false;
            }
        }
        collect(true);
        ++rounds_done_;
        spent_ += MeasureClock::now() - started;
    }
    return true;
}

PairingJob PairsRounds::job_of(const Pairing& pairing, bool retest) const {
    PairingJob job;
    job.pairing = pairing;
    job.round = rounds_done_;
    job.retest = retest;
    const auto& a = report_.nodes.at(pairing.a);
    const auto& b = report_.nodes.at(pairing.b);
    job.names = {a.name, b.name};
    job.rails = {a.rails.at(pairing.rail_a), b.rails.at(pairing.rail_b)};
    job.measure = report_.measure;
    job.was_unresponsive = crew_.was_silent(pairing.a) || crew_.was_silent(pairing.b);
    return job;
}

void PairsRounds::begin(const Round& round, bool retest) {
    runs_.clear();
    places_.clear();
    runs_.reserve(round.size());
    const auto now = MeasureClock::now();
    for (const auto& pairing : round) {
        auto job = job_of(pairing, retest);
        const auto a = crew_.useless(pairing.a);
        const auto b = crew_.useless(pairing.b);
        if (a || b) {
            skip(job, a ? pairing.a : pairing.b, a ? *a : *b);
            continue;
        }
        job.number = ++numbers_;
        runs_.emplace_back(std::move(job));
        for (unsigned side = 0; side < runs_.back().job().sides(); ++side) {
            places_[crew_.member_of(runs_.back().job().node(side))] = {runs_.size() - 1, side};
        }
        send(runs_.size() - 1, runs_.back().start(now));
    }
}

void PairsRounds::skip(const PairingJob& job, unsigned node, const std::string& why) {
    PairResult result;
    result.pairing = job.pairing;
    result.round = job.round;
    result.retest = job.retest;
    result.problem = "skipped: " + why;
    result.fault_of = node;
    add(std::move(result));
}

void PairsRounds::add(PairResult result) {
    failed_ += result.problem.empty() ? 0U : 1U;
    report_.results.push_back(std::move(result));
}

void PairsRounds::send(std::size_t run, const SideOrders& orders) {
    for (const auto& order : orders) {
        head_.send(crew_.member_of(runs_[run].job().node(order.side)), order.what);
    }
}

bool PairsRounds::busy() const {
    return std::any_of(runs_.begin(), runs_.end(), [](const PairingRun& run) { return !run.done(); });
}

PairsRounds::Time PairsRounds::next_deadline() const {
    auto next = MeasureClock::now() + between_samples;
    for (const auto& run : runs_) {
        next = run.done() ? next : std::min(next, run.deadline());
    }
    return deadline_ ? std::min(next, *deadline_) : next;
}

bool PairsRounds::wait() {
    const auto event = head_.next(next_deadline());
    if (event.kind == MeasureEvent::Kind::Interrupted) {
        return end_early(format_text("interrupted by {}", event.why));
    }
    take(event);
    if (deadline_ && MeasureClock::now() >= *deadline_) {
        return end_early("time limit");
    }
    expire();
    return true;
}

void PairsRounds::take(const MeasureEvent& event) {
    const auto found = places_.find(event.member);
    if (event.kind == MeasureEvent::Kind::Lost) {
        crew_.lose(event.member, event.why);
        if (found != places_.end()) {
            send(found->second.run, runs_[found->second.run].lose(found->second.side, event.why));
        }
    } else if (event.kind == MeasureEvent::Kind::Message) {
        crew_.note_answer(event.member);
        if (found != places_.end()) {
            auto& run = runs_[found->second.run];
            send(found->second.run, run.take(found->second.side, event.message, MeasureClock::now()));
        }
    }
}

void PairsRounds::expire() {
    const auto now = MeasureClock::now();
    for (std::size_t i = 0; i < runs_.size(); ++i) {
        if (runs_[i].done() || now < runs_[i].deadline()) {
            continue;
        }
        for (const unsigned side : runs_[i].awaited()) {
            crew_.note_silence(runs_[i].job().node(side));
        }
        send(i, runs_[i].expire());
    }
}

bool PairsRounds::end_early(std::string why) {
    report_.ended_early = std::move(why);
    for (std::size_t i = 0; i < runs_.size(); ++i) {
        send(i, runs_[i].stop());
    }
    collect(false);
    return false;
}

/// Adds the results of the round. Without `all`, leaves out pairings that have neither values nor a problem.
void PairsRounds::collect(bool all) {
    for (const auto& run : runs_) {
        if (all || run.has_values() || !run.result().problem.empty()) {
            add(run.result());
        }
    }
    runs_.clear();
}

void PairsRounds::show(std::size_t left) {
    const auto now = MeasureClock::now();
    if (!progress_.due(now)) {
        return;
    }
    const bool loopback = !runs_.empty() && runs_.front().job().loopback();
    const auto each =
        rounds_done_ > 0 ? spent_ / rounds_done_ : MeasureClock::duration(expected_time(report_.measure, loopback));
    const auto left_time = std::chrono::duration_cast<std::chrono::milliseconds>(each * left);
    progress_.show(format_text("{} of {} pairings measured{}, about {} left", report_.results.size(), report_.planned,
                               failed_ > 0 ? format_text(", {} failed", failed_) : "", duration_text(left_time)),
                   now);
}

} // namespace rdma_nccl
