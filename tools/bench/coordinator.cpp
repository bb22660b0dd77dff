// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/bench.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "tools/common/print.h"

#include <algorithm>
#include <climits>
#include <set>

namespace rdma_nccl::bench {

namespace {

constexpr std::size_t most_names = 8;

/// The workers of a measurement: what they offer, and what is wrong with them.
class Workers {
public:
    Workers(const measure::World& world, const Options& options) : world_(world), options_(options) {}

    [[nodiscard]] bool complete() const { return joined_.size() >= world_.workers; }

    void join(unsigned worker, const Json& hello) {
        joined_.insert(worker);
        auto node = read_inspected_node(hello);
        if (!node) {
            unreadable_ = format_text("{}: {}", world_.name_of(worker), node.error().message);
            return;
        }
        if (!node->problem.empty()) {
            problems_.push_back(format_text("{}: {}", node->name, node->problem));
        }
        const Offer offer{worker, node->name, node->places};
        peers.try_emplace(worker, Peer{offer, std::move(*node)});
    }

    void lose(unsigned worker, const std::string& why) {
        if (const auto peer = peers.find(worker); peer != peers.end()) {
            problems_.push_back(format_text("{} is gone: {}", peer->second.offer.node, why));
            peers.erase(peer);
        }
    }

    [[nodiscard]] std::string missing() const {
        std::vector<std::string> names;
        for (unsigned worker = 0; worker < world_.workers; ++worker) {
            if (!joined_.contains(worker)) {
                names.push_back(std::to_string(worker));
            }
        }
        return format_text("task{} {}", names.size() == 1 ? "" : "s", joined_some(names, most_names));
    }

    /// Assigns each GPU to one worker.
    void share() {
        const auto visible = mapped(peers, [](const auto& entry) {
            const auto& node = entry.second.node;
            return WorkerGpus{node.name, node.local, node.problem.empty() ? node.pci : std::vector<std::string>()};
        });
        const auto shares = share_gpus(visible);
        std::size_t next = 0;
        for (auto& [worker, peer] : peers) {
            const bool sees = !visible[next].gpus.empty();
            peer.gpus = shares[next++];
            peer.offer.slots = static_cast<unsigned>(peer.gpus.size()) * options_.ranks_per_gpu;
            if (sees && peer.gpus.empty() && world_.ranks) {
                problems_.push_back(format_text("task {} of {} has no GPU: other tasks use all those that it sees; "
                                                "start one task for each GPU",
                                                peer.node.local, peer.offer.node));
            }
        }
    }

    /// Adds the nodes to the report.
    void describe(Report& report) const {
        const auto add = [](std::vector<std::string>& list, const std::string& name) {
            if (std::ranges::find(list, name) == list.end()) {
                list.push_back(name);
            }
        };
        for (const auto& [worker, peer] : peers) {
            add(report.nodes, peer.offer.node);
            for (const auto& gpu : peer.node.gpus) {
                add(report.gpus, gpu);
            }
            report.software = report.software || std::ranges::any_of(peer.node.rails, &PairRail::software);
        }
    }

    [[nodiscard]] std::vector<Offer> offers() const {
        return mapped(peers, [](const auto& entry) { return entry.second.offer; });
    }

    /// Returns why they cannot measure, or an empty text. Warns of problems.
    [[nodiscard]] std::string judge(measure::Progress& progress) const {
        if (!unreadable_.empty()) {
            return unreadable_;
        }
        unsigned slots = 0;
        for (const auto& [worker, peer] : peers) {
            slots += peer.offer.slots;
        }
        auto versions = versions_text();
        const bool possible = (slots >= 2 || (slots == 1 && options_.ranks == std::vector{1U})) && versions.empty();
        const std::size_t reported_at_the_end = slots == 0 ? 1 : 0;
        for (std::size_t i = reported_at_the_end; i < std::min<std::size_t>(problems_.size(), most_names); ++i) {
            progress.say(format_text("warning: {}", problems_[i]));
        }
        if (possible || !versions.empty()) {
            return versions;
        }
        if (slots == 0) {
            return (problems_.empty() ? "no GPU" : problems_.front()) +
                   (options_.host ? "" : "; rdma-nccl bench --host measures without GPUs");
        }
        return format_text("only one {}: there is nothing to measure between; start it on more nodes: srun "
                           "--rdma-nccl -N 2 ... rdma-nccl bench",
                           options_.host ? "node" : "GPU");
    }

    std::map<unsigned, Peer> peers;

private:
    /// Names nodes with different NCCL versions: NCCL refuses to connect their ranks, but does not name them.
    [[nodiscard]] std::string versions_text() const {
        std::map<int, const InspectedNode*> first; // by version
        for (const auto& [worker, peer] : peers) {
            if (peer.node.places > 0 && peer.node.version != 0) {
                first.try_emplace(peer.node.version, &peer.node);
            }
        }
        if (first.size() < 2) {
            return {};
        }
        const auto& [one, other] = std::pair(first.begin()->second, first.rbegin()->second);
        return format_text("{} has {}, but {} has {}: all nodes need the same (--nccl)", one->name, one->library_text,
                           other->name, other->library_text);
    }

