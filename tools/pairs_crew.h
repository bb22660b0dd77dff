// SPDX-License-Identifier: Apache-2.0
// The members as the head knows them: which node each works for, who is gone, who does not answer.
#pragma once

#include "lib/json.h"
#include "lib/step.h"
#include "tools/measure_control.h"
#include "tools/measure_world.h"
#include "tools/pairs_values.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace rdma_nccl {

class PairsCrew {
public:
    PairsCrew(const MeasureWorld& world, const Step& step);

    /// What a member says of itself: {"local": 0, "node": ...}. The first of each node works for it.
    void join(unsigned member, const Json& hello);
    void lose(unsigned member, const std::string& why);
    /// Whether all that are left have joined.
    [[nodiscard]] bool complete() const;
    /// "n03, n07", for progress; at most so many names.
    [[nodiscard]] std::string missing(std::size_t most = 8) const;

    /// From now on nodes have their numbers: in the order of their members, those that have not come behind, with the
    /// problem; without one they do not count.
    void close(const std::string& problem);

    [[nodiscard]] const std::vector<PairNode>& nodes() const { return nodes_; }
    [[nodiscard]] unsigned member_of(unsigned node) const { return members_.at(node); }
    /// nullopt: works for none.
    [[nodiscard]] std::optional<unsigned> node_of(unsigned member) const;
    /// Why nothing can be measured with that node any more: "n07 is gone: its process has ended".
    [[nodiscard]] std::optional<std::string> useless(unsigned node) const;
    /// It has let a limit pass; after the second time it is not asked again, until it is heard of.
    void note_silence(unsigned node);
    void note_answer(unsigned member);
    [[nodiscard]] bool was_silent(unsigned node) const { return silences_.contains(node); }

private:
    [[nodiscard]] std::string name_of(unsigned member) const;

    std::vector<std::string> names_; ///< of the nodes of all tasks; empty: unknown
    std::set<unsigned> absent_;      ///< members that have not joined
    unsigned gone_before_ = 0;       ///< of them those that will not
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
