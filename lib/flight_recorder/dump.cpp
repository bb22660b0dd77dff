// SPDX-License-Identifier: Apache-2.0
#include "lib/flight_recorder/dump.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "lib/flight_recorder/pickle.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

namespace rdma_nccl::flight_recorder {

namespace {

// A pickle's values may be the same value many times: these bound the time.
constexpr std::size_t most_entries = 20'000; ///< PyTorch keeps 2,000, or as many as its user wants
constexpr std::size_t most_inputs = 256;
constexpr std::size_t most_dimensions = 16;
constexpr std::size_t longest_name = 40;
constexpr std::size_t longest_sizes = 40;

std::string name_at(const PickleValue& object, std::string_view key, std::size_t longest = longest_name) {
    return printable(object.at(key).text().value_or(""), longest);
}

/// -1 is PyTorch's "none".
std::uint64_t count_at(const PickleValue& object, std::string_view key) {
    return static_cast<std::uint64_t>(std::max(std::int64_t{0}, object.at(key).integer().value_or(0)));
}

/// The number of ranks in "[0, 1]". A group of all ranks may have "[]".
std::uint32_t count_ranks(std::string_view text) {
    text = trim(text);
    if (text.size() < 3 || text.front() != '[' || text.back() != ']') {
        return 0;
    }
    return static_cast<std::uint32_t>(1 + std::ranges::count(text, ','));
}

/// FNV-1a, of which 48 bits are enough to tell a job's groups apart.
std::uint64_t hash_of(std::string_view text) {
    std::uint64_t hash = 0xcbf2'9ce4'8422'2325;
    for (const char c : text) {
        hash = (hash ^ static_cast<unsigned char>(c)) * 0x100'0000'01b3;
    }
    return hash >> 16U;
}

std::uint64_t product(std::uint64_t one, std::int64_t other) {
    std::uint64_t result = 0;
    return other < 0 || __builtin_mul_overflow(one, static_cast<std::uint64_t>(other), &result) ? 0 : result;
}

void add_inputs(Collective& collective, const PickleValue& entry) {
    const auto tensors = entry.at("input_sizes");
    for (std::size_t i = 0; i < std::min(tensors.size(), most_inputs); ++i) {
        std::uint64_t elements = 1;
        std::vector<std::string> lengths;
        const auto tensor = tensors.item(i);
        for (std::size_t dimension = 0; dimension < std::min(tensor.size(), most_dimensions); ++dimension) {
            const auto length = tensor.item(dimension).integer().value_or(0);
            elements = product(elements, length);
            lengths.push_back(std::to_string(length));
        }
        collective.elements += elements;
        if (i == 0) {
            collective.sizes = printable(format_text("[{}]", joined(lengths)), longest_sizes);
        }
    }
    if (tensors.size() > 1) {
        collective.sizes += format_text(" and {} more", tensors.size() - 1);
    }
    collective.type = printable(entry.at("input_dtypes").item(0).text().value_or(""), longest_name);
}

std::optional<CollectiveState> state_of(const PickleValue& entry) {
    const auto text = entry.at("state").text().value_or("");
    if (entry.at("time_discovered_completed_ns").integer() || text == "completed") {
        return CollectiveState::Completed;
    }
    return text == "started"     ? std::optional(CollectiveState::Started)
           : text == "scheduled" ? std::optional(CollectiveState::Scheduled)
                                 : std::nullopt;
}

std::optional<Collective> collective_of(const PickleValue& entry) {
    const auto sequence = entry.at("collective_seq_id").integer();
    const auto state = state_of(entry);
    if (entry.at("is_p2p").boolean().value_or(false) || !sequence || *sequence < 1 || !state) {
        return std::nullopt;
    }
    const auto name = entry.at("profiling_name").text().value_or("");
    const auto colon = name.find(':'); // "nccl:all_reduce"
    Collective collective{.sequence = static_cast<std::uint64_t>(*sequence),
                          .name = printable(name.substr(colon == std::string_view::npos ? 0 : colon + 1), longest_name),
                          .state = *state};
    add_inputs(collective, entry);
    return collective;
}

/// Collects the groups of a dump by their names.
class Groups {
public:
    void add_configured(const PickleValue& configured) {
        for (std::size_t i = 0; i < std::min(configured.size(), most_entries); ++i) {
            auto* const group = find(printable(configured.key(i).text().value_or(""), longest_name));
            if (group != nullptr) {
                const auto ranks = configured.value(i).at("ranks").text().value_or("");
                group->description = name_at(configured.value(i), "desc");
                group->ranks = count_ranks(ranks);
                group->members = hash_of(ranks);
            }
        }
    }

