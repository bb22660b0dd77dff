// SPDX-License-Identifier: Apache-2.0
#include "tools/pairs/roster.h"

#include "lib/base/format.h"
#include "lib/base/text.h"

namespace rdma_nccl::pairs {

namespace {

constexpr unsigned most_timeouts = 2;

/// Adds a number to nodes that report the same name.
void make_unique(std::vector<measure::Node>& nodes) {
    std::map<std::string, unsigned> seen;
    for (auto& node : nodes) {
        if (const unsigned before = seen[node.name]++; before > 0) {
            node.host = node.name;
            node.name += format_text("#{}", before + 1);
        }
    }
}

} // namespace

// There may be 8,000 workers, so work done for each event must not iterate over all of them.
NodeRoster::NodeRoster(const measure::World& world) : world_(world) {
    for (unsigned worker = 0; worker < world.workers; ++worker) {
        absent_.insert(absent_.end(), worker);
    }
}

void NodeRoster::join(unsigned worker, const Json& hello) {
    auto& joined = joined_[worker];
    joined = {hello.value("local", Json()).integer<unsigned>().value_or(0), {}};
    auto node = measure::parse_node(hello.value("node", Json()));
    if (node) {
        joined.node = std::move(*node);
        joined.node.name = printable(joined.node.name, 64);
    } else {
        joined.node.name = world_.name_of(worker);
        joined.node.problem = node.error().message;
    }
    if (absent_.erase(worker) > 0 && gone_.contains(worker)) {
        --gone_before_;
    }
}

void NodeRoster::lose(unsigned worker, const std::string& why) {
    if (gone_.insert_or_assign(worker, why).second && absent_.contains(worker)) {
        ++gone_before_;
    }
}

std::string NodeRoster::missing(std::size_t most) const {
    std::set<std::string> names;
    std::string text;
    for (const unsigned worker : absent_) {
        auto name = world_.name_of(worker);
        if (names.insert(name).second && names.size() <= most) {
            text += (names.size() == 1 ? "" : ", ") + name;
        }
    }
    return names.size() > most ? format_text("{} and {} more", text, names.size() - most) : text;
}

void NodeRoster::close(const std::string& problem) {
    std::set<std::string> names;
    for (const auto& [worker, joined] : joined_) {
        if (joined.local == 0) {
            nodes_.push_back(joined.node);
            workers_.push_back(worker);
        }
        names.insert(joined.node.name);
    }
    for (const unsigned worker : absent_) {
        if (!problem.empty() && names.insert(world_.name_of(worker)).second) {
            nodes_.push_back({world_.name_of(worker), {}, problem});
            workers_.push_back(worker);
        }
    }
    for (unsigned node = 0; node < workers_.size(); ++node) {
        nodes_of_[workers_[node]] = node;
    }
    make_unique(nodes_);
}

std::optional<unsigned> NodeRoster::node_of(unsigned worker) const {
    const auto found = nodes_of_.find(worker);
    return found == nodes_of_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<std::string> NodeRoster::why_unusable(unsigned node) const {
    const auto& name = nodes_.at(node).name;
    if (const auto gone = gone_.find(workers_.at(node)); gone != gone_.end()) {
        return format_text("{} is gone: {}", name, gone->second);
    }
    if (const auto timeouts = timeouts_.find(node); timeouts != timeouts_.end() && timeouts->second >= most_timeouts) {
        return format_text("{} does not answer", name);
    }
    return std::nullopt;
}

void NodeRoster::note_answer(unsigned worker) {
    if (const auto node = node_of(worker)) {
        timeouts_.erase(*node);
    }
}

} // namespace rdma_nccl::pairs
