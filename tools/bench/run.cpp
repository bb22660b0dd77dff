// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/run.h"

#include "lib/base/format.h"
#include "lib/base/json.h"
#include "lib/base/text.h"
#include "lib/exchange/codec.h"
#include "tools/bench/start_order.h"

#include <algorithm>

namespace rdma_nccl {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Wait this long for other failures after the first one, which need not be the cause.
constexpr milliseconds more_failures(500);
constexpr seconds to_be_ended(10);
/// Counters may lag by a second or two; a driver may hang.
constexpr seconds evidence_limit(10);
/// Limit for a rank's offer in bytes; two of them must fit into a message.
constexpr std::size_t most_offer = std::size_t{1} << 20;

} // namespace

Json start_payload(bool host, const std::vector<Json>& offers, std::size_t rank) {
    if (!host) {
        return offers.front();
    }
    const auto count = offers.size();
    return {{"next", offers[(rank + 1) % count]}, {"previous", offers[(rank + count - 1) % count]}};
}

BenchRunLead::BenchRunLead(BenchContext crew, const BenchOptions& options, std::vector<GpuSlot> places, BenchRun run,
                           int number, unsigned rings)
    : crew_(crew), options_(options), run_(std::move(run)), number_(number), rings_(rings),
      last_news_(MeasureClock::now()) {
    for (const auto& place : places) {
        ranks_.push_back({place, gpu_of(place), false, false, std::nullopt, {}});
    }
}

RunEnd BenchRunLead::carry_out(std::optional<Time> deadline, const std::function<void(const BenchRow&)>& row) {
    auto end = RunEnd::Done;
    start();
    std::optional<Time> stop_at;
    std::optional<Time> give_up;
    while (!all_ended() && !(give_up && MeasureClock::now() >= *give_up)) {
        auto until = give_up ? *give_up : stop_at ? *stop_at : last_news_ + options_.limit;
        until = deadline && !stopped_ ? std::min(until, *deadline) : until;
        const auto event = crew_.head.next(until);
        const auto now = MeasureClock::now();
        if (event.kind == MeasureEvent::Kind::Interrupted) {
            end = RunEnd::Interrupted;
            stop_at = now;
        }
        take_event(event, row);
        if (!failures_.empty() && !stop_at) {
            stop_at = now + more_failures;
        }
        if (!stop_at && deadline && now >= *deadline) {
            end = RunEnd::TimeLimit;
            stop_at = now;
        }
        if (!stop_at && now >= last_news_ + options_.limit) {
            hang_ = "?"; // filled in later: each rank's last activity arrives with its end
            stop_at = now;
        }
        if (stop_at && now >= *stop_at && !stopped_) {
            stop();
            give_up = now + to_be_ended;
        }
    }
    if (!gather_evidence(end == RunEnd::Interrupted)) {
        end = RunEnd::Interrupted;
    }
    run_.problem = !hang_.empty() ? describe_hang() : words_of_failures();
    return end;
}

unsigned BenchRunLead::gpu_of(const GpuSlot& place) const {
    const auto peer = crew_.peers.find(place.member);
    const auto index = place.gpu / options_.ranks_per_gpu;
    return peer == crew_.peers.end() || index >= peer->second.gpus.size() ? index : peer->second.gpus[index];
}

void BenchRunLead::start() {
    std::map<unsigned, std::vector<BenchRankPlace>> of_members;
    for (unsigned rank = 0; rank < ranks_.size(); ++rank) {
        of_members[ranks_[rank].place.member].push_back({rank, ranks_[rank].gpu});
    }
    const auto watching = watchers();
    for (const unsigned member : watching) {
        (void)of_members[member]; // even if it starts no rank
    }
    for (const auto& [member, ranks] : of_members) {
        crew_.head.send(member, start_json({number_, run_.kind, static_cast<unsigned>(ranks_.size()), ranks,
                                            options_.work, rings_, watching.contains(member)}));
    }
}

/// Returns the first member of each node that has ranks.
std::set<unsigned> BenchRunLead::watchers() const {
    std::set<std::string> nodes;
    for (const auto& rank : ranks_) {
        if (const auto peer = crew_.peers.find(rank.place.member); peer != crew_.peers.end()) {
            nodes.insert(peer->second.offer.node);
        }
    }
    std::map<std::string, unsigned> first; // by node: the member with the lowest local number
    for (const auto& [member, peer] : crew_.peers) {
        const auto& node = peer.offer.node;
        if (nodes.contains(node) && (!first.contains(node) || peer.local < crew_.peers.at(first.at(node)).local)) {
            first[node] = member;
        }
    }
    std::set<unsigned> members;
    for (const auto& [node, member] : first) {
        members.insert(member);
    }
    return members;
}