    const measure::World& world_;
    const Options& options_;
    std::set<unsigned> joined_;
    std::vector<std::string> problems_;
    std::string unreadable_; ///< why a worker's message is not, of another version for example
};

class RunSeries {
public:
    RunSeries(measure::Coordinator& head, const measure::World& world, const Options& options,
              measure::Progress& progress)
        : head_(head), world_(world), options_(options), progress_(progress), time_(options), workers_(world, options) {
        report_.started = wall_time_text(wall_time_us());
        report_.host = options.host;
    }

    Report report() {
        if (gather()) {
            report_.ended_early = workers_.judge(progress_);
            if (report_.ended_early.empty()) {
                measure();
            }
        }
        for (unsigned worker = 0; worker < world_.workers; ++worker) {
            head_.send(worker, {{"do", "end"}});
        }
        progress_.clear();
        report_.seconds = time_.seconds();
        return std::move(report_);
    }

private:
    /// Waits for the workers. Returns false if the measurement ends before it starts.
    bool gather() {
        report_.ended_early = measure::await_workers(head_, time_, progress_, workers_);
        if (!report_.ended_early.empty()) {
            return false;
        }
        if (!workers_.complete()) {
            progress_.say(format_text("warning: going on without {}, which did not come within {}", workers_.missing(),
                                      measure::format_duration(options_.join_time())));
        }
        if (!options_.host) {
            workers_.share();
        }
        workers_.describe(report_);
        return true;
    }

    [[nodiscard]] bool is_between_nodes(unsigned ranks) const {
        const auto offers = workers_.offers();
        const auto places = places_for(offers, ranks);
        return options_.host || options_.ranks_per_gpu > 1 || (places && nodes_of(offers, *places) > 1);
    }

    [[nodiscard]] std::vector<Run> plan() const {
        std::vector<Run> planned;
        const auto counts = options_.ranks.empty() ? default_rank_counts(workers_.offers()) : options_.ranks;
        for (const unsigned ranks : counts) {
            for (const auto kind : kinds_of_runs(is_between_nodes(ranks), options_.without_gpu_direct)) {
                planned.push_back(make_run(kind, ranks, options_.host));
            }
        }
        return planned;
    }

    /// Returns the number of rings: as many as every node has HCAs for; 0 if a node has none.
    [[nodiscard]] unsigned rings_of(const std::vector<RankSlot>& places) const {
        unsigned rings = options_.rings.value_or(UINT_MAX);
        for (const auto& place : places) {
            if (const auto peer = workers_.peers.find(place.worker); peer != workers_.peers.end()) {
                rings = std::min(rings, static_cast<unsigned>(peer->second.node.rails.size()));
            }
        }
        return rings;
    }

    /// Estimates the time left from the average time of the runs so far.
    [[nodiscard]] std::string time_left(std::size_t done, std::size_t all) const {
        if (done == 0) {
            return "";
        }
        const auto spent = std::chrono::duration_cast<std::chrono::milliseconds>(measure::Clock::now() - measuring_);
        const auto left = spent * static_cast<std::int64_t>(all - done) / static_cast<std::int64_t>(done);
        return format_text(", about {} left", measure::format_duration(left));
    }

    void measure() {
        const auto planned = plan();
        measuring_ = measure::Clock::now();
        for (std::size_t i = 0; i < planned.size() && report_.ended_early.empty(); ++i) {
            auto& run = report_.runs.emplace_back(planned[i]);
            measure(run, static_cast<int>(i), format_text("run {} of {}", i + 1, planned.size()),
                    time_left(i, planned.size()));
        }
    }

    void measure(Run& run, int number, const std::string& which, const std::string& left) {
        const auto* const unit = options_.host ? "nodes" : "GPUs";
        const auto offers = workers_.offers();
        auto places = places_for(offers, run.ranks);
        if (!places) {
            run.problem = format_text("there are not {} {}{}", run.ranks, unit,
                                      losses_.empty() ? "" : format_text(": {}", losses_.back()));
            return;
        }
        run.nodes = static_cast<unsigned>(nodes_of(offers, *places));
        const auto what = format_text("{}: {} {}, {} ({}){}", which, run.ranks, unit, run.name, run.what, left);
        progress_.say(what);
        const unsigned rings = rings_of(*places);
        report_.ended_early =
            carry_out({head_, options_, workers_.peers, losses_}, {number, std::move(*places), rings}, run,
                      time_.deadline, [&](const ResultRow& row) {
                          progress_.show(format_text("{}: {} of {}: {:.1f} Gb/s", what, row.operation,
                                                     format_bytes(row.bytes), row.out_of_place.busbw * 8),
                                         measure::Clock::now());
                      });
        if (!run.problem.empty()) {
            progress_.say(format_text("warning: {}", run.problem));
        }
    }

    measure::Coordinator& head_;
    const measure::World& world_;
    const Options& options_;
    measure::Progress& progress_;
    measure::TimeLimits time_;
    measure::Clock::time_point measuring_;
    Workers workers_;
    std::vector<std::string> losses_;
    Report report_;
};

} // namespace

Report coordinate_runs(measure::Coordinator& head, const measure::World& world, const Options& options,
                       measure::Progress& progress) {
    return RunSeries(head, world, options, progress).report();
}

} // namespace rdma_nccl::bench
