// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/bench.h"

#include "lib/base/format.h"
#include "lib/base/text.h"
#include "lib/exchange/messages.h"

#include <algorithm>
#include <set>
#include <utility>

namespace rdma_nccl::bench {

namespace {

using std::chrono::seconds;
using Time = measure::Clock::time_point;

/// Wait this long for other failures after the first one, which need not be the cause.
constexpr std::chrono::milliseconds more_failures(500);
constexpr seconds end_timeout(10);
/// Counters may lag by a second or two; a driver may hang.
constexpr seconds evidence_timeout(10);
/// Limit for a rank's offer in bytes; two of them must fit into a message.
constexpr std::size_t most_offer = std::size_t{1} << 20;

/// A rank of the run, as the coordinator sees it.
struct RunRank {
    RankSlot place;
    unsigned gpu = 0; ///< CUDA's number
    bool ended = false;
    bool done = false; ///< it has measured everything and waits for the others
    std::optional<Json> offer{};
    std::string at{}; ///< its last activity
};

class RunRanks {
public:
    RunRanks(const RunContext& context, const std::vector<RankSlot>& places) : context_(context) {
        for (const auto& place : places) {
            const auto peer = context.peers.find(place.worker);
            const auto index = place.slot / context.options.ranks_per_gpu;
            const bool known = peer != context.peers.end() && index < peer->second.gpus.size();
            all.push_back({place, known ? peer->second.gpus[index] : index});
        }
    }

    [[nodiscard]] bool have_ended() const { return std::ranges::all_of(all, &RunRank::ended); }
    [[nodiscard]] bool have_failed() const { return !failures_.empty(); }
    [[nodiscard]] bool has_failed(unsigned rank) const {
        return std::ranges::find(failures_, rank, &Failure::rank) != failures_.end();
    }

    /// `consequence`: caused by another rank's failure.
    void fail(unsigned rank, std::string_view why, bool consequence = false) {
        failures_.push_back({rank, format_text("{}: {}", name_of(rank), why), consequence});
    }
    /// A failure that names its place itself.
    void fail_as(unsigned rank, std::string text) { failures_.push_back({rank, std::move(text), false}); }
    void end_all_of(unsigned worker, const std::string& why) {
        for (unsigned rank = 0; rank < all.size(); ++rank) {
            if (all[rank].place.worker == worker && !std::exchange(all[rank].ended, true)) {
                fail_as(rank, why);
            }
        }
    }

    [[nodiscard]] std::string name_of_worker(unsigned worker) const {
        const auto peer = context_.peers.find(worker);
        return peer == context_.peers.end() ? format_text("member {}", worker) : peer->second.offer.node;
    }
    [[nodiscard]] std::string name_of(unsigned rank) const {
        const auto node = name_of_worker(all[rank].place.worker);
        return context_.options.host ? format_text("rank {} ({})", rank, node)
                                     : format_text("rank {} ({}, its GPU {})", rank, node, all[rank].gpu);
    }

    /// Returns the first failure that is not a consequence of another; empty if there is none.
    [[nodiscard]] std::string failure_text() const {
        if (failures_.empty()) {
            return "";
        }
        const auto cause = std::ranges::find(failures_, false, &Failure::consequence);
        const auto& first = cause == failures_.end() ? failures_.front() : *cause;
        std::set<unsigned> others;
        for (const auto& failure : failures_) {
            others.insert(failure.rank);
        }
        others.erase(first.rank);
        return others.empty() ? first.text
                              : format_text("{} ({} failed, too)", first.text, format_count(others.size(), "other"));
    }