void BenchRunLead::stop() {
    stopped_ = true;
    std::set<unsigned> members;
    for (const auto& rank : ranks_) {
        if (!rank.ended && members.insert(rank.place.member).second) {
            crew_.head.send(rank.place.member, {{"do", "stop"}, {"run", number_}});
        }
    }
}

bool BenchRunLead::all_ended() const {
    return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.ended; });
}

void BenchRunLead::take_event(const MeasureEvent& event, const std::function<void(const BenchRow&)>& row) {
    if (event.kind == MeasureEvent::Kind::Lost) {
        return lose(event.member, event.why);
    }
    if (event.kind != MeasureEvent::Kind::Message) {
        return;
    }
    try {
        const auto& message = event.message;
        if (message.value("run", -1) != number_) {
            return;
        }
        if (message.contains("evidence")) {
            if (auto evidence = read_evidence(message.at("evidence").get<std::string>())) {
                evidence_[event.member] = std::move(*evidence);
            } else {
                evidence_[event.member].problem = evidence.error().message;
            }
            return;
        }
        if (message.contains("refused")) {
            return end_all_of(event.member, format_text("{} {}", name_of_member(event.member),
                                                        printable(message.at("refused").get<std::string>())));
        }
        const auto rank = message.at("rank").get<std::size_t>();
        if (rank >= ranks_.size() || ranks_[rank].place.member != event.member) {
            return; // another member's rank
        }
        last_news_ = MeasureClock::now();
        if (message.contains("ended")) {
            take_end(static_cast<unsigned>(rank), message);
        } else {
            take_words(static_cast<unsigned>(rank), message.at("says"), row);
        }
    } catch (const JsonError& fault) {
        failures_.push_back(
            {0, format_text("{} says what cannot be read: {}", name_of_member(event.member), printable(fault.what())),
             false});
    }
}

void BenchRunLead::take_words(unsigned rank, const Json& says, const std::function<void(const BenchRow&)>& row) {
    if (says.contains("offer")) {
        if (measure_text(says.at("offer")).size() > most_offer) {
            return fail_rank(rank, "says more than neighbours have to know", false);
        }
        ranks_[rank].offer = says.at("offer");
        const bool all = std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& r) { return r.offer.has_value(); });
        if (all) {
            send_go();
        }
    } else if (says.contains("row")) {
        take_row(rank, says.at("row"), row);
    } else if (says.contains("failed")) {
        fail_rank(rank, printable(says.at("failed").get<std::string>(), 800), says.value("remote", false));
    } else if (says.contains("done")) {
        take_done(rank, says.at("done"));
    }
}

void BenchRunLead::take_done(unsigned rank, const Json& done) {
    if (rank == 0) {
        run_.library = printable(done.value("library", std::string()), 300);
    }
    ranks_[rank].done = true;
    if (options_.host && std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& each) { return each.done; })) {
        for (unsigned other = 0; other < ranks_.size(); ++other) {
            crew_.head.send(ranks_[other].place.member, {{"do", "leave"}, {"run", number_}, {"rank", other}});
        }
    }
}

/// Takes the rows of rank 0 only: all ranks get the same figures.
void BenchRunLead::take_row(unsigned rank, const Json& text, const std::function<void(const BenchRow&)>& row) {
    if (rank != 0) {
        return;
    }
    auto read = read_row(text);
    if (!read) {
        return fail_rank(rank, format_text("{}: another version of rdma-nccl-bench?", read.error().message), false);
    }
    if (run_.rows.size() >= options_.work.operations.size() * options_.work.sizes.size()) {
        return fail_rank(rank, "tells more results than were asked for", false);
    }
    row(*read);
    run_.rows.push_back(std::move(*read));
}

void BenchRunLead::take_end(unsigned rank, const Json& message) {
    auto& known = ranks_[rank];
    known.ended = true;
    known.at = printable(message.value("at", std::string()), 120);
    const auto how = printable(message.value("ended", std::string()), 200);
    const bool has_said = std::any_of(failures_.begin(), failures_.end(),
                                      [rank](const Failure& failure) { return failure.rank == rank; });
    if (!how.empty() && !has_said && !stopped_) {
        fail_rank(rank, format_text("{}{}{}", how, known.at.empty() ? "" : " at: ", known.at), false);
    }
}

void BenchRunLead::lose(unsigned member, const std::string& why) {
    const auto peer = crew_.peers.find(member);
    if (peer == crew_.peers.end()) {
        return;
    }
    const auto words = format_text("{} is gone: {}", peer->second.offer.node, why);
    crew_.losses.push_back(words);
    crew_.peers.erase(peer);
    end_all_of(member, words);
}

