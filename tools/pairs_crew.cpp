// SPDX-License-Identifier: Apache-2.0
#include "tools/pairs_crew.h"

#include "lib/format.h"
#include "lib/text.h"
#include "tools/pairs_node.h"

#include <algorithm>
#include <set>

namespace rdma_nccl {

namespace {

constexpr unsigned most_silences = 2;

/// The node of each task, where tasks are numbered node by node; empty where that is not known.
std::vector<std::string> nodes_of_tasks(const Step& step, unsigned members) {
    std::vector<std::string> names;
    const bool block = step.distribution.empty() || step.distribution.starts_with("block");
    for (std::size_t i = 0; i < step.nodes.size(); ++i) {
        const unsigned tasks = i < step.tasks_per_node.size() ? step.tasks_per_node[i] : 1;
        names.insert(names.end(), tasks, step.nodes[i]);
    }
    const bool one_each = step.nodes.size() == members;
    return one_each ? step.nodes : block && names.size() == members ? names : std::vector<std::string>();
}

/// Nodes that say the same name are told apart.
void make_unique(std::vector<PairNode>& nodes) {
    std::map<std::string, unsigned> seen;
    for (auto& node : nodes) {
        if (const unsigned before = seen[node.name]++; before > 0) {
            node.name += format_text("#{}", before + 1);
        }
    }
}

} // namespace

void PairsCrew::join(unsigned member, const nlohmann::json& hello) {
    Joined joined;
    joined.local = hello.value("local", nlohmann::json()).is_number_unsigned() ? hello["local"].get<unsigned>() : 0;
    auto node = read_pair_node(hello.value("node", nlohmann::json()));
    if (node) {
        joined.node = std::move(*node);
        joined.node.name = printable(joined.node.name, 64);
    } else {
        joined.node.name = name_of(member);
        joined.node.problem = node.error().message + "; is rdma-nccl the same on all nodes?";
    }
    joined_[member] = std::move(joined);
}

void PairsCrew::lose(unsigned member, const std::string& why) {
    gone_[member] = why;
}

bool PairsCrew::complete() const {
    std::size_t gone_before = 0;
    for (const auto& [member, why] : gone_) {
        gone_before += joined_.contains(member) ? 0U : 1U;
    }
    return joined_.size() + gone_before >= world_.members;
}

std::string PairsCrew::name_of(unsigned member) const {
    const auto names = nodes_of_tasks(step_, world_.members);
    return member < names.size() ? names[member] : format_text("member {}", member);
}

std::string PairsCrew::missing(std::size_t most) const {
    std::vector<std::string> names;
    for (unsigned member = 0; member < world_.members; ++member) {
        auto name = joined_.contains(member) ? "" : name_of(member);
        if (!name.empty() && std::find(names.begin(), names.end(), name) == names.end()) {
            names.push_back(std::move(name));
        }
    }
    std::string text;
    for (std::size_t i = 0; i < std::min(most, names.size()); ++i) {
        text += (i == 0 ? "" : ", ") + names[i];
    }
    return names.size() > most ? format_text("{} and {} more", text, names.size() - most) : text;
}

void PairsCrew::close(const std::string& problem) {
    std::set<std::string> names;
    for (const auto& [member, joined] : joined_) {
        if (joined.local == 0) {
            nodes_.push_back(joined.node);
            members_.push_back(member);
        }
        names.insert(joined.node.name);
    }
    for (unsigned member = 0; member < world_.members; ++member) {
        if (!problem.empty() && !joined_.contains(member) && names.insert(name_of(member)).second) {
            nodes_.push_back({name_of(member), {}, problem});
            members_.push_back(member);
        }
    }
    make_unique(nodes_);
}

std::optional<unsigned> PairsCrew::node_of(unsigned member) const {
    const auto found = std::find(members_.begin(), members_.end(), member);
    return found == members_.end() ? std::nullopt : std::optional(static_cast<unsigned>(found - members_.begin()));
}

std::optional<std::string> PairsCrew::useless(unsigned node) const {
    const auto& name = nodes_.at(node).name;
    if (const auto gone = gone_.find(members_.at(node)); gone != gone_.end()) {
        return format_text("{} is gone: {}", name, gone->second);
    }
    if (const auto silent = silences_.find(node); silent != silences_.end() && silent->second >= most_silences) {
        return format_text("{} does not answer", name);
    }
    return std::nullopt;
}

void PairsCrew::note_silence(unsigned node) {
    ++silences_[node];
}

void PairsCrew::note_answer(unsigned member) {
    if (const auto node = node_of(member)) {
        silences_.erase(*node);
    }
}

} // namespace rdma_nccl