    /// Names the ranks whose activity differs from the majority's: they are where to look.
    [[nodiscard]] std::string hang_text() const {
        std::map<std::string, std::vector<unsigned>> by_activity;
        for (unsigned rank = 0; rank < all.size(); ++rank) {
            by_activity[all[rank].at].push_back(rank);
        }
        const auto most =
            std::ranges::max_element(by_activity, {}, [](const auto& entry) { return entry.second.size(); });
        const auto limit = context_.options.limit_s;
        if (by_activity.size() == 1) {
            return format_text(
                "nothing happened for {:g} s, while all ranks were at: {}; run again with NCCL_DEBUG=INFO", limit,
                most->first.empty() ? "their start" : most->first);
        }
        std::vector<std::string> texts;
        for (const auto& [at, ranks] : by_activity) {
            if (at != most->first || ranks.size() == 1) {
                texts.push_back(format_text("{}{} at: {}", name_of(ranks.front()),
                                            ranks.size() > 1 ? format_text(" and {} others", ranks.size() - 1) : "",
                                            at.empty() ? "its start" : at));
            }
        }
        if (most->second.size() > 1) {
            texts.push_back(format_text("the others at: {}", most->first));
        }
        return format_text("nothing happened for {:g} s: {}", limit, joined(texts, "; "));
    }

    std::vector<RunRank> all;

private:
    struct Failure {
        unsigned rank = 0;
        std::string text;
        bool consequence = false;
    };
    const RunContext& context_;
    std::vector<Failure> failures_;
};

class RunCoordinator {
public:
    RunCoordinator(const RunContext& context, RunPlan plan, Run& run, std::function<void(const ResultRow&)> on_row)
        : context_(context), plan_(std::move(plan)), run_(run), on_row_(std::move(on_row)),
          ranks_(context, plan_.places), last_progress_(measure::Clock::now()) {}

    std::string carry_out(std::optional<Time> deadline) {
        std::string ended_early;
        bool hangs = false;
        start();
        const auto limit = measure::to_milliseconds(context_.options.limit_s);
        std::optional<Time> stop_at;
        std::optional<Time> give_up;
        while (!ranks_.have_ended() && !(give_up && measure::Clock::now() >= *give_up)) {
            auto until = give_up ? *give_up : stop_at ? *stop_at : last_progress_ + limit;
            until = deadline && !stopped_ ? std::min(until, *deadline) : until;
            const auto event = context_.head.next(until);
            const auto now = measure::Clock::now();
            if (event.kind == measure::Event::Kind::Interrupted) {
                ended_early = "interrupted";
                stop_at = now;
            }
            take_event(event);
            if (ranks_.have_failed() && !stop_at) {
                stop_at = now + more_failures;
            }
            if (!stop_at && deadline && now >= *deadline) {
                ended_early = "time limit";
                stop_at = now;
            }
            if (!stop_at && now >= last_progress_ + limit) {
                hangs = true;
                stop_at = now;
            }
            if (stop_at && now >= *stop_at && !stopped_) {
                stop();
                give_up = now + end_timeout;
            }
        }
        if (!gather_evidence(ended_early == "interrupted")) {
            ended_early = "interrupted";
        }
        // Each rank's last activity arrives with its end, so a hang is described now.
        run_.problem = hangs ? ranks_.hang_text() : ranks_.failure_text();
        if (run_.problem.empty() && !ranks_.have_ended() && !stopped_) {
            run_.problem = "its ranks could not be ended";
        }
        return ended_early;
    }

private:
    // --- Orders ---

    void start() {
        std::map<unsigned, std::vector<RankPlace>> of_members;
        for (unsigned rank = 0; rank < ranks_.all.size(); ++rank) {
            of_members[ranks_.all[rank].place.worker].push_back({rank, ranks_.all[rank].gpu});
        }
        const auto watching = watchers();
        for (const unsigned worker : watching) {
            (void)of_members[worker]; // even if it starts no rank
        }
        for (const auto& [worker, places] : of_members) {
            context_.head.send(worker,
                               start_json({plan_.number, run_.kind, static_cast<unsigned>(ranks_.all.size()), places,
                                           context_.options.work, plan_.rings, watching.contains(worker)}));
        }
    }

