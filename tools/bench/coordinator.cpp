// SPDX-License-Identifier: Apache-2.0
#include "lib/base/json.h"
#include "tools/bench/bench.h"

#include "lib/base/byte_units.h"
#include "lib/base/format.h"
#include "tools/bench/run.h"
#include "tools/bench/start_order.h"
#include "tools/common/wall_time.h"
#include "tools/measure/command.h"

#include <algorithm>
#include <climits>
#include <set>

namespace rdma_nccl {

namespace {

using std::chrono::milliseconds;

constexpr std::size_t most_names = 8;

class Lead {
public:
    Lead(MeasureHead& head, const MeasureWorld& world, const BenchOptions& options, PairsProgress& progress)
        : head_(head), world_(world), options_(options), progress_(progress), time_(options) {
        report_.started = wall_time_text(wall_time_us());
        report_.host = options.host;
    }

    BenchReport report() {
        if (gather() && is_possible()) {
            measure();
        }
        for (unsigned member = 0; member < world_.members; ++member) {
            head_.send(member, {{"do", "end"}});
        }
        progress_.clear();
        report_.seconds = time_.seconds();
        return std::move(report_);
    }

private:
    // --- Members ---

    /// Waits for the members. Returns false if the measurement ends before it starts.
    bool gather() {
        const auto everybody = [this] { return joined_.size() >= world_.members; };
        report_.ended_early =
            await_members(head_, time_, progress_,
                          {.complete = everybody,
                           .missing = [this] { return missing(); },
                           .join = [this](unsigned member, const Json& hello) { join(member, hello); },
                           .lose = [this](unsigned member, const std::string& why) { lose(member, why); }});
        if (!report_.ended_early.empty()) {
            return false;
        }
        if (!everybody()) {
            progress_.say(format_text("warning: going on without {}, which did not come within {}", missing(),
                                      duration_text(options_.join_time)));
        }
        if (!options_.host) {
            share();
        }
        describe();
        return true;
    }

    /// Assigns each GPU to one member.
    void share() {
        std::vector<BenchSight> sights;
        for (const auto& [member, peer] : peers_) {
            sights.push_back({peer.offer.node, peer.local, nodes_.at(member).pci});
            sights.back().gpus.resize(nodes_.at(member).problem.empty() ? sights.back().gpus.size() : 0);
        }
        const auto shares = share_gpus(sights);
        std::size_t next = 0;
        for (auto& [member, peer] : peers_) {
            const bool sees = !sights[next].gpus.empty();
            peer.gpus = shares[next++];
            peer.offer.gpus = static_cast<unsigned>(peer.gpus.size()) * options_.ranks_per_gpu;
            if (sees && peer.gpus.empty() && world_.ranks) {
                problems_.push_back(format_text("task {} of {} has no GPU: other tasks use all those that it sees; "
                                                "start one task for each GPU",
                                                peer.local, peer.offer.node));
            }
        }
    }

    void join(unsigned member, const Json& hello) {
        joined_.insert(member);
        auto node = read_bench_node(hello);
        if (!node) {
            problems_.push_back(format_text("member {}: {}", member, node.error().message));
            return;
        }
        BenchPeer peer;
        peer.offer = {member, node->name, node->places};
        peer.local = node->local;
        peer.rails = static_cast<unsigned>(node->rails.size());
        if (!node->problem.empty()) {
            problems_.push_back(format_text("{}: {}", peer.offer.node, node->problem));
        }
        peers_.emplace(member, std::move(peer));
        nodes_.emplace(member, std::move(*node));
    }

    void lose(unsigned member, const std::string& why) {
        if (const auto peer = peers_.find(member); peer != peers_.end()) {
            problems_.push_back(format_text("{} is gone: {}", peer->second.offer.node, why));
            peers_.erase(peer);
        }
    }

    [[nodiscard]] std::string missing() const {
        std::string names;
        std::size_t count = 0;
        for (unsigned member = 0; member < world_.members; ++member) {
            if (!joined_.contains(member) && ++count <= most_names) {
                names += format_text("{}{}", names.empty() ? "" : ", ", member);
            }
        }
        return format_text("task{} {}{}", count == 1 ? "" : "s", names,
                           count > most_names ? format_text(" and {} more", count - most_names) : "");
    }

    void describe() {
        std::set<std::string> nodes;
        std::set<std::string> gpus;
        for (const auto& [member, peer] : peers_) {
            if (nodes.insert(peer.offer.node).second) {
                report_.nodes.push_back(peer.offer.node);
            }
            const auto& node = nodes_.at(member);
            for (const auto& name : node.gpus) {
                if (gpus.insert(name).second) {
                    report_.gpus.push_back(name);
                }
            }
            for (const auto& rail : node.rails) {
                report_.software = report_.software || rail.software;
            }
        }
    }

    [[nodiscard]] std::vector<BenchOffer> offers() const {
        std::vector<BenchOffer> offers;
        for (const auto& [member, peer] : peers_) {
            offers.push_back(peer.offer);
        }
        return offers;
    }

    /// Names the nodes with different NCCL versions. NCCL refuses to connect their ranks, but its message does not name
    /// them.
    [[nodiscard]] std::string words_of_versions() const {
        std::map<int, const BenchNode*> versions;
        std::map<int, std::string> names;
        for (const auto& [member, peer] : peers_) {
            const auto& node = nodes_.at(member);
            if (node.places > 0 && node.version != 0 && versions.emplace(node.version, &node).second) {
                names[node.version] = peer.offer.node;
            }
        }
        if (versions.size() < 2) {
            return {};
        }
        return format_text("{} has {}, but {} has {}: all nodes need the same (--nccl)", names.begin()->second,
                           versions.begin()->second->library_text, names.rbegin()->second,
                           versions.rbegin()->second->library_text);
    }

