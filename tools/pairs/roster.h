// SPDX-License-Identifier: Apache-2.0
// The workers as the coordinator knows them: the node of each, which are gone, and which do not answer.
#pragma once

#include "lib/base/json.h"
#include "tools/measure/channel.h"
#include "tools/measure/rails.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace rdma_nccl::pairs {

class NodeRoster {
public:
    /// `world` outlives this.
    explicit NodeRoster(const measure::World& world);

    /// Adds a worker by its hello: {"local": 0, "node": ...}. The one with local number 0 measures for its node.
    void join(unsigned worker, const Json& hello);
    void lose(unsigned worker, const std::string& why);
    /// Returns whether all workers have joined, except those that are gone.
    [[nodiscard]] bool complete() const { return absent_.size() <= gone_before_; }
    /// Returns "n03, n07" to show progress, with at most `most` names.
    [[nodiscard]] std::string missing(std::size_t most = 8) const;

    /// Assigns numbers to the nodes, in the order of their workers. Nodes that have not joined come last, with
    /// `problem`; if that is empty, they are left out.
    void close(const std::string& problem);

    [[nodiscard]] const std::vector<measure::Node>& nodes() const { return nodes_; }
    [[nodiscard]] unsigned worker_of(unsigned node) const { return workers_.at(node); }
    /// Returns nullopt for a worker that measures for no node.
    [[nodiscard]] std::optional<unsigned> node_of(unsigned worker) const;
    /// Returns why nothing can be measured with that node any more: "n07 is gone: its process has ended".
    [[nodiscard]] std::optional<std::string> why_unusable(unsigned node) const;
    /// The node exceeded a time limit. After the second time it is not asked again until it sends something.
    void note_timeout(unsigned node) { ++timeouts_[node]; }
    void note_answer(unsigned worker);
    [[nodiscard]] bool was_unresponsive(unsigned node) const { return timeouts_.contains(node); }

private:
    const measure::World& world_;
    std::set<unsigned> absent_; ///< workers that have not joined
    unsigned gone_before_ = 0;  ///< number of absent workers that are gone
    struct Joined {
        unsigned local = 0;
        measure::Node node;
    };
    std::map<unsigned, Joined> joined_;
    std::map<unsigned, std::string> gone_; ///< by worker
    std::vector<measure::Node> nodes_;
    std::vector<unsigned> workers_;         ///< of each node
    std::map<unsigned, unsigned> nodes_of_; ///< by worker
    std::map<unsigned, unsigned> timeouts_; ///< by node
};

} // namespace rdma_nccl::pairs
