// SPDX-License-Identifier: Apache-2.0
#include "tools/run/control/arbiter.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"

#include <algorithm>

namespace rdma_nccl::run {

constexpr int lost_code = 1;

void Arbiter::on_failure(unsigned node, RankFailure failure, Time when) {
    if (node >= nodes_.size() || finished_ || failure.attempt != attempt_) {
        return;
    }
    const auto key = std::pair(failure.attempt, failure.rank);
    const auto why = format_text("rank {} (local {}) on {}: {}", failure.rank, failure.local_rank, failure.host,
                                 describe_end(failure));
    if (const auto known = failures_.find(key); known != failures_.end()) {
        known->second.failure = std::move(failure); // keep the time of the first notice
        return;
    }
    failures_.emplace(key, Known{std::move(failure), when});
    end(0, why);
}

void Arbiter::on_dump(unsigned node, RankDump dump) {
    if (node < nodes_.size() && !finished_ && dump.attempt == attempt_) {
        dumps_.insert_or_assign(dump.dump.rank, std::move(dump));
    }
}

void Arbiter::on_ended(unsigned node, const Ended& ended) {
    if (node < nodes_.size() && !finished_ && ended.attempt == attempt_) {
        nodes_[node].ended = true;
        clean_ = clean_ && ended.clean;
        conclude();
    }
}

void Arbiter::on_signal(unsigned node, const SignalCount& got) {
    if (node >= nodes_.size() || finished_ || got.count <= signals_[got.signal]) {
        return;
    }
    signals_[got.signal] = got.count;
    signals_of_ranks_.insert(got.signal);
    if (const auto mapped_to = rules_.on_signal.find(got.signal); mapped_to != rules_.on_signal.end()) {
        signals_of_ranks_.insert(mapped_to->second);
    }
    if (rules_.end_signals.contains(got.signal)) {
        stopped_ = true;
        if (!ending_) {
            ending_ = EndRanks{attempt_, {}}; // empty reason: the signal itself ends the ranks
            code_ = 128 + got.signal;
        }
    }
    orders_.emplace_back(got);
}

void Arbiter::on_lost(unsigned node, const std::string& why) {
    if (node >= nodes_.size() || finished_ || nodes_[node].lost) {
        return;
    }
    nodes_[node].lost = true;
    end_reasons_.push_back(why);
    end(lost_code, why);
    conclude();
}

void Arbiter::on_absent(unsigned node, bool absent) {
    if (node < nodes_.size() && !finished_ && nodes_[node].absent != absent) {
        nodes_[node].absent = absent;
        conclude();
    }
}

void Arbiter::on_hang(std::vector<Laggard> laggards, const std::optional<std::string>& end_for) {
    if (is_ending()) {
        return;
    }
    orders_.emplace_back(ShowStacks{});
    for (auto& laggard : laggards) {
        orders_.emplace_back(std::move(laggard));
    }
    if (end_for) {
        end_reasons_.push_back(*end_for);
        end(lost_code, *end_for);
    }
}

std::vector<Order> Arbiter::standing_orders() const {
    std::vector<Order> orders;
    for (const auto& [number, count] : signals_) {
        orders.emplace_back(SignalCount{number, count, true});
    }
    if (ending_ && !ending_->why.empty()) {
        orders.emplace_back(*ending_);
    }
    if (finished_) {
        orders.emplace_back(*finished_);
    }
    return orders;
}

std::vector<RankFailure> Arbiter::failures() const {
    auto by_time = mapped(failures_, &decltype(failures_)::value_type::second);
    // By attempt, then by time; failures at the same time are in the order of ranks.
    std::ranges::stable_sort(by_time, {}, [](const Known& one) { return std::pair(one.failure.attempt, one.when); });
    return mapped(by_time, &Known::failure);
}

std::vector<RankDump> Arbiter::dumps() const {
    return mapped(dumps_, &decltype(dumps_)::value_type::second);
}

void Arbiter::end(int code, const std::string& why) {
    if (ending_) {
        return;
    }
    ending_ = EndRanks{attempt_, why};
    code_ = code;
    orders_.emplace_back(*ending_);
}

bool Arbiter::may_restart() const {
    const bool by_rank = ending_ && code_ == 0; // not by a signal or a lost node
    const bool all_there = std::ranges::all_of(nodes_, [](const Node& node) { return node.ended && !node.lost; });
    const bool wanted = std::ranges::none_of(failures_, [this](const auto& entry) {
        const auto& failure = entry.second.failure;
        return failure.attempt == attempt_ &&
               (failure.code == rules_.no_restart_code || signals_of_ranks_.contains(failure.code - 128));
    });
    return by_rank && !stopped_ && all_there && clean_ && wanted && attempt_ < rules_.max_restarts;
}

void Arbiter::conclude() {
    if (std::ranges::any_of(nodes_, &Node::awaited)) {
        return;
    }
    if (may_restart()) {
        if (const auto port = rules_.new_port ? rules_.new_port(attempt_ + 1) : std::nullopt) {
            orders_.emplace_back(Restart{++attempt_, *port});
            nodes_.assign(nodes_.size(), {});
            signals_of_ranks_.clear();
            dumps_.clear();
            ending_.reset();
            return;
        }
    }
    int code = code_;
    for (const auto& failure : failures()) {
        if (code == 0 && ending_ && failure.attempt == attempt_) {
            code = failure.code;
        }
    }
    finished_ = Finish{code};
    orders_.emplace_back(*finished_);
}

} // namespace rdma_nccl::run
