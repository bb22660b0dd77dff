// SPDX-License-Identifier: Apache-2.0
// The members as the head knows them: the node that each works for, who is gone, and who does not answer.
#pragma once

#include "lib/base/json.h"
#include "lib/slurm/step.h"
#include "tools/measure/channel.h"
#include "tools/measure/rails.h"
#include "tools/pairs/model.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace rdma_nccl {

class NodeRoster {
public:
    NodeRoster(const MeasureWorld& world, const Step& step);

    /// Adds a member by its hello: {"local": 0, "node": ...}. The member with local number 0 works for its node.
    void join(unsigned member, const Json& hello);
    void lose(unsigned member, const std::string& why);
    /// Returns whether all members have joined, except those that are gone.
    [[nodiscard]] bool complete() const;
    /// Returns "n03, n07" to show progress, with at most `most` names.
    [[nodiscard]] std::string missing(std::size_t most = 8) const;

    /// Assigns numbers to the nodes, in the order of their members. Nodes that have not joined come last, with
    /// `problem`; if that is empty, they are left out.
    void close(const std::string& problem);

    [[nodiscard]] const std::vector<PairNode>& nodes() const { return nodes_; }
    [[nodiscard]] unsigned member_of(unsigned node) const { return members_.at(node); }
    /// Returns nullopt for a member that works for no node.
    [[nodiscard]] std::optional<unsigned> node_of(unsigned member) const;
    /// Returns why nothing can be measured with that node any more: "n07 is gone: its process has ended".
    [[nodiscard]] std::optional<std::string> useless(unsigned node) const;
    /// Records that the node exceeded a time limit. After the second time it is not asked again until it sends
    /// something.
    void note_silence(unsigned node);
    void note_answer(unsigned member);
    [[nodiscard]] bool was_silent(unsigned node) const { return silences_.contains(node); }

private:
    [[nodiscard]] std::string name_of(unsigned member) const;

    std::vector<std::string> names_; ///< node of each task; empty: unknown
    std::set<unsigned> absent_;      ///< members that have not joined
    unsigned gone_before_ = 0;       ///< number of absent members that are gone
    struct Joined {
        unsigned local = 0;
        PairNode node;
    };
    std::map<unsigned, Joined> joined_;
    std::map<unsigned, std::string> gone_; ///< by member
    std::vector<PairNode> nodes_;
    std::vector<unsigned> members_;         ///< of each node
    std::map<unsigned, unsigned> nodes_of_; ///< by member
    std::map<unsigned, unsigned> silences_; ///< by node
};

} // namespace rdma_nccl