    bool is_possible() {
        unsigned places = 0;
        for (const auto& offer : offers()) {
            places += offer.gpus;
        }
        const auto versions = words_of_versions();
        const bool possible = (places >= 2 || (places == 1 && options_.ranks == std::vector{1U})) && versions.empty();
        const std::size_t told_at_the_end = places == 0 ? 1 : 0;
        for (std::size_t i = told_at_the_end; i < std::min<std::size_t>(problems_.size(), most_names); ++i) {
            progress_.say(format_text("warning: {}", problems_[i]));
        }
        if (possible) {
            return true;
        }
        if (!versions.empty()) {
            report_.ended_early = versions;
        } else if (places == 0) {
            report_.ended_early = problems_.empty() ? "no GPU" : problems_.front();
            report_.ended_early += options_.host ? "" : "; rdma-nccl bench --host measures without GPUs";
        } else {
            report_.ended_early =
                format_text("only one {}: there is nothing to measure between; start it on more nodes: srun "
                            "--rdma-nccl -N 2 ... rdma-nccl bench",
                            options_.host ? "node" : "GPU");
        }
        return false;
    }

    // --- Runs ---

    struct Planned {
        unsigned ranks = 0;
        BenchKind kind = BenchKind::AsItIs;
    };

    [[nodiscard]] bool is_between_nodes(unsigned ranks) const {
        const auto places = places_for(offers(), ranks);
        return options_.host || options_.ranks_per_gpu > 1 || (places && nodes_of(offers(), *places) > 1);
    }

    [[nodiscard]] std::vector<Planned> plan() const {
        std::vector<Planned> planned;
        const auto counts = options_.ranks.empty() ? default_rank_counts(offers()) : options_.ranks;
        for (const unsigned ranks : counts) {
            for (const auto kind : kinds_of_runs(is_between_nodes(ranks), options_.without_gpu_direct)) {
                planned.push_back({ranks, kind});
            }
        }
        return planned;
    }

    /// Returns the number of rings: as many as every node has HCAs for; 0 if a node has none.
    [[nodiscard]] unsigned rings_of(const std::vector<GpuSlot>& places) const {
        unsigned rings = options_.rings.value_or(UINT_MAX);
        for (const auto& place : places) {
            const auto peer = peers_.find(place.member);
            rings = peer == peers_.end() ? rings : std::min(rings, peer->second.rails);
        }
        return rings;
    }

    /// Estimates the time left from the average time of the runs so far.
    [[nodiscard]] std::string time_left(std::size_t done, std::size_t all) const {
        if (done == 0) {
            return "";
        }
        const auto spent = std::chrono::duration_cast<milliseconds>(MeasureClock::now() - measuring_);
        const auto left = spent * static_cast<std::int64_t>(all - done) / static_cast<std::int64_t>(done);
        return format_text(", about {} left", duration_text(left));
    }

    void measure() {
        const auto planned = plan();
        measuring_ = MeasureClock::now();
        for (std::size_t i = 0; i < planned.size(); ++i) {
            const auto [ranks, kind] = planned[i];
            auto run = options_.host ? make_host_run(kind, ranks) : make_run(kind, ranks);
            const auto places = places_for(offers(), ranks);
            if (!places) {
                run.problem = format_text("there are not {} {}{}", ranks, options_.host ? "nodes" : "GPUs",
                                          losses_.empty() ? "" : format_text(": {}", losses_.back()));
                report_.runs.push_back(std::move(run));
                continue;
            }
            run.nodes = static_cast<unsigned>(nodes_of(offers(), *places));
            const auto what =
                format_text("run {} of {}: {} {}, {} ({}){}", i + 1, planned.size(), ranks,
                            options_.host ? "nodes" : "GPUs", run.name, run.what, time_left(i, planned.size()));
            progress_.say(what);
            BenchRunLead lead({head_, peers_, losses_}, options_, *places, std::move(run), static_cast<int>(i),
                              rings_of(*places));
            const auto end = lead.carry_out(time_.deadline, [&](const BenchRow& row) {
                progress_.show(format_text("{}: {} of {}: {:.1f} Gb/s", what, row.operation, bytes_text(row.bytes),
                                           row.out_of_place.busbw * 8),
                               MeasureClock::now());
            });
            report_.runs.push_back(lead.take());
            if (!report_.runs.back().problem.empty()) {
                progress_.say(format_text("warning: {}", report_.runs.back().problem));
            }
            if (end != RunEnd::Done) {
                report_.ended_early = end == RunEnd::Interrupted ? "interrupted" : "time limit";
                return;
            }
        }
    }

    MeasureHead& head_;
    const MeasureWorld& world_;
    const BenchOptions& options_;
    PairsProgress& progress_;
    MeasureTime time_;
    MeasureClock::time_point measuring_;
    std::set<unsigned> joined_;
    std::map<unsigned, BenchPeer> peers_;
    std::map<unsigned, BenchNode> nodes_;
    std::vector<std::string> problems_, losses_;
    BenchReport report_;
};

} // namespace

BenchReport lead_bench(MeasureHead& head, const MeasureWorld& world, const BenchOptions& options,
                       PairsProgress& progress) {
    return Lead(head, world, options, progress).report();
}

} // namespace rdma_nccl