    /// Tells each rank what it must know of others: NCCL's id from rank 0; or its neighbours in a ring.
    void send_go() {
        const auto count = static_cast<unsigned>(ranks_.all.size());
        const auto offer = [this](unsigned rank) { return *ranks_.all[rank].offer; };
        for (unsigned rank = 0; rank < count; ++rank) {
            const auto go = !context_.options.host ? offer(0)
                                                   : Json{{"next", offer((rank + 1) % count)},
                                                          {"previous", offer((rank + count - 1) % count)}};
            context_.head.send(ranks_.all[rank].place.worker,
                               {{"do", "go"}, {"run", plan_.number}, {"rank", rank}, {"go", go}});
        }
    }

    void stop() {
        stopped_ = true;
        std::set<unsigned> workers;
        for (const auto& rank : ranks_.all) {
            if (!rank.ended && workers.insert(rank.place.worker).second) {
                context_.head.send(rank.place.worker, {{"do", "stop"}, {"run", plan_.number}});
            }
        }
    }

    // --- Answers ---

    void take_event(const measure::Event& event) {
        if (event.kind == measure::Event::Kind::Lost) {
            return lose(event.worker, event.why);
        }
        if (event.kind != measure::Event::Kind::Message) {
            return;
        }
        try {
            if (event.message.value("run", -1) == plan_.number) {
                take_answer(event.worker, event.message);
            }
        } catch (const JsonError& fault) {
            ranks_.fail_as(0, format_text("{} says what cannot be read: {}", ranks_.name_of_worker(event.worker),
                                          printable(fault.what())));
        }
    }

    void take_answer(unsigned worker, const Json& message) {
        if (message.contains("evidence")) {
            if (auto evidence = read_evidence(message.at("evidence").get<std::string>())) {
                evidence_[worker] = std::move(*evidence);
            } else {
                evidence_[worker].problem = evidence.error().message;
            }
            return;
        }
        if (message.contains("refused")) {
            return ranks_.end_all_of(worker, format_text("{} {}", ranks_.name_of_worker(worker),
                                                         printable(message.at("refused").get<std::string>())));
        }
        const auto number = message.at("rank").get<std::size_t>();
        if (number >= ranks_.all.size() || ranks_.all[number].place.worker != worker) {
            return; // another worker's rank
        }
        const auto rank = static_cast<unsigned>(number);
        last_progress_ = measure::Clock::now();
        if (message.contains("ended")) {
            take_end(rank, message);
        } else {
            take_report(rank, message.at("says"));
        }
    }

    void take_report(unsigned rank, const Json& report) {
        auto& known = ranks_.all[rank];
        if (report.contains("offer")) {
            if (report.at("offer").dump().size() > most_offer) {
                return ranks_.fail(rank, "says more than neighbours have to know");
            }
            known.offer = report.at("offer");
            if (std::ranges::all_of(ranks_.all, [](const RunRank& each) { return each.offer.has_value(); })) {
                send_go();
            }
        } else if (report.contains("row")) {
            take_row(rank, report.at("row"));
        } else if (report.contains("failed")) {
            if (stopped_ && !ranks_.have_failed()) {
                return; // its peer was ended before it
            }
            ranks_.fail(rank, printable(report.at("failed").get<std::string>(), 800), report.value("remote", false));
        } else if (report.contains("done")) {
            if (rank == 0) {
                run_.library = printable(report.at("done").value("library", std::string()), 300);
            }
            known.done = true;
            if (context_.options.host && std::ranges::all_of(ranks_.all, &RunRank::done)) {
                for (unsigned each = 0; each < ranks_.all.size(); ++each) {
                    context_.head.send(ranks_.all[each].place.worker,
                                       {{"do", "leave"}, {"run", plan_.number}, {"rank", each}});
                }
            }
        }
    }