void BenchRunLead::end_all_of(unsigned member, const std::string& words) {
    for (unsigned rank = 0; rank < ranks_.size(); ++rank) {
        if (ranks_[rank].place.member == member && !ranks_[rank].ended) {
            ranks_[rank].ended = true;
            failures_.push_back({rank, words, false});
        }
    }
}

void BenchRunLead::send_go() {
    std::vector<Json> offers;
    offers.reserve(ranks_.size());
    for (const auto& rank : ranks_) {
        offers.push_back(*rank.offer);
    }
    for (unsigned rank = 0; rank < ranks_.size(); ++rank) {
        crew_.head.send(
            ranks_[rank].place.member,
            {{"do", "go"}, {"run", number_}, {"rank", rank}, {"go", start_payload(options_.host, offers, rank)}});
    }
}

void BenchRunLead::fail_rank(unsigned rank, std::string words, bool consequence) {
    failures_.push_back({rank, format_text("{}: {}", name_of(rank), words), consequence});
}

std::string BenchRunLead::name_of_member(unsigned member) const {
    const auto peer = crew_.peers.find(member);
    return peer == crew_.peers.end() ? format_text("member {}", member) : peer->second.offer.node;
}

std::string BenchRunLead::name_of(unsigned rank) const {
    const auto node = name_of_member(ranks_[rank].place.member);
    return options_.host ? format_text("rank {} ({})", rank, node)
                         : format_text("rank {} ({}, its GPU {})", rank, node, ranks_[rank].gpu);
}

std::string BenchRunLead::describe_hang() const {
    // Ranks whose activity differs from the majority's are where to look.
    std::map<std::string, std::vector<unsigned>> by_place;
    for (unsigned rank = 0; rank < ranks_.size(); ++rank) {
        by_place[ranks_[rank].at].push_back(rank);
    }
    const auto most = std::max_element(by_place.begin(), by_place.end(),
                                       [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
    const auto limit = static_cast<double>(options_.limit.count()) / 1000;
    if (by_place.size() == 1) {
        return format_text("nothing happened for {:g} s, while all ranks were at: {}; run again with NCCL_DEBUG=INFO",
                           limit, most->first.empty() ? "their start" : most->first);
    }
    std::string words = format_text("nothing happened for {:g} s: ", limit);
    for (const auto& [at, ranks] : by_place) {
        if (at == most->first && by_place.size() > 1 && ranks.size() > 1) {
            continue;
        }
        words += format_text("{}{} at: {}; ", name_of(ranks.front()),
                             ranks.size() > 1 ? format_text(" and {} others", ranks.size() - 1) : "",
                             at.empty() ? "its start" : at);
    }
    return most->second.size() > 1 ? words + format_text("the others at: {}", most->first)
                                   : words.substr(0, words.size() - 2);
}

std::string BenchRunLead::words_of_failures() const {
    if (failures_.empty()) {
        return all_ended() || stopped_ ? "" : "its ranks could not be ended";
    }
    const auto cause =
        std::find_if(failures_.begin(), failures_.end(), [](const Failure& failure) { return !failure.consequence; });
    const auto& first = cause == failures_.end() ? failures_.front() : *cause;
    std::set<unsigned> others;
    for (const auto& failure : failures_) {
        if (failure.rank != first.rank) {
            others.insert(failure.rank);
        }
    }
    return others.empty()
               ? first.words
               : format_text("{} ({} other{} failed, too)", first.words, others.size(), others.size() == 1 ? "" : "s");
}

bool BenchRunLead::gather_evidence(bool interrupted) {
    const auto asked = watchers();
    for (const unsigned member : asked) {
        crew_.head.send(member, {{"do", "evidence"}, {"run", number_}});
    }
    const auto until = MeasureClock::now() + evidence_limit;
    const auto missing = [&] {
        return std::any_of(asked.begin(), asked.end(), [this](unsigned member) {
            return crew_.peers.contains(member) && !evidence_.contains(member);
        });
    };
    while (missing() && MeasureClock::now() < until) {
        const auto event = crew_.head.next(until);
        if (event.kind == MeasureEvent::Kind::Interrupted) {
            if (interrupted) {
                break; // a second interrupt: stop now
            }
            interrupted = true;
        }
        take_event(event, [](const BenchRow&) {});
    }
    std::vector<NodeEvidence> heard;
    std::vector<std::string> silent;
    for (const unsigned member : asked) {
        if (const auto found = evidence_.find(member); found != evidence_.end()) {
            heard.push_back(std::move(found->second));
        } else if (const auto peer = crew_.peers.find(member); peer != crew_.peers.end()) {
            silent.push_back(peer->second.offer.node);
        }
    }
    if (!heard.empty()) {
        run_.verdict = judge_step(std::move(heard), std::move(silent));
    }
    return !interrupted;
}

} // namespace rdma_nccl