    void add_entries(const PickleValue& entries) {
        lost_entries_ = entries.item(0).at("record_id").integer().value_or(0) > 0;
        for (std::size_t i = 0; i < std::min(entries.size(), most_entries); ++i) {
            const auto entry = entries.item(i);
            const auto title = entry.at("process_group"); // name and description
            auto* const group = find(printable(title.item(0).text().value_or(""), longest_name));
            auto collective = group == nullptr ? std::nullopt : collective_of(entry);
            if (group != nullptr && entry.at("is_p2p").boolean().value_or(false)) {
                sends_.insert(group->name);
            }
            if (collective) {
                if (const auto id = entry.at("pg_id").integer()) {
                    names_.emplace(*id, group->name);
                }
                group->description = printable(title.item(1).text().value_or(""), longest_name);
                add(*group, std::move(*collective));
            }
        }
    }

    /// PyTorch's own account, which is right also where the recorder has lost old entries. Its keys are the numbers
    /// of the groups, which only the entries connect to their names. Where a group sends and receives, the last one may
    /// be such, which has a number of another sequence (initWork() in ProcessGroupNCCL.cpp).
    void add_status(const PickleValue& status) {
        for (std::size_t i = 0; i < std::min(status.size(), most_entries); ++i) {
            const auto id = parse_number<std::int64_t>(status.key(i).text().value_or(""));
            const auto known = id ? names_.find(*id) : names_.end();
            if (known != names_.end() && !sends_.contains(known->second)) {
                const auto row = status.value(i);
                auto& progress = groups_.at(known->second).progress;
                progress.enqueued = std::max(progress.enqueued, count_at(row, "last_enqueued_collective"));
                progress.started = std::max(progress.started, count_at(row, "last_started_collective"));
                progress.completed = std::max(progress.completed, count_at(row, "last_completed_collective"));
            }
        }
    }

    std::vector<ProcessGroup> take() {
        for (auto& [name, group] : groups_) {
            // A collective that failed stays without an end, while those after it may have completed.
            auto& pending = pending_[name];
            const auto oldest = pending.upper_bound(group.progress.completed);
            if (oldest != pending.end()) {
                group.pending = std::move(oldest->second);
            }
        }
        auto all = mapped(groups_, [](const auto& entry) { return entry.second; });
        std::erase_if(all, [this](const auto& group) { return lost_entries_ && group.progress.enqueued == 0; });
        return all;
    }

private:
    ProcessGroup* find(const std::string& name) {
        const auto known = groups_.find(name);
        if (known != groups_.end()) {
            return &known->second;
        }
        if (name.empty() || groups_.size() == most_groups) {
            return nullptr;
        }
        auto& group = groups_[name];
        group.name = name;
        return &group;
    }

    void add(ProcessGroup& group, Collective collective) {
        auto& progress = group.progress;
        progress.enqueued = std::max(progress.enqueued, collective.sequence);
        if (collective.state >= CollectiveState::Started) {
            progress.started = std::max(progress.started, collective.sequence);
        }
        if (collective.state == CollectiveState::Completed) {
            progress.completed = std::max(progress.completed, collective.sequence);
        } else { // of coalesced ones, which have one number, the first
            pending_[group.name].emplace(collective.sequence, std::move(collective));
        }
    }

    std::map<std::string, ProcessGroup> groups_;
    std::map<std::string, std::map<std::uint64_t, Collective>> pending_; ///< by group and sequence
    std::set<std::string> sends_;                                        ///< groups with sends and receives
    bool lost_entries_ = false;                                          ///< a group without an entry may have had some
    std::map<std::int64_t, std::string> names_; ///< of groups, by their numbers in this process
};

} // namespace

Result<Dump> parse_dump(std::string_view bytes, std::uint32_t rank) {
    const auto pickle = Pickle::parse(bytes);
    if (!pickle) {
        return tl::unexpected(pickle.error());
    }
    const auto root = pickle->root();
    const auto version = root.at("version").text();
    if (!version || !version->starts_with("2.")) {
        return fail("not a dump of PyTorch's flight recorder, version 2");
    }
    Groups groups;
    groups.add_configured(root.at("pg_config"));
    groups.add_entries(root.at("entries"));
    groups.add_status(root.at("pg_status"));
    return Dump{printable(*version, longest_name), rank, groups.take()};
}

} // namespace rdma_nccl::flight_recorder