    /// Takes the rows of rank 0 only: all ranks get the same figures.
    void take_row(unsigned rank, const Json& json) {
        if (rank != 0) {
            return;
        }
        auto row = read_result_row(json);
        const auto& work = context_.options.work;
        if (!row) {
            return ranks_.fail(rank, format_text("{}: another version of rdma-nccl-bench?", row.error().message));
        }
        if (run_.rows.size() >= work.operations.size() * work.sizes.size()) {
            return ranks_.fail(rank, "tells more results than were asked for");
        }
        on_row_(*row);
        run_.rows.push_back(std::move(*row));
    }

    void take_end(unsigned rank, const Json& message) {
        auto& known = ranks_.all[rank];
        known.ended = true;
        known.at = printable(message.value("at", std::string()), 120);
        const auto how = printable(message.value("ended", std::string()), 200);
        if (!how.empty() && !ranks_.has_failed(rank) && !stopped_) {
            ranks_.fail(rank, format_text("{}{}{}", how, known.at.empty() ? "" : " at: ", known.at));
        }
    }

    void lose(unsigned worker, const std::string& why) {
        if (const auto peer = context_.peers.find(worker); peer != context_.peers.end()) {
            const auto text = format_text("{} is gone: {}", peer->second.offer.node, why);
            context_.losses.push_back(text);
            context_.peers.erase(peer);
            ranks_.end_all_of(worker, text);
        }
    }

    // --- Counters ---

    /// Returns the first worker of each node that has ranks: the one with the lowest local number.
    [[nodiscard]] std::set<unsigned> watchers() const {
        std::map<std::string, std::pair<unsigned, unsigned>> first; // by node: local number, and worker
        for (const auto& [worker, peer] : context_.peers) {
            const std::pair own(peer.node.local, worker);
            auto& best = first.try_emplace(peer.offer.node, own).first->second;
            best = std::min(best, own);
        }
        std::set<unsigned> workers;
        for (const auto& rank : ranks_.all) {
            if (const auto peer = context_.peers.find(rank.place.worker); peer != context_.peers.end()) {
                workers.insert(first.at(peer->second.offer.node).second);
            }
        }
        return workers;
    }

    /// `interrupted`: an interrupt came before. Returns false if one came before or while gathering.
    bool gather_evidence(bool interrupted) {
        on_row_ = [](const ResultRow&) {};
        const auto asked = watchers();
        for (const unsigned worker : asked) {
            context_.head.send(worker, {{"do", "evidence"}, {"run", plan_.number}});
        }
        const auto until = measure::Clock::now() + evidence_timeout;
        const auto is_missing = [this](unsigned worker) {
            return context_.peers.contains(worker) && !evidence_.contains(worker);
        };
        while (std::ranges::any_of(asked, is_missing) && measure::Clock::now() < until) {
            const auto event = context_.head.next(until);
            if (event.kind == measure::Event::Kind::Interrupted && std::exchange(interrupted, true)) {
                break; // a second interrupt: stop now
            }
            take_event(event);
        }
        std::vector<NodeEvidence> evidence;
        std::vector<std::string> unresponsive;
        for (const unsigned worker : asked) {
            if (const auto found = evidence_.find(worker); found != evidence_.end()) {
                evidence.push_back(std::move(found->second));
            } else if (is_missing(worker)) {
                unresponsive.push_back(ranks_.name_of_worker(worker));
            }
        }
        if (!evidence.empty()) {
            run_.verdict = judge_step(std::move(evidence), std::move(unresponsive));
        }
        return !interrupted;
    }

    const RunContext& context_;
    RunPlan plan_;
    Run& run_;
    std::function<void(const ResultRow&)> on_row_;
    RunRanks ranks_;
    std::map<unsigned, NodeEvidence> evidence_; ///< by worker
    Time last_progress_;
    bool stopped_ = false;
};

} // namespace

std::string carry_out(const RunContext& context, RunPlan plan, Run& run, std::optional<Time> deadline,
                      std::function<void(const ResultRow&)> on_row) {
    return RunCoordinator(context, std::move(plan), run, std::move(on_row)).carry_out(deadline);
}

} // namespace rdma_nccl::bench
